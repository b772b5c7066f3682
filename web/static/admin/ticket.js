// One ticket, step by step: when, where, how long after the step before, and the code that did it.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { now } from '../clock.js';
import { errorText, formatTime, t } from '../i18n.js';
import { Failed, STAFF } from '../shell.js';

const NAMES = ['sum_drawn', 'sum_solved', 'address', 'click', 'batch', 'granted', 'journaled', 'queued', 'claimed', 'ordered', 'refused',
  'settled', 'acknowledged', 'told', 'payment', 'paid', 'cancelled', 'expired', 'refunded'];

// plain returns a text of the URL as it was before it was encoded, if it was.
function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// A buyer follows an order of their own; arg is its id then.
export function Ticket({ arg: raw, user, lang }) {
  const arg = plain(raw);
  const [line, setLine] = useState(null);
  const [failed, setFailed] = useState(null);
  const read = async () => {
    const id = encodeURIComponent(arg);
    const reply = await get(STAFF.includes(user.role) ? '/api/admin/tickets/' + id : `/api/orders/${id}/ticket`);
    setFailed(reply.ok ? null : reply);
    setLine(reply.ok ? reply.data : null);
  };
  useEffect(() => { if (arg) { setLine(null); read(); } }, [arg, lang]);
  return html`<section class="sheet ticket">
    <h2>${t('admin.ticket')}</h2>
    <form class="filters" onSubmit=${(e) => { e.preventDefault(); location.hash = 'ticket=' + e.target.elements.id.value.trim(); }}>
      <label>${t('ticket.which')} <input key=${arg} name="id" defaultValue=${arg} size="48" autocomplete="off" spellcheck=${false} /></label>
      <button class="button small">${t('ticket.follow')}</button>
    </form>
    ${failed && html`<${Failed} title=${t(failed.code === 'not_found' ? 'ticket.unknown' : 'admin.failed')} more=${failed.fields?.[0].msg ?? errorText(failed)} onRetry=${read} />`}
    ${arg && !failed && !line && html`<p class="blank" role="status">${t('loading')}</p>`}
    ${line && html`<${Timeline} line=${line} role=${user.role} />`}
  </section>`;
}

function Timeline({ role, line: { ticket, sale_id: sale, user_id: user, order_id: order, steps, missing, asked, code, archived_at: archived } }) {
  const at = (step) => microseconds(step.at);
  return html`
    <dl class="rows">
      <div><dt>${t('ticket.ticket')}</dt><dd><code>${ticket}</code></dd></div>
      <div><dt>${t('ticket.sale')}</dt><dd>${sale}</dd></div>
      <div><dt>${t('ticket.user')}</dt><dd>${user}</dd></div>
      ${order && html`<div><dt>${t('order.title')}</dt><dd><a href=${(STAFF.includes(role) ? '/admin.html#orders/' : '/order.html?id=') + order}><code>${order}</code></a></dd></div>`}
    </dl>
    ${!asked && html`<p class="tip" role="status">${t('ticket.notAsked')}</p>`}
    ${archived && html`<p class="tip" data-test="archived">${t('admin.archived', { time: formatTime(archived, now()) })}</p>`}
    ${missing.map((m) => html`<p class="tip" key=${m.process + m.started} data-test="missing-process">
      ${t('ticket.missing', { process: m.process, time: formatTime(m.last_seen, now()) })}</p>`)}
    <ol class="steps" data-test="steps">${steps.map((step, i) => html`
      <li key=${i} data-step=${step.name}>
        <h3>${NAMES.includes(step.name) ? t('step.' + step.name) : step.name}</h3>
        <p class="when"><time datetime=${step.at}>${clock(step.at)}</time>
          ${i > 0 && html`<b>${t('ticket.wait', { ms: milliseconds((at(step) - at(steps[i - 1])) / 1000) })}</b>`}
          ${step.took_ms > 0 && html`<span>${t('ticket.took', { ms: milliseconds(step.took_ms) })}</span>`}
          <code>${step.process}</code></p>
        <p>${t('step.' + step.name + '.says', step.detail)}</p>
        ${(code[step.name] || []).map((f) => html`<${Source} key=${f.name} f=${f} />`)}
      </li>`)}</ol>`;
}

function Source({ f: { file, name, line, source, mark } }) {
  return html`<details class="code"><summary>${t('ticket.code')} <code>${file}:${line}</code> <code>${name}</code></summary>
    <div tabindex="0" role="region" aria-label=${name}>${source.replace(/\n$/, '').split('\n').map((text, i) => html`<code key=${i}
      data-line=${line + i} class=${i + 1 === mark ? 'decides' : ''}>${text || ' '}</code>`)}</div></details>`;
}

// microseconds returns the time of a step, whose fraction has up to nine digits.
function microseconds(text) {
  const [, fraction = ''] = /\.(\d+)/.exec(text) || [];
  return Math.floor(Date.parse(text) / 1000) * 1e6 + Number(fraction.padEnd(6, '0').slice(0, 6));
}

const milliseconds = (ms) => (ms >= 100 ? Math.round(ms).toLocaleString() : ms.toFixed(ms < 10 ? 2 : 1));

function clock(text) {
  const at = new Date(text);
  const two = (n) => String(n).padStart(2, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(microseconds(text) % 1e6).padStart(6, '0').slice(0, 4)}`;
}
