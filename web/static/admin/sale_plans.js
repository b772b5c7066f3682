// What is planned for a sale, and what became of it.
import { html, useState } from '../lib/preact.js';
import { now } from '../clock.js';
import { formatTime, t } from '../i18n.js';
import { useKeys } from '../keys.js';
import { TIME, isoTime, localTime, said, useForm, zone } from './form.js';

const LATE = 5000; // ms

export function Plans({ sale, may, onDone }) {
  const f = useForm('plan', { action: sale.state === 'draft' ? 'publish' : 'pause', at: localTime(now() + 600_000) }, onDone);
  const keys = useKeys();
  const [failed, setFailed] = useState('');
  const send = async (e) => {
    const reply = await f.send(e, `/api/admin/sales/${sale.id}/plans`, { action: f.values.action, at: isoTime(f.values.at) });
    if (reply.ok) onDone();
  };
  const cancel = async (plan) => {
    const reply = await keys.send(`/api/admin/plans/${plan.id}/cancel`);
    setFailed(reply.ok ? '' : said(reply));
    onDone();
  };
  return html`
    <section class="sheet" aria-label=${t('plans')}>
      <h3>${t('plans')}</h3>
      ${!sale.plans.length && html`<p class="more">${t('plans.none')}</p>`}
      <ul class="plans" data-test="plans">${sale.plans.map((p) => html`
        <li key=${p.id} data-plan=${p.state}><span><b>${t('sales.' + p.action)}</b> · ${formatTime(p.at, now())}</span>
          <span>${became(p)}</span>
          ${may && p.state === 'planned' && html`<button class="button quiet small" data-test="cancel-plan" onClick=${() => cancel(p)}>${t('plans.cancel')}</button>`}</li>`)}</ul>
      ${failed && html`<p class="error" role="alert">${failed}</p>`}
      ${may && html`<form ref=${f.form} onSubmit=${send} data-test="plan-form">
        <div class="filters">${f.field('action', t('plans.what'), { options: ['publish', 'pause', 'resume', 'close'].map((a) => [a, t('sales.' + a)]) })}
          ${f.field('at', t('plans.at'), TIME)}<button class="button small" disabled=${f.sending}>${t('plans.add')}</button></div>
        <p class="rule">${zone()}</p>${f.note}</form>`}
    </section>`;
}

function became(plan) {
  const late = plan.done_at && Date.parse(plan.done_at) - Date.parse(plan.at);
  const text = t('plans.' + plan.state, { at: plan.done_at && formatTime(plan.done_at, now()), why: plan.why && t('plans.why.' + plan.why) });
  return plan.state === 'done' && late > LATE ? `${text} ${t('plans.late', { s: Math.round(late / 1000) })}` : text;
}
