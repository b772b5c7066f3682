// statusOf returns the status of an order. The shop says "cancelled" also when the payment deadline passed; statusOf says "expired" then.
export const statusOf = ({ status, cancelled_at: cancelled, expires_at: expires }) =>
  status === 'cancelled' && Date.parse(cancelled) >= Date.parse(expires) ? 'expired' : status;
