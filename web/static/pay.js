// The sandbox cashier: it stands for a payment provider and says so. Confirm or decline.
import { html, useEffect, useState } from './lib/preact.js';
import { get, post } from './api.js';
import { t, why, yuan } from './i18n.js';
import { Countdown } from './parts.js';
import { patiently } from './patience.js';
import { loginHref } from './session.js';
import { Failed, mount, title } from './shell.js';

const asked = new URLSearchParams(location.search);
const payment = asked.get('payment') || '';
const orderId = asked.get('order') || '';
const orderHref = '/order.html?id=' + encodeURIComponent(orderId);

function Pay({ lang, user }) {
  const [order, setOrder] = useState(null);
  const [failed, setFailed] = useState(null);
  const [sending, setSending] = useState('');
  const [note, setNote] = useState(null);
  useEffect(() => title(t('pay.title')), [lang]);
  useEffect(() => {
    if (!user) return;
    patiently(() => get('/api/orders/' + encodeURIComponent(orderId)), setFailed)
      .then((answer) => (answer.ok ? setOrder(answer.data) : setFailed(answer)));
  }, [user]);

  const act = async (action) => {
    if (sending) return;
    setSending(action);
    setNote(null);
    const answer = await post('/api/cashier/' + encodeURIComponent(payment), { action });
    if (answer.ok) return location.replace(`${orderHref}&paid=${action === 'confirm' ? 'yes' : 'no'}`);
    if (answer.code === 'wrong_status') return location.replace(orderHref);
    setSending('');
    setNote(answer);
  };

  if (user === null || failed?.code === 'not_logged_in') {
    return html`<div class="blank"><h1>${t('orders.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  }
  if (!order && failed) return html`<${Failed} title=${t(failed.code === 'not_found' || failed.code === 'bad_request' ? 'pay.missing' : 'orders.failed')} more=${why(failed)} />`;
  if (!order) return html`<p class="blank" role="status">${t('loading')}</p>`;
  if (order.status !== 'pending') {
    return html`<div class="blank"><h1>${t('pay.closed')}</h1><p>${t('status.' + order.status)}</p><a class="button" href=${orderHref}>${t('seeOrder')}</a></div>`;
  }
  return html`
    <div class="sheet narrow till">
      <h1>${t('pay.title')}</h1>
      <p class="tip">${t('pay.note')}</p>
      <p class="due">¥${yuan(order.price)}</p>
      <p class="more">${order.title}</p>
      <dl class="rows">
        <div><dt>${t('pay.to')}</dt><dd>${t('shop')}</dd></div>
        <div><dt>${t('order.payWithin')}</dt><dd><${Countdown} to=${order.expires_at} short /></dd></div>
        <div><dt>${t('order.number')}</dt><dd class="number">${order.id}</dd></div>
      </dl>
      <p class="note" role="alert" hidden=${!note}>${note && why(note)}</p>
      <button class="button big" data-test="pay-confirm" disabled=${!!sending} onClick=${() => act('confirm')}>
        ${sending === 'confirm' ? t('pay.sending') : t('pay.confirm', { price: yuan(order.price) })}</button>
      <button class="button quiet big" data-test="pay-decline" disabled=${!!sending} onClick=${() => act('decline')}>${t('pay.decline')}</button>
    </div>`;
}

mount(Pay);
