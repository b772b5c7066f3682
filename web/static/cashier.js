// The button that leads from an order to the payment provider.
import { html, useState } from './lib/preact.js';
import { post } from './api.js';
import { errorText, t } from './i18n.js';
import { useNote } from './note.js';
import { localPath } from './session.js';

// PayNow opens a payment for the order and goes to the provider's page, which is this shop's own for the cashier. It calls
// onRefused(reply) when the order cannot be paid.
export function PayNow({ order, onRefused = () => {} }) {
  const [sending, setSending] = useState(false);
  const [note, setNote] = useNote();
  const pay = async () => {
    if (sending) return;
    setSending(true);
    setNote(null);
    const reply = await post(`/api/orders/${encodeURIComponent(order.id)}/pay`);
    const url = reply.data?.pay_url;
    if (reply.ok) return location.assign(/^https?:\/\//.test(url) ? url : localPath(url, '/order.html?id=' + encodeURIComponent(order.id)));
    setSending(false);
    setNote(reply);
    onRefused(reply);
  };
  return html`
    <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
    <button class="button big" data-test="pay-now" disabled=${sending} onClick=${pay}>${t('payNow')}</button>`;
}
