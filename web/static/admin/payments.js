// The payments that are stuck: refunds that are due, and payments that are still open long after their order's payment deadline. A
// refund that the provider refuses waits for the staff, who have it asked for again, or return the money by hand.
import { html, useEffect, useState } from '../lib/preact.js';
import { now } from '../clock.js';
import { formatTime, t, yuan } from '../i18n.js';
import { useKeys } from '../keys.js';
import { Failed } from '../shell.js';
import { said, useForm } from './form.js';
import { Filters, More, useList, why } from './list.js';

const STATUSES = ['open', 'refund_due'];

export function Payments({ arg, may }) {
  const params = new URLSearchParams(arg);
  const list = useList('/api/admin/payments', 'payments', params);
  return html`
    <ul class="tip">${t('payments.rules').map((rule) => html`<li>${rule}</li>`)}</ul>
    <${Filters} section="payments" params=${params}>
      <label>${t('payments.status')}<select name="status"><option value="">${t('list.all')}</option>${STATUSES.map((s) => html`
        <option value=${s} selected=${s === params.get('status')}>${t('payment.' + s)}</option>`)}</select></label>
    <//>
    <${Table} list=${list} may=${may} />`;
}

function Table({ list, may }) {
  const [note, setNote] = useState(null);
  const [returning, setReturning] = useState(null);
  const keys = useKeys();
  useEffect(() => { // what the payment has become says whether it was done
    if (!note?.unsure || JSON.stringify(list.rows?.find((p) => p.id === note.unsure.id)) === JSON.stringify(note.unsure)) return;
    setNote(null);
    keys.forget();
  }, [list.rows]);
  if (list.failed && !list.rows) return html`<${Failed} title=${t('admin.failed')} more=${why(list.failed)} onRetry=${list.again} />`;
  if (!list.rows) return html`<p class="blank" role="status">${t('loading')}</p>`;
  if (!list.rows.length) return html`<p class="blank" data-test="no-payments">${t('payments.none')}</p>`;
  const retry = async (payments) => {
    for (const p of payments) {
      const reply = await keys.send(`/api/admin/payments/${p.id}/retry`);
      setNote({ text: reply.ok ? t('payments.retried') : said(reply), role: reply.ok ? 'status' : 'alert', unsure: reply.unsure && p });
      if (!reply.ok) break;
    }
    list.again();
  };
  const refused = list.rows.filter((p) => p.refused && !p.by_hand);
  const returned = () => { setReturning(null); list.again(); };
  return html`
    ${note && html`<p class="note" role=${note.role} data-test="payments-note">${note.text}</p>`}
    ${may && refused.length > 1 && html`<p><button class="button quiet small" data-test="retry-refused" disabled=${keys.sending} onClick=${() => retry(refused)}>
      ${t('payments.askAll', { n: refused.length })}</button></p>`}
    ${returning && html`<${Returned} key=${returning.id} payment=${returning} onDone=${returned} onNo=${() => setReturning(null)} />`}
    <div class="scroll" tabindex="0" role="region" aria-label=${t('admin.payments')}><table data-test="payments">
      <thead><tr>${['since', 'order', 'amount', 'status', 'provider', 'tries', 'why', 'next'].map((c) => html`<th scope="col">${t('payments.' + c)}</th>`)}
        ${may && html`<th scope="col"><span class="hidden">${t('payments.do')}</span></th>`}</tr></thead>
      <tbody>${list.rows.map((p) => html`<tr key=${p.id} data-payment=${p.id} data-status=${p.status} data-refused=${p.refused}>
        <td class="times">${formatTime(p.updated_at, now())}</td><td class="times"><a href=${'#orders/' + p.order_id}>…${p.order_id.slice(-6)}</a></td>
        <td class="figure">¥${yuan(p.amount)}</td><td>${t(p.refused ? 'payments.refused' : 'payment.' + p.status)}</td><td>${p.provider} ${p.provider_ref}</td>
        <td class="figure">${p.tries}</td><td>${p.why}</td>
        <td class="times">${p.by_hand || p.refused ? t('payments.byHand') : p.ask_at ? formatTime(p.ask_at, now()) : t('payments.never')}</td>
        ${may && html`<td class="times"><div class="row tight">${!p.by_hand && html`<button class="button quiet small" data-test="retry" onClick=${() => retry([p])}>${t(p.refused ? 'payments.askAgain' : 'payments.retry')}</button>`}
          ${(p.refused || p.by_hand && p.status === 'refund_due') && html`<button class="button quiet small" data-test="returned" onClick=${() => setReturning(p)}>${t('payments.returned')}</button>`}</div></td>`}
      </tr>`)}</tbody>
    </table></div>
    <${More} list=${list} />`;
}

// Returned closes a refund, and notes how the staff returns the money. It comes before the money: of two administrators one is refused.
function Returned({ payment: p, onDone, onNo }) {
  const form = useForm('returned', { note: '' });
  useEffect(() => form.form.current.querySelector('input').focus(), []);
  const send = async (event) => {
    const reply = await form.send(event, `/api/admin/payments/${p.id}/returned`, { note: form.values.note });
    if (reply.ok) onDone();
  };
  return html`
    <form class="sheet" ref=${form.form} onSubmit=${send} noValidate>
      <h2>${t('payments.returnedAsk', { amount: yuan(p.amount), order: p.order_id.slice(-6) })}</h2>
      <p>${t(p.refused ? 'payments.returnedRefused' : 'payments.returnedMore', { why: p.why })} ${t('payments.returnedFirst')}</p>
      ${form.note}
      ${form.field('note', t('payments.note'))}
      <div class="row"><button class="button small" data-test="returned-yes" disabled=${form.sending}>${t('payments.returnedYes')}</button>
        <button class="button quiet small" type="button" onClick=${onNo}>${t('file.no')}</button></div>
    </form>`;
}
