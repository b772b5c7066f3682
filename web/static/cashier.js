// The way from an order to the cashier.
import { html, useState } from './lib/preact.js';
import { post } from './api.js';
import { t, why } from './i18n.js';
import { inside } from './session.js';

// PayNow opens a payment for the order and goes to the cashier's page, once a click.
// refused(answer) hears when the order cannot be paid.
export function PayNow({ order, refused = () => {} }) {
  const [sending, setSending] = useState(false);
  const [note, setNote] = useState(null);
  const go = async () => {
    if (sending) return;
    setSending(true);
    setNote(null);
    const answer = await post(`/api/orders/${encodeURIComponent(order.id)}/pay`);
    if (answer.ok) return location.assign(inside(answer.data.pay_url, '/order.html?id=' + encodeURIComponent(order.id)));
    setSending(false);
    setNote(answer);
    refused(answer);
  };
  return html`
    <p class="note" role="alert" hidden=${!note}>${note && why(note)}</p>
    <button class="button big" data-test="pay-now" disabled=${sending} onClick=${go}>${t('payNow')}</button>`;
}
