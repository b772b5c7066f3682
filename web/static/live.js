// Follows one sale while its page is looked at: state and units left, more often when it matters,
// and once at the very moment it opens, each browser a little later than its neighbour.
import { now } from './clock.js';
import { follow } from './follow.js';
import { spread } from './patience.js';

const UNKNOWN = new Set(['no_sale', 'not_found', 'bad_request']);

// followSale calls good(sale), bad(answer), or missing() once, which ends it.
export const followSale = (id, { good, bad, missing }) =>
  follow('/api/sales/' + encodeURIComponent(id), {
    good,
    bad: (answer) => (UNKNOWN.has(answer.code) ? (missing(), false) : bad(answer)),
    wait: next,
  });

function next(sale) {
  if (sale.state === 'upcoming') {
    const start = Date.parse(sale.start_at) - now();
    if (start <= 0) return 300 + Math.random() * 500; // the shop's answer is a moment old
    return Math.min(start + 30 + Math.random() * 500, spread(start < 60_000 ? 10_000 : 30_000));
  }
  const end = Date.parse(sale.end_at) - now() + 100 + Math.random() * 500;
  const every = sale.state === 'ended' ? 60_000 : spread(4_000);
  return end > 0 ? Math.min(end, every) : every;
}
