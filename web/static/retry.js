// How to wait when the shop is busy. Browsers that wait for the same time come back together,
// so every wait has a random part.
const TRANSIENT = new Set(['busy', 'too_many', 'offline', 'internal']);

// isTransient reports whether the shop decided nothing, so that the same request may be sent
// again. Every request of a purchase is safe to send twice.
export const isTransient = (reply) => !reply.ok && TRANSIENT.has(reply.code);

// isLost reports whether no one knows what became of a request that is not safe to send twice.
export const isLost = (reply) => !reply.unsent && ['offline', 'internal', 'unsure'].includes(reply.code);

// jitter returns ms, changed at random by up to a fifth.
export const jitter = (ms) => ms * (0.8 + Math.random() * 0.4);

// backoff returns the ms to wait before the next try. It is never less than the shop's Retry-After.
export function backoff(reply, failures) {
  if (reply.retryAfter) return reply.retryAfter + Math.random() * 400;
  return jitter(Math.min(10_000, 700 * 2 ** failures));
}

// retry sends a request until the shop decides, and returns that reply. It calls onWait(reply, ms)
// before each wait, and onWait(null) after the last one.
export async function retry(request, onWait) {
  for (let failures = 0; ; failures++) {
    const reply = await request();
    if (!isTransient(reply)) {
      if (failures) onWait(null);
      return reply;
    }
    await wait(reply, failures, onWait);
  }
}

// tryOnce sends a request once. If the shop is busy, it waits as retry does and returns that reply.
export async function tryOnce(request, onWait) {
  const reply = await request();
  if (isTransient(reply)) {
    await wait(reply, 0, onWait);
    onWait(null);
  }
  return reply;
}

async function wait(reply, failures, onWait) {
  const ms = backoff(reply, failures);
  onWait(reply, ms);
  await new Promise((done) => setTimeout(done, ms));
}
