// The button that leads from an order to the cashier.
import { html, useState } from './lib/preact.js';
import { post } from './api.js';
import { errorText, t } from './i18n.js';
import { localPath } from './session.js';

// PayNow opens a payment for the order and goes to the cashier's page. It calls onRefused(reply)
// when the order cannot be paid.
export function PayNow({ order, onRefused = () => {} }) {
  const [sending, setSending] = useState(false);
  const [note, setNote] = useState(null);
  const pay = async () => {
    if (sending) return;
    setSending(true);
    setNote(null);
    const reply = await post(`/api/orders/${encodeURIComponent(order.id)}/pay`);
    if (reply.ok) return location.assign(localPath(reply.data.pay_url, '/order.html?id=' + encodeURIComponent(order.id)));
    setSending(false);
    setNote(reply);
    onRefused(reply);
  };
  return html`
    <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
    <button class="button big" data-test="pay-now" disabled=${sending} onClick=${pay}>${t('payNow')}</button>`;
}
