// Who held what, and when: a line for each buyer of a schedule, from the click to the answer, and the unit while the buyer holds it.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';

// spansOf returns for each click [{kind, from, to}] in steps: 'asks' from its first step to its last answer, since a buyer who was
// refused may click again; 'holds' from its order on. An order is of the click whose step has made it.
export function spansOf(steps, users) {
  const lists = steps.map((step) => (step.state?.orders === '?' ? null : String(step.state?.orders ?? '').split(' ')));
  lists.forEach((list, at) => { lists[at] = list ?? lists[at - 1] ?? []; }); // while the table is locked, what was read last
  const ordersOf = (at, user) => (at < 0 ? 0 : lists[at].filter((owner) => owner === String(user)).length);
  const spans = users.map((_, i) => {
    const own = steps.flatMap((step, at) => (step.buyer === i + 1 ? [at] : []));
    const end = own.filter((at) => steps[at].kind === 'answer').pop() ?? own.at(-1);
    return own.length ? [{ kind: 'asks', from: own[0], to: end }] : [];
  });
  const holds = users.map(() => null);
  steps.forEach((step, at) => {
    for (const user of new Set(users)) {
      const more = ordersOf(at, user) - ordersOf(at - 1, user);
      const clicks = users.flatMap((other, i) => (other === user ? [i] : []));
      for (let n = 0; n < more; n++) {
        const i = [step.buyer - 1, ...clicks].find((click) => clicks.includes(click) && !holds[click]);
        if (i !== undefined) spans[i].push(holds[i] = { kind: 'holds', from: at, to: steps.length - 1 });
      }
      const last = clicks.filter((click) => holds[click]).pop();
      if (more < 0 && last !== undefined) {
        holds[last].to = at - 1;
        holds[last] = null;
      }
    }
  });
  return spans;
}

// Holders draws them. A step in which more buyers hold a unit than there are is red.
export function Holders({ steps, schedule, at, label }) {
  const one = schedule.clicks === 'one buyer';
  const all = spansOf(steps, schedule.users);
  const holding = steps.map((_, i) => all.flat().filter((span) => span.kind === 'holds' && span.from <= i && i <= span.to).length);
  const over = (i) => holding[i] > (one ? Math.min(1, schedule.stock) : schedule.stock);
  const firstOver = steps.findIndex((_, i) => over(i));
  return html`<figure class="holders" data-test="holders"><figcaption class="small"><b>${t('holders.title')}</b></figcaption>
    <div class="spans" style=${{ '--steps': steps.length }}>${all.map((spans, i) => html`
      <b key=${i} style=${{ gridRow: i + 1 }}>${label(i + 1)}</b>
      ${spans.map((span, j) => html`<i key=${j} data-kind=${span.kind} data-over=${span.kind === 'holds' && span.to >= firstOver && firstOver >= 0 ? '' : undefined} aria-hidden="true"
        style=${{ gridRow: i + 1, gridColumn: `${span.from + 2} / ${span.to + 3}` }}></i>`)}`)}
      <i class="cursor" aria-hidden="true" style=${{ gridRow: `1 / ${schedule.users.length + 1}`, gridColumn: at + 1 }}></i></div>
    <p class="more small">${all.map((spans, i) => {
      const who = label(i + 1), holds = spans.filter((span) => span.kind === 'holds').pop();
      if (!holds) return t('holders.never', { who });
      return t(holds.to < steps.length - 1 ? 'holders.until' : 'holders.from', { who, n: holds.from + 1, last: holds.to + 1 });
    }).join(' ')}${firstOver >= 0 && ' ' + t(one ? 'holders.over.one' : 'holders.over', { n: firstOver + 1 })}</p>
  </figure>`;
}
