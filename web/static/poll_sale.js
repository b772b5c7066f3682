// Polls one sale for its state and the units left: more often close to a change, and once right
// after the opening. Each browser adds a random delay, so that they do not all ask at one moment.
import { now } from './clock.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';

const UNKNOWN = new Set(['no_sale', 'not_found', 'bad_request']);

// pollSale calls onData and onError as poll does. If the sale does not exist, it calls onMissing()
// and ends. A hidden page reads the sale at its start, so that its title and its panel are true when the buyer looks.
export const pollSale = (id, { onData, onError, onMissing }) =>
  poll('/api/sales/' + encodeURIComponent(id), {
    onData,
    onError: (reply, trouble) => (UNKNOWN.has(reply.code) ? (onMissing(), false) : onError(reply, trouble)),
    interval,
    hidden: (sale) => (sale.state === 'upcoming' ? Math.max(0, Date.parse(sale.start_at) - now()) + 300 + Math.random() * 2000 : 0),
  });

function interval(sale) {
  if (sale.state === 'upcoming') {
    const start = Date.parse(sale.start_at) - now();
    if (start <= 0) return 300 + Math.random() * 500; // the sale has opened, but the reply is from a moment before
    return Math.min(start + 30 + Math.random() * 500, jitter(start < 60_000 ? 10_000 : 30_000));
  }
  const end = Date.parse(sale.end_at) - now() + 100 + Math.random() * 500;
  const every = sale.state === 'ended' ? 60_000 : jitter(sale.state === 'open' && sale.left <= 3 ? 1500 : 4000); // the last units go fast
  return end > 0 ? Math.min(end, every) : every;
}
