// One order: the goods, its status, and what the buyer can still do with it.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { Delivery } from './address.js';
import { Next, OrderNumber } from './after.js';
import { post } from './api.js';
import { PayNow } from './cashier.js';
import { now, useSecond } from './clock.js';
import { Confirm } from './dialog.js';
import { errorText, formatTime, t, yuan } from './i18n.js';
import { useNote } from './note.js';
import { Countdown, Drawing } from './parts.js';
import { backOf, Payments } from './payments.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { Failed, Loading, LoginFirst, mount, setTitle } from './shell.js';
import { statusOf } from './status.js';
import { causeOf, Trouble } from './trouble.js';
import { keepOrder, tell } from './turns.js';

const query = new URLSearchParams(location.search);
const id = query.get('id') || '';
const paid = query.get('paid'); // set by the cashier: "yes" or "no"
const url = '/api/orders/' + encodeURIComponent(id);
const MISSING = new Set(['not_found', 'bad_request']);

function Order({ lang, user }) {
  const [order, setOrder] = useState(null);
  const [trouble, setTrouble] = useState(null);
  const orderPoll = useRef();
  useEffect(() => setTitle(t('order.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    orderPoll.current = poll(url, {
      onData: (data, trouble) => {
        setOrder(data);
        setTrouble(trouble);
        tell(data.sale_id);
        keepOrder(user.user_id, data);
      },
      onError: (reply, trouble) => {
        if (reply.code === 'not_logged_in') return false;
        setTrouble(trouble);
        return !MISSING.has(reply.code);
      },
      interval,
    });
    return orderPoll.current.stop;
  }, [user, lang]);

  if (user === null) return html`<${LoginFirst} />`;
  if (!order && MISSING.has(trouble?.reply?.code)) return html`<${Failed} title=${t('order.missing')} />`;
  if (!order && trouble) return html`<${Failed} title=${t('trouble.' + causeOf(trouble.reply))} more=${t('trouble.more.' + causeOf(trouble.reply))} onRetry=${() => orderPoll.current.read()} />`;
  if (!order) return html`<${Loading} />`;
  return html`<${Sheet} order=${order} reread=${() => orderPoll.current.read()} trouble=${trouble} />`;
}

const openedAt = performance.now();
const confirming = (order) => paid === 'yes' && order.status === 'pending';

// interval returns the ms until the next read: short right after the payment, whose result takes
// seconds; otherwise until the payment deadline.
function interval(order) {
  if (order.status !== 'pending') return jitter(backOf(order) === 'refund_due' ? 2000 : 60_000);
  if (confirming(order)) return jitter(performance.now() - openedAt < 15_000 ? 700 : 4000);
  const end = Date.parse(order.expires_at) - now() + 300 + Math.random() * 700;
  return end > 0 ? Math.min(end, jitter(10_000)) : jitter(3000);
}

function Sheet({ order, reread, trouble }) {
  const at = useSecond();
  const status = statusOf(order);
  const back = backOf(order);
  const payable = status === 'pending' && !confirming(order) && Date.parse(order.expires_at) > at;
  const more = back ? 'order.back.' + back : confirming(order) ? (performance.now() - openedAt < 15_000 ? 'order.confirming' : 'order.slow')
    : status === 'pending' && paid === 'no' ? 'order.declined' : 'order.more.' + status;
  return html`
    <article class="sheet" data-status=${status}>
      <header class="standing">
        <p class="status" data-test="order-status" data-status=${status} role="status">${t('status.' + status)}</p>
        ${(back || status !== 'paid') && html`<p class="more">${t(more)}</p>`}
        ${status === 'paid' && html`<${Next} shipped=${order.delivery?.shipped_at} />`}
        <${Trouble} trouble=${trouble} />
        ${payable && html`<p class="within">${t('order.payWithin')} <${Countdown} to=${order.expires_at} short /></p>`}
      </header>
      <div class="thing">
        <${Drawing} src=${order.image} />
        <div><h1>${order.title}</h1><a href=${'/sale.html?id=' + encodeURIComponent(order.sale_id)}>${t('order.toSale')}</a>
          ${order.status === 'cancelled' && html`<br /><a href="/" data-test="to-others">${t('sale.back')}</a>`}</div>
      </div>
      <dl class="rows">
        <div class="amount" data-due=${status === 'pending' ? '' : undefined}><dt>${t('order.amount')}</dt><dd>¥${yuan(order.price)}</dd></div>
        <div><dt>${t('order.made')}</dt><dd>${formatTime(order.created_at, at)}</dd></div>
        ${order.paid_at && html`<div><dt>${t('order.paidAt')}</dt><dd>${formatTime(order.paid_at, at)}</dd></div>`}
        <div><dt>${t('order.seller')}</dt><dd data-test="seller">${order.seller || t('shop')}</dd></div>
        <div><dt>${t('order.number')}</dt><dd><${OrderNumber} order=${order} /></dd></div>
      </dl>
      <${Payments} order=${order} at=${at} />
      ${'lab' in document.documentElement.dataset && html`<p><a href=${'/admin.html#ticket=' + order.id} data-test="follow-ticket">${t('order.follow')}</a></p>`}
      ${payable && html`<${Actions} order=${order} reread=${reread} trouble=${trouble} />`}
      <${Delivery} order=${order} at=${at} reread=${reread} />
    </article>`;
}

function Actions({ order, reread, trouble }) {
  const [asking, setAsking] = useState(false);
  const [sending, setSending] = useState(false);
  const [note, setNote] = useNote();
  useEffect(() => { if (!trouble) setNote(null); }, [trouble === null]); // what failed in an outage is not said after it
  const cancel = async () => {
    setAsking(false);
    setSending(true);
    const reply = await post(url + '/cancel');
    setSending(false);
    setNote(reply.ok ? null : reply);
    reread();
  };
  return html`
    <div class="actions">
      <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
      <${PayNow} order=${order} onRefused=${reread} />
      <button class="plain" data-test="cancel-order" disabled=${sending} onClick=${() => setAsking(true)}>${t('order.cancel')}</button>
      ${asking && html`<${Confirm} title=${t('order.cancelAsk')} text=${t('order.cancelMore')} yes=${t('order.cancelYes')} no=${t('order.cancelNo')}
        test="cancel-yes" onYes=${cancel} onNo=${() => setAsking(false)} />`}
    </div>`;
}

mount(Order);
