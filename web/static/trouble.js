// What a page says in an outage: one headline by its cause, one sentence, and how old the figures are.
import { html } from './lib/preact.js';
import { useSecond } from './clock.js';
import { t } from './i18n.js';

const CAUSES = { offline: 'offline', internal: 'broken', too_many: 'wait' };

// causeOf returns the cause of a failed request: offline, broken, wait or busy. A shop whose stores are down says "busy" too, so
// that text must be true of both.
export const causeOf = (reply) => CAUSES[reply.code] || 'busy';

// Trouble shows trouble = {reply, since} of poll(); null when there is none. With ageOnly another part of the page says the rest.
export function Trouble({ trouble, ageOnly }) {
  useSecond();
  if (!trouble) return null;
  const { reply, since } = trouble;
  const seconds = since === undefined ? 0 : Math.round((performance.now() - since) / 1000);
  const age = seconds > 1 && html`<span class="age" data-test="age">${t('trouble.age', { n: seconds })}</span>`;
  if (!reply || ageOnly) return age ? html`<p class="note old">${age}</p>` : null;
  const cause = causeOf(reply);
  return html`<div class="note trouble" data-test="trouble" data-cause=${cause}>
    <p role="status"><b>${t('trouble.' + cause)}</b> ${t('trouble.more.' + cause)}</p>${age}</div>`;
}
