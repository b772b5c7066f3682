// Price against speed: one point for each strategy of a run. Both axes are logarithmic, because strategies differ a thousandfold. A
// point has a number, and the table beside it says whose it is, so nothing depends on seeing the drawing.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Table, Verdict, nameOf, number, shownAs, speed } from './result.js';

const WIDTH = 400, HEIGHT = 300, LEFT = 42, BOTTOM = 34, TOP = 10, RIGHT = 24, RADIUS = 9;
const FEWEST = 3; // strategies: fewer are compared more easily by their bars

const callsOf = (r) => (r.sql_per_order || 0) + (r.redis_per_order || 0);

// Scatter shows the strategies that have sold something.
export function Scatter({ results }) {
  const drawn = results.filter((r) => !r.error && r.sold > 0 && r.per_second > 0);
  if (drawn.length < FEWEST) return null;
  const x = axis(drawn.map((r) => r.per_second), LEFT, WIDTH - RIGHT);
  const y = axis(drawn.map(callsOf), HEIGHT - BOTTOM, TOP);
  const points = spread(drawn.map((r) => ({ r, x: x.at(r.per_second), y: y.at(callsOf(r)) })));
  return html`<section class="sheet scatter" data-test="scatter"><h3 id="scatter">${t('scatter.title')}</h3>
    <p class="more small">${t('scatter.more')}</p>
    <div class="beside"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${t('scatter.says', { n: drawn.length })}>
      ${x.ticks.map((n) => html`<g key=${'x' + n}><line x1=${x.at(n)} x2=${x.at(n)} y1=${TOP} y2=${HEIGHT - BOTTOM} />
        <text x=${x.at(n)} y=${HEIGHT - BOTTOM + 14} text-anchor="middle">${number(n, n < 1 ? 1 : 0)}</text></g>`)}
      ${y.ticks.map((n) => html`<g key=${'y' + n}><line x1=${LEFT} x2=${WIDTH - RIGHT} y1=${y.at(n)} y2=${y.at(n)} />
        <text x=${LEFT - 5} y=${y.at(n) + 4} text-anchor="end">${number(n, n < 1 ? 1 : 0)}</text></g>`)}
      <text class="axis" x=${WIDTH - RIGHT} y=${HEIGHT - 4} text-anchor="end">${t('scatter.speed')} →</text>
      <text class="axis" x=${LEFT + 4} y=${TOP + 10}>↑ ${t('scatter.price')}</text>
      ${points.map((p, i) => html`<g key=${p.r.strategy} class="point" data-right=${shownAs(p.r)}>
        ${p.y !== p.from && html`<line x1=${p.x} x2=${p.x} y1=${p.from} y2=${p.y} />`}
        ${p.r.right ? html`<circle cx=${p.x} cy=${p.y} r=${RADIUS} />` : html`<rect x=${p.x - RADIUS} y=${p.y - RADIUS} width=${2 * RADIUS} height=${2 * RADIUS} />`}
        <text x=${p.x} y=${p.y + 4} text-anchor="middle">${i + 1}</text></g>`)}
    </svg>
    <${Table} labelledby="scatter" columns=${[t('scatter.speed'), t('scatter.sql'), t('scatter.redis')]} rows=${points.map(({ r }, i) => ({
      name: 'scatter-' + r.strategy, shown: shownAs(r),
      head: html`<span><b class="nth">${i + 1}</b> <a href=${'/lab.html#strategies/' + r.strategy}>${nameOf(r.strategy)}</a></span><${Verdict} of=${r} />`,
      cells: [speed(r.per_second), number(r.sql_per_order, 2), number(r.redis_per_order, 2)],
    }))} /></div>
  </section>`;
}

// axis returns the powers of ten around the values, and a function from a value to its place between from and to.
function axis(values, from, to) {
  const low = Math.floor(Math.log10(Math.max(Math.min(...values), 0.1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values, 0.1))));
  const at = (n) => from + (to - from) * (Math.max(low, Math.log10(Math.max(n, 1e-9))) - low) / (high - low);
  return { at, ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)) };
}

// spread moves points that hide each other apart, up or down, the fastest first. from is where a point belongs.
function spread(points) {
  const placed = [];
  for (const p of points.sort((a, b) => b.r.per_second - a.r.per_second)) {
    const free = (y) => y >= TOP + RADIUS && y <= HEIGHT - BOTTOM - RADIUS && placed.every((q) => Math.hypot(q.x - p.x, q.y - y) >= 2 * RADIUS + 1);
    const steps = Array.from({ length: HEIGHT }, (_, i) => (i % 2 ? -1 : 1) * Math.ceil(i / 2));
    placed.push({ ...p, from: p.y, y: p.y + (steps.find((step) => free(p.y + step)) ?? 0) });
  }
  return placed;
}
