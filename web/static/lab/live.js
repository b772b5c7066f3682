// A run or an experiment on the page, from its start to its end.
import { html, useLayoutEffect, useRef } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Trouble } from '../trouble.js';
import { LiveTrial } from './experiment.js';
import { Pictures } from './picture.js';
import { Scatter } from './scatter.js';
import { Results, Stop, Waiting, count, nameOf, refusal } from './result.js';

// Run shows it while it waits and works, and the results of a run.
export function Run({ run, stop }) {
  if (!run) return null;
  const { state, plan, now, results, reply, trial, yours } = run;
  const onStop = yours ? stop : null;
  return html`<div class="run" data-test="run" data-state=${state}>
    ${state === 'waiting' && html`<${Waiting} ahead=${run.ahead || 0} stop=${onStop} />`}
    ${state === 'running' && (trial || !plan) && html`<${LiveTrial} trial=${trial} stop=${onStop} />`}
    ${state === 'running' && plan && html`<${Live} plan=${plan} now=${now} done=${results.length} stop=${onStop} />`}
    <${Trouble} trouble=${run.trouble} />
    ${(state === 'refused' || state === 'failed') && html`<p class="note" role="alert" data-test="run-note">${refusal(reply || run)}</p>`}
    ${results.length > 0 && html`<${Results} results=${results} />`}
    ${state === 'done' && html`<${Pictures} results=${results} /><${Scatter} results=${results} />`}
  </div>`;
}

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
      <${Stop} stop=${stop} /></div>
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
