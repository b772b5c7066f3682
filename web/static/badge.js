// The badge in the header of every page: the buyer's place in a queue, what became of it, or the time left to pay.
import { html, useEffect, useState } from './lib/preact.js';
import { get } from './api.js';
import { now, useSecond } from './clock.js';
import { t } from './i18n.js';
import { Countdown } from './parts.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { dropTurn, isTold, keepOrder, keepTurn, useTurns } from './turns.js';

export function Badge({ user }) {
  const turns = useTurns(user?.user_id);
  return turns.length === 0 ? null : html`<${Turns} turns=${turns} />`;
}

function Turns({ turns }) {
  const [ahead, setAhead] = useState({});
  const at = useSecond();
  const first = turns.find((turn) => turn.state !== 'pending' || Date.parse(turn.until) > at);
  const unread = turns.filter((turn) => turn.state !== 'lost' && !isTold(turn));
  useEffect(() => {
    const stops = unread.map((turn) => (turn.state === 'queued' ? watchPlace(turn, (n) => setAhead((a) => ({ ...a, [turn.sale]: n }))) : watchOrder(turn)));
    return () => stops.forEach((stop) => stop());
  }, [unread.map((turn) => turn.sale + turn.state).join()]);
  if (!first) return null;
  const { state, sale, order, title } = first;
  const href = state === 'pending' ? '/order.html?id=' + encodeURIComponent(order) : '/sale.html?id=' + encodeURIComponent(sale);
  const n = ahead[sale];
  return html`<a class="badge" data-test="badge" data-state=${state} href=${href} title=${title}>
    ${state === 'pending' ? html`<span class="wordy">${t('badge.pay')}</span><${Countdown} to=${first.until} short />` : t('badge.' + state)}
    ${state === 'queued' && n > 0 && html`<span class="wordy">${t('queue.ahead', { n })}</span>`}</a>`;
}

// watchPlace reads a result until it is final, while the page is visible.
function watchPlace(turn, onAhead) {
  const { user, sale, title } = turn;
  let none = 0;
  return poll(`/api/sales/${encodeURIComponent(sale)}/result`, {
    onData: async (result) => {
      const noTicket = result.state === 'none' || (result.state === 'sold_out' && result.next_poll_ms > 0);
      none = noTicket ? none + 1 : 0;
      if (result.state === 'queued') return onAhead(result.ahead);
      if (result.state === 'ordered') {
        const reply = await get('/api/orders/' + encodeURIComponent(result.order_id));
        return reply.ok && keepOrder(user, reply.data);
      }
      if (!noTicket || none >= 3) keepTurn({ user, sale, title, state: 'lost' });
      return undefined;
    },
    onError: (reply) => reply.code !== 'not_logged_in' && reply.code !== 'no_sale',
    interval: (result) => Math.max(2000, jitter(result.next_poll_ms || 2000)),
  }).stop;
}

// watchOrder reads an order once, now and then, and after its payment deadline.
function watchOrder({ user, sale, order }) {
  return poll('/api/orders/' + encodeURIComponent(order), {
    onData: (data) => keepOrder(user, data),
    onError: (reply) => reply.code !== 'not_logged_in' && (reply.code !== 'not_found' || (dropTurn(user, sale), false)),
    interval: (data) => {
      const end = Date.parse(data.expires_at) - now() + 500 + Math.random() * 1000;
      return end > 0 ? Math.min(end, jitter(60_000)) : jitter(3000);
    },
  }).stop;
}
