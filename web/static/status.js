// statusOf returns the status of an order. The shop says "cancelled" also when the time to pay ran
// out; statusOf says "expired" then.
export const statusOf = (order, at) =>
  order.status === 'cancelled' && Date.parse(order.expires_at) <= at ? 'expired' : order.status;
