// The sandbox cashier stands for a payment provider, and says so. The buyer confirms or declines.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { post } from './api.js';
import { now, useSecond } from './clock.js';
import { errorText, t, yuan } from './i18n.js';
import { useNote } from './note.js';
import { Countdown } from './parts.js';
import { backOf } from './payments.js';
import { poll } from './poll.js';
import { isTransient, jitter } from './retry.js';
import { Failed, Loading, LoginFirst, mount, setTitle } from './shell.js';
import { causeOf } from './trouble.js';
import { keepOrder, tell } from './turns.js';

const query = new URLSearchParams(location.search);
const payment = query.get('payment') || '';
const orderId = query.get('order') || '';
const orderHref = '/order.html?id=' + encodeURIComponent(orderId);

function Pay({ lang, user }) {
  const [order, setOrder] = useState(null);
  const [failed, setFailed] = useState(null);
  const [sending, setSending] = useState('');
  const acting = useRef(false); // of two buttons in one moment, the first counts
  const [note, setNote] = useNote();
  const [unsure, setUnsure] = useState(false); // whether a payment had no answer
  const at = useSecond();
  useEffect(() => setTitle(t('pay.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    return poll('/api/orders/' + encodeURIComponent(orderId), {
      onData: (data) => {
        setOrder(data);
        setFailed(null);
        tell(data.sale_id);
        keepOrder(user.user_id, data);
      },
      onError: (reply) => {
        setFailed(reply);
        return isTransient(reply);
      },
      interval,
    }).stop;
  }, [user]);

  const act = async (action) => {
    if (acting.current) return;
    acting.current = true;
    setSending(action);
    setNote(null);
    const reply = await post('/api/cashier/' + encodeURIComponent(payment), { action });
    if (reply.ok) return location.replace(`${orderHref}&paid=${action === 'confirm' ? 'yes' : 'no'}`);
    if (reply.code === 'wrong_status') return location.replace(orderHref);
    acting.current = false;
    setSending('');
    setNote(reply);
    if (action === 'confirm' && isTransient(reply)) setUnsure(true);
  };

  if (user === null || failed?.code === 'not_logged_in') return html`<${LoginFirst} />`;
  if (!order && failed) {
    const missing = failed.code === 'not_found' || failed.code === 'bad_request';
    return html`<${Failed} title=${t(missing ? 'pay.missing' : 'trouble.' + causeOf(failed))} more=${missing ? '' : t('trouble.more.' + causeOf(failed))} />`;
  }
  if (!order) return html`<${Loading} />`;
  const over = Date.parse(order.expires_at) <= at;
  const unpaid = over && (order.status === 'pending' || order.status === 'cancelled');
  const back = backOf(order);
  if (!sending && (over || order.status !== 'pending')) {
    return html`<div class="blank" role="status" data-test="pay-closed"><h1>${t(unpaid ? 'pay.over' : 'pay.closed')}</h1>
      <p>${t(back ? 'order.back.' + back : unpaid ? (unsure ? 'pay.overUnsure' : 'pay.overMore') : 'status.' + order.status)}</p><a class="button" href=${orderHref}>${t('seeOrder')}</a></div>`;
  }
  return html`
    <div class="sheet narrow cashier">
      <h1>${t('pay.title')}</h1>
      <p class="tip">${t('pay.note')}</p>
      <p class="due">¥${yuan(order.price)}</p>
      <p class="more">${order.title}</p>
      <dl class="rows">
        <div><dt>${t('pay.to')}</dt><dd>${t('shop')}</dd></div>
        <div><dt>${t('order.payWithin')}</dt><dd><${Countdown} to=${order.expires_at} short /></dd></div>
        <div><dt>${t('order.number')}</dt><dd class="number" translate="no">${order.number}</dd></div>
      </dl>
      <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
      <button class="button big" data-test="pay-confirm" disabled=${!!sending} onClick=${() => act('confirm')}>
        ${sending === 'confirm' ? t('pay.sending') : t('pay.confirm', { price: yuan(order.price) })}</button>
      <button class="button quiet big" data-test="pay-decline" disabled=${!!sending} onClick=${() => act('decline')}>${t('pay.decline')}</button>
    </div>`;
}

// interval returns the ms until the next read: the order may be cancelled in another tab, and the shop may give more time.
function interval(order) {
  const end = Date.parse(order.expires_at) - now() + 300 + Math.random() * 700;
  return end > 0 && order.status === 'pending' ? Math.min(end, jitter(30_000)) : jitter(60_000);
}

mount(Pay);
