// What a run shows while it goes on and when it is over.
import { html } from './lib/preact.js';
import { lang, t, why } from './i18n.js';

const number = (n, digits = 0) =>
  Number(n || 0).toLocaleString(lang() === 'zh' ? 'zh-CN' : 'en-GB', { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const count = (n) => number(n);
export const speed = (n) => number(n, n > 0 && n < 100 ? 1 : 0);
export const nameOf = (way) => t('way.' + way);

// said writes what a result comes to, in words: never by colour alone.
export function said(r) {
  if (r.error) return t('verdict.error', { error: r.error });
  const wrong = ['oversold', 'unsold', 'duplicates', 'lost'].filter((kind) => r[kind] > 0);
  if (!wrong.length) return t(r.right ? 'verdict.exact' : 'verdict.other');
  return wrong.map((kind) => t('verdict.' + kind, { n: r[kind] })).join(t('and'));
}

export const Verdict = ({ of }) => html`<span class="verdict" data-right=${of.right ? 'yes' : 'no'}>
  <span aria-hidden="true">${of.right ? '✓' : '✗'}</span> ${said(of)}</span>`;

// Run is a run from its start to its end.
export function Run({ run, stop }) {
  if (!run) return null;
  const { state, plan, now, results, answer } = run;
  return html`<div class="run" data-test="run" data-state=${state}>
    ${state === 'running' && html`<${Live} plan=${plan} now=${now} done=${results.length} stop=${stop} />`}
    ${(state === 'refused' || state === 'failed') && html`<p class="note" role="alert" data-test="run-note">${refusal(answer || run)}</p>`}
    ${results.length > 0 && html`<${Results} results=${results} />`}
  </div>`;
}

export const refusal = (answer) => (answer.code === 'replaced' ? t('run.replaced') : answer.status === 503 ? t('run.busy')
  : answer.code === 'bad_request' || answer.state === 'failed' ? answer.msg || t('run.failed') : why(answer));

// Live shows the way at work: units fall, orders rise. Orders past the stock have a colour, a pattern and words.
function Live({ plan, now, done, stop }) {
  const ways = plan ? plan.strategies.length : 0;
  const stock = plan ? plan.stock : 0;
  const { left = stock, sold = 0, asked = 0, buyers = plan ? plan.buyers : 0 } = now || {};
  const over = Math.max(0, sold - stock);
  const whole = Math.max(stock, sold, 1);
  const share = (n) => ({ width: `${Math.max(0, Math.min(100, n / whole * 100))}%` });
  return html`<section class="live" aria-label=${t('run.live')}>
    <div class="livehead"><h3>${now ? nameOf(now.strategy) : t('run.starting')}</h3>
      ${ways > 1 && html`<span class="more">${t('run.nth', { n: Math.min(done + 1, ways), of: ways })}</span>`}
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

// Results are the price of each way, as bars, beside what it did to the stock.
export function Results({ results }) {
  const best = Math.max(...results.map((r) => r.per_second || 0), 1);
  return html`<div class="results" data-test="results">
    <section class="sheet"><h3 id="prices">${t('result.prices')}</h3>
      <ul class="bars" aria-labelledby="prices">${results.map((r) => html`
        <li key=${r.strategy} data-right=${r.right ? 'yes' : 'no'}>
          <span class="barname">${nameOf(r.strategy)}</span><b>${t('result.perSecond', { n: speed(r.per_second) })}</b>
          <span class="meter" aria-hidden="true"><i style=${{ width: `${(r.per_second || 0) / best * 100}%` }}></i></span>
          <span class="more">${t('result.cost', { p99: speed(r.p99_ms), sql: number(r.sql_per_order, 1), redis: number(r.redis_per_order, 1), seconds: number(r.seconds, 2) })}</span>
        </li>`)}</ul>
      <p class="more small">${t('result.pricesMore')}</p>
    </section>
    <section class="sheet">
      <div class="scroll" tabindex="0" role="region" aria-labelledby="outcomes"><table>
        <caption id="outcomes">${t('result.outcomes', { buyers: count(results[0].buyers), stock: count(results[0].stock) })}</caption>
        <thead><tr><th scope="col">${t('result.way')}</th>${['sold', 'oversold', 'unsold', 'duplicates', 'lost'].map((kind) => html`
          <th key=${kind} scope="col" class="figure">${t('result.' + kind)}</th>`)}</tr></thead>
        <tbody>${results.map((r) => html`<tr key=${r.strategy} data-test=${'result-' + r.strategy} data-right=${r.right ? 'yes' : 'no'}>
          <th scope="row"><a href=${'#ways/' + r.strategy}>${nameOf(r.strategy)}</a><${Verdict} of=${r} /></th>
          <td class="figure">${count(r.sold)}</td>
          ${['oversold', 'unsold', 'duplicates', 'lost'].map((kind) => html`
            <td key=${kind} class=${r[kind] > 0 ? 'figure bad' : 'figure'}>${r[kind] > 0 ? html`<span aria-hidden="true">✗ </span>` : ''}${count(r[kind])}</td>`)}
        </tr>`)}</tbody></table></div>
      <p class="more small">${t('result.legend')}</p>
    </section>
  </div>`;
}

// figures writes a word of an experiment's, or the word itself where we have none.
const known = (key, word) => { const got = t(key + word); return got === key + word ? word : got; };

// Tried is what an experiment found: a row for each way to do it.
export function Tried({ tried }) {
  const columns = [...new Set(tried.rows.flatMap((row) => Object.keys(row.figures)))];
  return html`<section class="sheet" data-test="tried">
    <div class="scroll" tabindex="0" role="region" aria-labelledby="tried"><table>
      <caption id="tried">${t('try.caption')}</caption>
      <thead><tr><th scope="col">${t('result.way')}</th>${columns.map((c) => html`<th key=${c} scope="col" class="figure">${known('figure.', c)}</th>`)}</tr></thead>
      <tbody>${tried.rows.map((row) => html`<tr key=${row.way} data-right=${row.right ? 'yes' : 'no'}>
        <th scope="row">${known('try.', row.way)}<span class="verdict" data-right=${row.right ? 'yes' : 'no'}>
          <span aria-hidden="true">${row.right ? '✓' : '✗'}</span> ${t(row.right ? 'try.right' : 'try.wrong')}</span></th>
        ${columns.map((c) => html`<td key=${c} class="figure">${c in row.figures ? number(row.figures[c], row.figures[c] % 1 ? 2 : 0) : '–'}</td>`)}
      </tr>`)}</tbody></table></div>
  </section>`;
}
