// My orders, newest first.
import { html, useEffect, useState } from './lib/preact.js';
import { get } from './api.js';
import { now } from './clock.js';
import { t, when, yuan } from './i18n.js';
import { Countdown, Drawing } from './parts.js';
import { follow } from './follow.js';
import { spread } from './patience.js';
import { forget, loginHref } from './session.js';
import { Failed, mount, title } from './shell.js';
import { statusOf } from './status.js';

function Orders({ lang, user }) {
  const [orders, setOrders] = useState(null);
  const [images, setImages] = useState({});
  const [failed, setFailed] = useState(null);
  const [turn, again] = useState(0);
  useEffect(() => title(t('orders.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    return follow('/api/orders', {
      good: (data) => { setOrders(data); setFailed(null); },
      bad: (answer) => (answer.code === 'not_logged_in' ? (forget(), false) : setFailed(answer)),
      wait: () => spread(15_000),
    }).stop;
  }, [user, lang, turn]);
  useEffect(() => { // an order names its sale; pictures of running sales come with the list
    get('/api/sales').then((answer) => answer.ok && setImages(Object.fromEntries(answer.data.map((s) => [s.id, s.image]))));
  }, []);

  if (user === null) {
    return html`<div class="blank"><h1>${t('orders.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  }
  if (!orders && failed) return html`<${Failed} title=${t('orders.failed')} more=${t('why.busy')} again=${() => again(turn + 1)} />`;
  if (!orders) return html`<p class="blank" role="status">${t('loading')}</p>`;
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
        <span class="words"><b>${order.title}</b><span>${when(order.created_at, now())}</span></span>
        <span class="sum"><b>¥${yuan(order.price)}</b><span class="status" data-status=${status}>${t('status.' + status)}
          ${status === 'pending' && html` <${Countdown} to=${order.expires_at} short />`}</span></span>
      </a>
    </li>`;
}

mount(Orders);
