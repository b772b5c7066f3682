// One order: what it is, where it stands, and what can still be done with it.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { get, post } from './api.js';
import { PayNow } from './cashier.js';
import { now, useSecond } from './clock.js';
import { Ask } from './dialog.js';
import { follow } from './follow.js';
import { t, when, why, yuan } from './i18n.js';
import { Countdown, Drawing } from './parts.js';
import { spread } from './patience.js';
import { forget, loginHref } from './session.js';
import { Failed, mount, title } from './shell.js';
import { statusOf } from './status.js';

const asked = new URLSearchParams(location.search);
const id = asked.get('id') || '';
const back = asked.get('paid'); // from the cashier: "yes" or "no"
const way = '/api/orders/' + encodeURIComponent(id);
const GONE = new Set(['not_found', 'bad_request']);

function Order({ lang, user }) {
  const [order, setOrder] = useState(null);
  const [sale, setSale] = useState(null);
  const [failed, setFailed] = useState(null);
  const live = useRef();
  useEffect(() => title(t('order.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    live.current = follow(way, {
      good: (data) => { setOrder(data); setFailed(null); },
      bad: (answer) => {
        if (answer.code === 'not_logged_in') return forget(), false;
        setFailed(answer);
        return !GONE.has(answer.code);
      },
      wait: next,
    });
    return live.current.stop;
  }, [user, lang]);
  useEffect(() => {
    if (order) get('/api/sales/' + order.sale_id).then((answer) => answer.ok && setSale(answer.data));
  }, [order?.sale_id]);

  if (user === null) {
    return html`<div class="blank"><h1>${t('orders.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  }
  if (!order && failed && GONE.has(failed.code)) return html`<${Failed} title=${t('order.missing')} />`;
  if (!order && failed) return html`<${Failed} title=${t('orders.failed')} more=${why(failed)} again=${() => live.current.read()} />`;
  if (!order) return html`<p class="blank" role="status">${t('loading')}</p>`;
  return html`<${Sheet} order=${order} image=${order.image || sale?.image} reread=${() => live.current.read()} stale=${failed} />`;
}

const since = performance.now();
const confirming = (order) => back === 'yes' && order.status === 'pending';

// next: right after the cashier the result is seconds away; else when the time to pay is over.
function next(order) {
  if (order.status !== 'pending') return spread(60_000);
  if (confirming(order)) return spread(performance.now() - since < 15_000 ? 700 : 4000);
  const end = Date.parse(order.expires_at) - now() + 300 + Math.random() * 700;
  return end > 0 ? Math.min(end, spread(10_000)) : spread(3000);
}

function Sheet({ order, image, reread, stale }) {
  const at = useSecond();
  const status = statusOf(order, at);
  const more = confirming(order) ? (performance.now() - since < 15_000 ? 'order.confirming' : 'order.slow')
    : status === 'pending' && back === 'no' ? 'order.declined' : 'order.more.' + status;
  return html`
    <article class="sheet" data-status=${status}>
      <header class="standing">
        <p class="status" data-test="order-status" data-status=${status} role="status">${t('status.' + status)}</p>
        <p class="more">${t(more)}</p>
        ${stale && html`<p class="note" role="status">${t('stale')}</p>`}
        ${status === 'pending' && !confirming(order) && html`<p class="within">${t('order.payWithin')} <${Countdown} to=${order.expires_at} short /></p>`}
      </header>
      <div class="thing">
        <${Drawing} src=${image} />
        <div><h1>${order.title}</h1><a href=${'/sale.html?id=' + encodeURIComponent(order.sale_id)}>${t('order.toSale')}</a></div>
      </div>
      <dl class="rows">
        <div class="amount"><dt>${t('order.amount')}</dt><dd>¥${yuan(order.price)}</dd></div>
        <div><dt>${t('order.made')}</dt><dd>${when(order.created_at, at)}</dd></div>
        ${order.paid_at && html`<div><dt>${t('order.paidAt')}</dt><dd>${when(order.paid_at, at)}</dd></div>`}
        <div><dt>${t('order.number')}</dt><dd class="number">${order.id}</dd></div>
      </dl>
      ${status === 'pending' && !confirming(order) && html`<${Actions} order=${order} reread=${reread} />`}
    </article>`;
}

function Actions({ order, reread }) {
  const [asking, setAsking] = useState(false);
  const [sending, setSending] = useState(false);
  const [note, setNote] = useState(null);
  const cancel = async () => {
    setAsking(false);
    setSending(true);
    const answer = await post(way + '/cancel');
    setSending(false);
    setNote(answer.ok ? null : answer);
    reread();
  };
  return html`
    <div class="actions">
      <p class="note" role="alert" hidden=${!note}>${note && why(note)}</p>
      <${PayNow} order=${order} refused=${reread} />
      <button class="plain" data-test="cancel-order" disabled=${sending} onClick=${() => setAsking(true)}>${t('order.cancel')}</button>
      ${asking && html`<${Ask} head=${t('order.cancelAsk')} more=${t('order.cancelMore')} yes=${t('order.cancelYes')} no=${t('order.cancelNo')}
        test="cancel-yes" onYes=${cancel} onNo=${() => setAsking(false)} />`}
    </div>`;
}

mount(Order);
