// The figures of an experiment over time, one small drawing for each variant, all with the same scales.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';
import { number, shadeOf, textOr } from './result.js';

const WIDTH = 320, HEIGHT = 96;

// Timelines draws the rows that have series. A second series of a row is dashed; a grey ground marks a stall or an outage.
export function Timelines({ rows, nameOf }) {
  const drawn = rows.filter((row) => row.series);
  if (!drawn.length) return null;
  const points = drawn.flatMap((row) => row.series.flatMap((s) => s.points));
  const longest = Math.max(...points.map(([at]) => at), 1);
  const most = Math.max(...points.map(([, n]) => n), 1);
  return html`<div class="timelines" data-test="timelines">${drawn.map((row) => html`<figure key=${row.way} class="chart" data-right=${shadeOf(row)}>
    <figcaption class="small"><b>${nameOf(row.way)}</b></figcaption>
    <div class="plot"><span class="most more">${number(most)}</span>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${sayOf(row.series)}>
        ${row.span && html`<rect x=${row.span.from * WIDTH / longest} width=${(row.span.to - row.span.from) * WIDTH / longest} y="0" height=${HEIGHT} />`}
        ${row.series.map((s, i) => html`<path key=${s.name} class=${i ? 'second' : ''} d=${pathOf(s.points, WIDTH / longest, HEIGHT / most, i === 0)} />`)}</svg>
      <span class="more begin">0</span><span class="more end">${t('timeline.seconds', { n: number(longest / 1000, 1) })}</span></div>
    <p class="more small keys2">${row.series.map((s, i) => html`<span key=${s.name}><i class=${i ? 'second' : null} aria-hidden="true"></i>${textOr('figure.', s.name)}</span>`)}
      ${row.span && html`<span><i class="span" aria-hidden="true"></i>${textOr('figure.', row.span.name)}</span>`}</p>
  </figure>`)}</div>`;
}

// pathOf returns the line through the points, and to the ground at both ends if the area below it is filled.
function pathOf(points, x, y, filled) {
  const at = ([when, n]) => `${(when * x).toFixed(1)} ${(HEIGHT - n * y).toFixed(1)}`;
  const line = points.map(at).join('L');
  return filled ? `M${at([points[0][0], 0])}L${line}L${at([points.at(-1)[0], 0])}` : 'M' + line;
}

// sayOf is the drawing in words: the most of each series, and when.
const sayOf = (series) => series.map((s) => {
  const [when, n] = s.points.reduce((a, b) => (b[1] > a[1] ? b : a));
  return t('timeline.says', { name: textOr('figure.', s.name), n: number(n), at: number(when / 1000, 1) });
}).join(t('comma'));
