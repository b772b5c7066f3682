// An experiment on the page: while it runs, its outcome, and its source.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { t } from '../i18n.js';
import { Stop, Table, SIGNS, number, shadeOf, textOr } from './result.js';
import { Source } from './strategy.js';
import { Timelines } from './timeline.js';

// The order of the figures in a row. Figures that are not named here come last.
const FIGURES = ['conns', 'tries', 'let_in', 'asked', 'entries', 'redis', 'bot', 'bots', 'people', 'fast', 'slow', 'alive', 'bound', 'waiting', 'messages',
  'served', 'refused', 'kept', 'kb', 'good', 'wasted', 'end_good', 'late', 'p50_ms', 'told', 'turns', 'per_second', 'p99_ms', 'held_ms', 'wait_ms', 'stay_ms', 'law', 'inside',
  'orders', 'paid', 'refunded', 'put_back', 'both', 'units', 'reads', 'read_us', 'sql', 'at_once',
  'stale', 'longest_ms', 'stays_old', 'first_s', 'last_s', 'pages', 'table_kb',
  'lost', 'beyond', 'twice', 'again', 'dead',
  'cold', 'cold_refused', 'behind', 'cold_p99_ms', 'hot_p99_ms', 'hot_per_s'];
const positionOf = (figure) => (FIGURES.indexOf(figure) + 1 || FIGURES.length + 1);

// group splits the rows into tables: a row joins the first table that has all its columns.
function group(rows) {
  const tables = [];
  for (const row of rows) {
    const columns = Object.keys(row.figures).sort((a, b) => positionOf(a) - positionOf(b));
    const table = tables.find((other) => columns.every((c) => other.columns.includes(c)));
    if (table) table.rows.push(row);
    else tables.push({ columns, rows: [row] });
  }
  return tables;
}

const shown = (n) => number(n, n % 1 ? 2 : 0);
const nameOf = (variant) => textOr('experiment.', variant);

// DRAWN are the figures that show what an experiment is about. Of a table the first two are drawn.
const DRAWN = ['let_in', 'bot', 'people', 'bots', 'slow', 'alive', 'kept', 'units', 'stays_old', 'stale', 'lost', 'beyond', 'wasted', 'end_good', 'pages', 'last_s',
  'law', 'inside', 'per_second', 'held_ms', 'p99_ms', 'late', 'cold_refused', 'behind', 'sql', 'at_once', 'read_us'];
const drawnOf = (columns) => DRAWN.filter((figure) => columns.includes(figure)).slice(0, 2);

// Drawings shows the rows of a table.
const Drawings = ({ columns, rows }) => html`<div class="charts">${drawnOf(columns).map((figure) => html`<${Drawing} key=${figure} figure=${figure} rows=${rows} />`)}</div>`;

// Drawing shows one figure of each variant as a bar; a striped one is wrong.
function Drawing({ figure, rows }) {
  const of = (row) => Number(row.figures[figure] || 0);
  const most = Math.max(...rows.map(of), 1);
  return html`<figure class="chart" data-test="drawing" data-figure=${figure}><figcaption class="more small">${textOr('figure.', figure)}</figcaption>
    <ul class="bars">${rows.map((row) => html`<li key=${row.way} data-right=${shadeOf(row)}>
      <span class="barname">${nameOf(row.way)}</span><b>${figure in row.figures ? shown(of(row)) : '–'}</b>
      <span class="meter" aria-hidden="true"><i style=${{ width: `${of(row) / most * 100}%` }}></i></span></li>`)}</ul></figure>`;
}

// LiveTrial shows an experiment at work: the variant that is tried, its figures up to now, and the bars of those before it.
export function LiveTrial({ trial, stop }) {
  const box = useRef();
  useLayoutEffect(() => box.current.scrollIntoView({ block: 'nearest' }), []);
  const ways = (trial && trial.ways) || [], rows = (trial && trial.rows) || [];
  const now = ways[rows.length];
  const figures = (trial && trial.figures) || {};
  const columns = Object.keys(figures).sort((a, b) => positionOf(a) - positionOf(b));
  return html`<section class="live" ref=${box} aria-label=${t('run.live')} data-test="live-trial">
    <div class="livehead"><h3>${now ? nameOf(now) : t('run.starting')}</h3>
      ${now && html`<span class="more">${t('run.nthWay', { n: rows.length + 1, of: ways.length })}</span>`}<${Stop} stop=${stop} /></div>
    ${now && html`<p class="more small" data-test="live-says">${textOr('experiment.says.', now)}</p>`}
    ${columns.length > 0 && html`<dl class="figures" data-test="live-figures">${columns.map((c) => html`
      <div key=${c}><dt>${textOr('figure.', c)}</dt><dd><b>${shown(figures[c])}</b></dd></div>`)}</dl>`}
    ${group(rows).map((table) => html`<${Drawings} key=${table.columns.join()} ...${table} />`)}
  </section>`;
}

// Experiment shows the outcome of an experiment: a drawing, and one row for each variant.
export function Experiment({ outcome }) {
  return html`<section class="sheet experiment" data-test="experiment"><h3 id="experiment">${t('experiment.caption')}</h3>
    ${group(outcome.rows).map(({ columns, rows }) => html`
      <${Timelines} rows=${rows} nameOf=${nameOf} />
      <${Drawings} columns=${columns} rows=${rows} />
      <${Table} key=${columns.join()} labelledby="experiment" columns=${columns.map((c) => textOr('figure.', c))} rows=${rows.map((row) => ({
        name: row.way, shown: shadeOf(row),
        head: html`<span>${nameOf(row.way)}</span><span class="verdict" data-right=${shadeOf(row)}>
          <span aria-hidden="true">${SIGNS[shadeOf(row)]} </span>${t('experiment.' + row.verdict)}</span>`,
        cells: columns.map((c) => (c in row.figures ? shown(row.figures[c]) : '–')),
      }))} />`)}
  </section>`;
}

// ExperimentSource shows the files of an experiment.
export function ExperimentSource({ name }) {
  const [files, setFiles] = useState(null);
  const [open, setOpen] = useState(0);
  useEffect(() => {
    get('/api/lab/source?experiment=' + name).then((reply) => reply.ok && setFiles(reply.data));
  }, [name]);
  if (!files) return null;
  return html`<section class="sheet lines"><h3>${t('lesson.lines')}</h3>
    ${files.length > 1 && html`<p class="row picks">${files.map((f, i) => html`
      <button key=${f.file} type="button" class="plain pick" aria-pressed=${i === open} onClick=${() => setOpen(i)}><code>${f.file}</code></button>`)}</p>`}
    <${Source} of=${{ ...files[open], text: 'source.' + files[open].file }} /></section>`;
}
