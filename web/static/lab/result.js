// A run on the page: while it runs, and its results.
import { html, useLayoutEffect, useRef } from '../lib/preact.js';
import { errorText, lang, t } from '../i18n.js';

const number = (n, digits = 0) =>
  Number(n || 0).toLocaleString(lang() === 'zh' ? 'zh-CN' : 'en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const count = (n) => number(n);
export const speed = (n) => number(n, n > 0 && n < 100 ? 1 : 0);
const each = (n) => number(n, n > 0 && n < 1 ? 2 : 1);
export const nameOf = (strategy) => t('strategy.' + strategy);

// withCode renders the text between backticks as code.
export const withCode = (text) => text.split('`').map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

// verdictOf writes the outcome of a result in words, so that it does not depend on colour alone.
export function verdictOf(r) {
  if (r.error) return t('verdict.error', { error: r.error });
  const wrong = ['oversold', 'unsold', 'duplicates', 'lost'].filter((kind) => r[kind] > 0);
  if (!wrong.length) return t(r.right ? 'verdict.exact' : 'verdict.other');
  return wrong.map((kind) => t('verdict.' + kind, { n: r[kind] })).join(t('and'));
}

export const Verdict = ({ of }) => html`<span class="verdict" data-right=${of.right ? 'yes' : 'no'}>
  <span aria-hidden="true">${of.right ? '✓' : '✗'}</span> ${verdictOf(of)}</span>`;

// Run shows a run from its start to its end.
export function Run({ run, stop }) {
  if (!run) return null;
  const { state, plan, now, results, reply } = run;
  return html`<div class="run" data-test="run" data-state=${state}>
    ${state === 'running' && html`<${Live} plan=${plan} now=${now} done=${results.length} stop=${stop} />`}
    ${(state === 'refused' || state === 'failed') && html`<p class="note" role="alert" data-test="run-note">${refusal(reply || run)}</p>`}
    ${results.length > 0 && html`<${Results} results=${results} />`}
  </div>`;
}

export const refusal = (reply) => (reply.code === 'replaced' ? t('run.replaced') : reply.code === 'busy' ? t('run.busy')
  : ['bad_request', 'too_long'].includes(reply.code) || reply.state === 'failed' ? reply.msg || t('run.failed') : errorText(reply));

// Live shows the strategy at work: the units left fall and the orders rise. Orders beyond the stock
// have a colour, a pattern and a text.
function Live({ plan, now, done, stop }) {
  const box = useRef();
  useLayoutEffect(() => box.current.scrollIntoView({ block: 'nearest' }), []);
  const strategies = plan ? plan.strategies.length : 0;
  const stock = plan ? plan.stock : 0;
  const { left = stock, sold = 0, asked = 0, buyers = plan ? plan.buyers : 0 } = now || {};
  const over = Math.max(0, sold - stock);
  const most = Math.max(stock, sold, 1);
  const share = (n) => ({ width: `${Math.max(0, Math.min(100, n / most * 100))}%` });
  return html`<section class="live" ref=${box} aria-label=${t('run.live')}>
    <div class="livehead"><h3>${now ? nameOf(now.strategy) : t('run.starting')}</h3>
      ${strategies > 1 && html`<span class="more">${t('run.nth', { n: Math.min(done + 1, strategies), of: strategies })}</span>`}
      <button type="button" class="button quiet" data-test="stop" onClick=${stop}>${t('run.stop')}</button></div>
    <dl class="meters">
      <div><dt>${t('run.left')}</dt><dd data-test="live-left"><b>${count(left)}</b> ${t('run.of', { n: count(stock) })}</dd>
        <span class="meter" aria-hidden="true"><i class="left" style=${share(left)}></i></span></div>
      <div><dt>${t('run.sold')}</dt><dd data-test="live-sold"><b>${count(sold)}</b>
          ${over > 0 && html` <strong class="bad" data-test="live-over">✗ ${t('verdict.oversold', { n: over })}</strong>`}</dd>
        <span class="meter" aria-hidden="true"><i style=${share(Math.min(sold, stock))}></i><i class="over" style=${share(over)}></i></span></div>
      <div><dt>${t('run.asked')}</dt><dd><b>${count(asked)}</b> ${t('run.of', { n: count(buyers) })}</dd></div>
    </dl>
  </section>`;
}

const KINDS = ['sold', 'oversold', 'unsold', 'duplicates', 'lost'];

// Table is a table of figures. On a phone the head of each row has its own line. The roles are for
// browsers that do not treat a table with another layout as a table.
const Table = ({ labelledby, columns, rows }) => html`<table role="table" aria-labelledby=${labelledby} style=${{ '--columns': columns.length }}>
  <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${t('result.strategy')}</th>${columns.map((c, i) => html`
    <th key=${i} role="columnheader" scope="col" class="figure">${c}</th>`)}</tr></thead>
  <tbody role="rowgroup">${rows.map((r) => html`<tr key=${r.name} role="row" data-test=${'result-' + r.name} data-right=${r.right ? 'yes' : 'no'}>
    <th role="rowheader" scope="row">${r.head}</th>${r.cells.map((c, i) => html`<td key=${i} role="cell" class="figure">${c}</td>`)}</tr>`)}</tbody></table>`;

// Results shows the speed and cost of each strategy as bars, and its orders as a table.
export function Results({ results }) {
  const best = Math.max(...results.map((r) => r.per_second || 0), 1);
  return html`<div class="results" data-test="results">
    <section class="sheet"><h3 id="costs">${t('result.costs')}</h3>
      <ul class="bars" aria-labelledby="costs">${results.map((r) => html`
        <li key=${r.strategy} data-right=${r.right ? 'yes' : 'no'}>
          <span class="barname">${nameOf(r.strategy)}</span><b>${t('result.perSecond', { n: speed(r.per_second) })}</b>
          <span class="meter" aria-hidden="true"><i style=${{ width: `${(r.per_second || 0) / best * 100}%` }}></i></span>
          <span class="more">${t('result.cost', { p99: speed(r.p99_ms), sql: each(r.sql_per_order), redis: each(r.redis_per_order), seconds: number(r.seconds, 2) })}</span>
        </li>`)}</ul>
      <p class="more small">${t('result.costsMore')}</p>
    </section>
    <section class="sheet"><h3 id="outcomes">${t('result.outcomes', { buyers: count(results[0].buyers), stock: count(results[0].stock) })}</h3>
      <${Table} labelledby="outcomes" columns=${KINDS.map((kind) => t('result.' + kind))} rows=${results.map((r) => ({
        name: r.strategy, right: r.right,
        head: html`<a href=${'#strategies/' + r.strategy}>${nameOf(r.strategy)}</a><${Verdict} of=${r} />`,
        cells: KINDS.map((kind) => (kind !== 'sold' && r[kind] > 0 ? html`<b class="bad"><span aria-hidden="true">✗ </span>${count(r[kind])}</b>` : count(r[kind]))),
      }))} />
      <p class="more small">${t('result.legend')}</p>
    </section>
  </div>`;
}

// textOr returns the text of an experiment's row or figure, or of a race's step, or its name if it has no text.
export const textOr = (key, name) => { const text = t(key + name); return text === key + name ? name : text; };

// The order of the figures in a row. Figures that are not named here come last.
const FIGURES = ['tries', 'let_in', 'asked', 'redis', 'bot', 'bots', 'people', 'alive', 'bound', 'waiting', 'messages',
  'served', 'refused', 'kept', 'kb', 'per_second', 'p99_ms',
  'orders', 'paid', 'refunded', 'put_back', 'both', 'units', 'reads', 'sql', 'at_once',
  'stale', 'longest_ms', 'stays_old',
  'lost', 'twice', 'again', 'dead',
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

// Experiment shows the outcome of an experiment: one row for each variant.
export function Experiment({ outcome }) {
  return html`<section class="sheet experiment" data-test="experiment"><h3 id="experiment">${t('experiment.caption')}</h3>
    ${group(outcome.rows).map(({ columns, rows }) => html`
      <${Table} key=${columns.join()} labelledby="experiment" columns=${columns.map((c) => textOr('figure.', c))} rows=${rows.map((row) => ({
        name: row.way, right: row.right,
        head: html`<span>${textOr('experiment.', row.way)}</span><span class="verdict" data-right=${row.right ? 'yes' : 'no'}>
          <span aria-hidden="true">${row.right ? '✓ ' : '✗ '}</span>${t(row.right ? 'experiment.right' : 'experiment.wrong')}</span>`,
        cells: columns.map((c) => (c in row.figures ? number(row.figures[c], row.figures[c] % 1 ? 2 : 0) : '–')),
      }))} />`)}
  </section>`;
}
