// statusOf is the shop's word for an order, and run_out where nobody paid in time:
// the shop says cancelled for both.
export const statusOf = (order, at) =>
  order.status === 'cancelled' && Date.parse(order.expires_at) <= at ? 'run_out' : order.status;
