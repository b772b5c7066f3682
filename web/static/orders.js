// The user's orders, newest first.
import { html, useEffect, useState } from './lib/preact.js';
import { get } from './api.js';
import { now } from './clock.js';
import { formatTime, t, yuan } from './i18n.js';
import { Countdown, Drawing } from './parts.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { forgetUser } from './session.js';
import { Failed, Loading, LoginFirst, mount, setTitle } from './shell.js';
import { statusOf } from './status.js';

function Orders({ lang, user }) {
  const [orders, setOrders] = useState(null);
  const [images, setImages] = useState({});
  const [failed, setFailed] = useState(null);
  const [tries, setTries] = useState(0);
  useEffect(() => setTitle(t('orders.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    return poll('/api/orders', {
      onData: (data) => { setOrders(data); setFailed(null); },
      onError: (reply) => (reply.code === 'not_logged_in' ? (forgetUser(), false) : setFailed(reply)),
      interval: () => jitter(15_000),
    }).stop;
  }, [user, lang, tries]);
  useEffect(() => { // the list of sales has their images; an order may have none
    get('/api/sales').then((reply) => reply.ok && setImages(Object.fromEntries(reply.data.map((s) => [s.id, s.image]))));
  }, []);

  if (user === null) return html`<${LoginFirst} />`;
  if (!orders && failed) return html`<${Failed} title=${t('orders.failed')} more=${t('error.busy')} onRetry=${() => setTries(tries + 1)} />`;
  if (!orders) return html`<${Loading} />`;
  if (!orders.length) {
    return html`<div class="blank"><h1>${t('orders.empty')}</h1><p>${t('orders.emptyMore')}</p><a class="button" href="/">${t('sale.back')}</a></div>`;
  }
  return html`
    <h1>${t('orders.title')}</h1>
    ${failed && html`<p class="note" role="status">${t('stale')}</p>`}
    <ul class="orders">${orders.map((o) => html`<${Row} key=${o.id} order=${o} image=${o.image || images[o.sale_id]} />`)}</ul>`;
}

function Row({ order, image }) {
  const status = statusOf(order, now());
  return html`
    <li data-test="order" data-order=${order.id} data-status=${status}>
      <a href=${'/order.html?id=' + encodeURIComponent(order.id)}>
        <${Drawing} src=${image} lazy />
        <span class="words"><b>${order.title}</b><span>${formatTime(order.created_at, now())}</span></span>
        <span class="total"><b>¥${yuan(order.price)}</b><span class="status" data-status=${status}>${t('status.' + status)}
          ${status === 'pending' && html` <${Countdown} to=${order.expires_at} short />`}</span></span>
      </a>
    </li>`;
}

mount(Orders);
