// What money came for an order and what went back, and when.
import { html } from './lib/preact.js';
import { formatTime, t, yuan } from './i18n.js';
import { statusOf } from './status.js';

const MONEY = new Set(['captured', 'refund_due', 'refunded']);

// backOf returns the status of money that came too late for an order, undefined if none did.
export const backOf = (order) => (order.paid_at ? undefined : order.payments.find((p) => MONEY.has(p.status))?.status);

export function Payments({ order, at }) {
  const shown = order.payments.filter((p) => p.status !== 'open');
  return shown.length === 0 ? null : html`
    <section class="payments" aria-labelledby="payments">
      <h2 id="payments">${t('payments')}</h2>
      <ul>${shown.map((p) => html`<li key=${p.id} data-test="payment" data-status=${p.status}>${story(p, order, at)}</li>`)}</ul>
    </section>`;
}

// story tells of one payment. Its updated_at is the time of its status; the order has the time at which money came in time.
function story(payment, order, at) {
  const time = (value) => formatTime(value, at, '2-digit');
  const values = { amount: yuan(payment.amount), at: time(payment.updated_at), paid: order.paid_at && time(order.paid_at), end: time(order.expires_at) };
  if (!MONEY.has(payment.status)) return t('payments.' + payment.status, values);
  const came = !order.paid_at ? (statusOf(order) === 'expired' ? 'late' : 'cancelled')
    : order.status === 'paid' && payment.status !== 'captured' ? 'twice' : 'paid';
  return t('payments.' + came, values) + (payment.status === 'captured' ? '' : t('payments.' + payment.status, values));
}
