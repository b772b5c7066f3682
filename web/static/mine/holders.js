// Who held what, and when: a line for each buyer of a schedule, from the click to the answer, and the unit while the buyer holds it.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';

// spansOf returns for each click [{kind, from, to}] in steps: 'asks' from the first step to the answer, 'holds' from the order on.
export function spansOf(steps, users) {
  const list = (text) => (text ? String(text).split(' ').filter(Boolean) : []);
  return users.map((user, i) => {
    const n = i + 1;
    const nth = users.slice(0, n).filter((other) => other === user).length; // click of its buyer
    const own = steps.map((step, at) => (step.buyer === n ? at : -1)).filter((at) => at >= 0);
    if (!own.length) return [];
    const end = steps.findIndex((step, at) => step.buyer === n && step.kind === 'answer' && at >= own[0]);
    const asks = { kind: 'asks', from: own[0], to: end < 0 ? own.at(-1) : end };
    const spans = [asks];
    let from = -1;
    steps.forEach((step, at) => {
      const orders = list(step.state?.orders);
      const holds = orders.filter((owner) => owner === String(user)).length >= nth;
      if (holds && from < 0) from = at;
      if (!holds && from >= 0) { spans.push({ kind: 'holds', from, to: at - 1 }); from = -1; }
    });
    if (from >= 0) spans.push({ kind: 'holds', from, to: steps.length - 1 });
    return spans;
  });
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
      <i class="cursor" aria-hidden="true" style=${{ gridRow: `1 / ${schedule.buyers + 1}`, gridColumn: at + 1 }}></i></div>
    <p class="more small">${all.map((spans, i) => {
      const holds = spans.find((span) => span.kind === 'holds');
      return holds ? t('holders.from', { who: label(i + 1), n: holds.from + 1 }) : t('holders.never', { who: label(i + 1) });
    }).join(' ')}${firstOver >= 0 && ' ' + t(one ? 'holders.over.one' : 'holders.over', { n: firstOver + 1 })}</p>
  </figure>`;
}
