// How to wait when the shop is busy. A crowd that waits in step comes back in step,
// so every wait carries a random part.
const PASSING = new Set(['busy', 'too_many', 'offline', 'internal']);

// passing: the shop did not decide anything; the same question may be asked again.
// Every question of the purchase is safe to ask twice.
export const passing = (answer) => !answer.ok && PASSING.has(answer.code);

// spread gives ms, more or less a fifth.
export const spread = (ms) => ms * (0.8 + Math.random() * 0.4);

// pause: ms to wait before the next try. The shop's Retry-After is a floor, never shortened.
export function pause(answer, failures) {
  if (answer.retryAfter) return answer.retryAfter + Math.random() * 400;
  return spread(Math.min(10_000, 700 * 2 ** failures));
}

// patiently asks until the shop decides. onWait(answer, ms) hears of each wait,
// onWait(null) when it is over.
export async function patiently(ask, onWait) {
  for (let failures = 0; ; failures++) {
    const answer = await ask();
    if (!passing(answer)) {
      if (failures) onWait(null);
      return answer;
    }
    await rest(answer, failures, onWait);
  }
}

// once asks one time and, if the shop was busy, waits as patiently does before it gives that answer.
export async function once(ask, onWait) {
  const answer = await ask();
  if (passing(answer)) {
    await rest(answer, 0, onWait);
    onWait(null);
  }
  return answer;
}

async function rest(answer, failures, onWait) {
  const ms = pause(answer, failures);
  onWait(answer, ms);
  await new Promise((done) => setTimeout(done, ms));
}
