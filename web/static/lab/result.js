// The results of a run, and what the parts of the lab share.
import { html } from '../lib/preact.js';
import { errorText, lang, t } from '../i18n.js';

export const number = (n, digits = 0) =>
  Number(n || 0).toLocaleString(lang() === 'zh' ? 'zh-CN' : 'en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const count = (n) => number(n);
export const speed = (n) => number(n, n > 0 && n < 100 ? 1 : 0);
const each = (n) => number(n, n > 0 && n < 1 ? 2 : 1);
export const nameOf = (strategy) => t('strategy.' + strategy);

// withCode renders the text between backticks as code.
export const withCode = (text) => text.split('`').map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));

// verdictOf writes the outcome of a result in words, so that it does not depend on colour alone.
export function verdictOf(r) {
  if (r.error) return t(!r.slow ? 'verdict.error' : r.busy ? 'verdict.busy' : 'verdict.slow', { error: r.error });
  const wrong = ['oversold', 'unsold', 'duplicates', 'lost'].filter((kind) => r[kind] > 0);
  if (!wrong.length) return t(r.lucky ? 'verdict.lucky' : r.right ? 'verdict.exact' : 'verdict.other');
  return wrong.map((kind) => t('verdict.' + kind, { n: r[kind] })).join(t('and'));
}

// shownAs is the colour of an outcome: what came out right by luck is not green, and what was only slow is not red.
export const shownAs = (r) => (r.lucky ? 'lucky' : r.right ? 'yes' : r.slow ? (r.busy ? 'busy' : 'but') : 'no');

// shadeOf is the colour of a row of an experiment.
export const shadeOf = (row) => ({ right: 'yes', wrong: 'no', busy: 'busy' }[row.verdict] || 'but');

// SIGNS go before a verdict, so that it does not depend on colour. 'but' sold exactly, and slowly, without a bound or unfairly.
export const SIGNS = { yes: '✓', lucky: '✓', no: '✗', but: '△', busy: '?' };

export const Verdict = ({ of }) => html`<span class="verdict" data-right=${shownAs(of)}>
  <span aria-hidden="true">${SIGNS[shownAs(of)]}</span> ${verdictOf(of)}</span>`;

// Stop is for the owner of a run and for administrators.
export const Stop = ({ stop }) => stop && html`<button type="button" class="button quiet" data-test="stop" onClick=${stop}>${t('run.stop')}</button>`;

// Waiting shows the place of a job in the lab's line.
export const Waiting = ({ ahead, stop }) => html`<section class="live" aria-label=${t('run.waiting')}>
  <div class="livehead"><h3>${t('run.waiting')}</h3><span class="more" role="status" data-test="run-place">${t('run.ahead', { n: ahead })}</span><${Stop} stop=${stop} /></div>
</section>`;

export const refusal = (reply) => (reply.code === 'replaced' ? t('run.replaced')
  : reply.msg && ['bad_request', 'too_long', 'busy'].includes(reply.code) ? reply.msg
    : reply.state === 'failed' ? reply.msg || t('run.failed') : errorText(reply));

const KINDS = ['sold', 'oversold', 'unsold', 'duplicates', 'lost'];

// Table is a table of figures. On a phone the head of each row has its own line. The roles are for
// browsers that do not treat a table with another layout as a table.
export const Table = ({ labelledby, columns, rows }) => html`<table role="table" aria-labelledby=${labelledby} style=${{ '--columns': columns.length }}>
  <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${t('result.strategy')}</th>${columns.map((c, i) => html`
    <th key=${i} role="columnheader" scope="col" class="figure">${c}</th>`)}</tr></thead>
  <tbody role="rowgroup">${rows.map((r) => html`<tr key=${r.name} role="row" data-test=${'result-' + r.name} data-right=${r.shown}>
    <th role="rowheader" scope="row">${r.head}</th>${r.cells.map((c, i) => html`<td key=${i} role="cell" class="figure">${c}</td>`)}</tr>`)}</tbody></table>`;

// Results shows the speed and cost of each strategy as bars, and its orders as a table.
export function Results({ results }) {
  const best = Math.max(...results.map((r) => r.per_second || 0), 1);
  return html`<div class="results" data-test="results">
    <section class="sheet"><h3 id="costs">${t('result.costs')}</h3>
      <ul class="bars" aria-labelledby="costs">${results.map((r) => html`
        <li key=${r.strategy} data-right=${shownAs(r)}>
          <span class="barname">${nameOf(r.strategy)}</span><b>${t('result.perSecond', { n: speed(r.per_second) })}</b>
          <span class="meter" aria-hidden="true"><i style=${{ width: `${(r.per_second || 0) / best * 100}%` }}></i></span>
          <span class="more">${t('result.cost', { p99: speed(r.p99_ms), sql: each(r.sql_per_order), redis: each(r.redis_per_order), seconds: number(r.seconds - (r.recovery || 0), 2) })}
            ${r.recovery >= 0.01 && html` · <b data-test="recovery">${t('result.recovery', { seconds: number(r.recovery, 2) })}</b>`}</span>
        </li>`)}</ul>
      <p class="more small">${t('result.costsMore')}${results.some((r) => r.recovery >= 0.01) && ' ' + t('result.recoveryMore')}</p>
    </section>
    <section class="sheet"><h3 id="outcomes">${t('result.outcomes', { buyers: count(results[0].buyers), stock: count(results[0].stock) })}</h3>
      <${Table} labelledby="outcomes" columns=${KINDS.map((kind) => t('result.' + kind))} rows=${results.map((r) => ({
        name: r.strategy, shown: shownAs(r),
        head: html`<a href=${'/lab.html#strategies/' + r.strategy}>${nameOf(r.strategy)}</a><${Verdict} of=${r} />`,
        cells: KINDS.map((kind) => (kind !== 'sold' && r[kind] > 0 && !r.slow ? html`<b class="bad"><span aria-hidden="true">✗ </span>${count(r[kind])}</b>` : count(r[kind]))),
      }))} />
      <p class="more small">${t('result.legend')}${results.some((r) => r.lucky) && ' ' + t('result.lucky')}</p>
    </section>
  </div>`;
}

// textOr returns the text of an experiment's row or figure, or of a race's step, or its name if it has no text.
export const textOr = (key, name) => { const text = t(key + name); return text === key + name ? name : text; };

// pathOf returns where a source of the lab is in the repository.
export const pathOf = (file) => `seckill/lab/${file.startsWith('strategy_') ? 'strategies' : 'experiments'}/${file}`;
