// The user's orders, newest first.
import { html, useEffect, useState } from './lib/preact.js';
import { now } from './clock.js';
import { formatTime, t, yuan } from './i18n.js';
import { Countdown, Drawing } from './parts.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { Failed, Loading, LoginFirst, mount, setTitle } from './shell.js';
import { statusOf } from './status.js';
import { causeOf, Trouble } from './trouble.js';
import { keepOrder, tell } from './turns.js';

function Orders({ lang, user }) {
  const [orders, setOrders] = useState(null);
  const [trouble, setTrouble] = useState(null);
  const [tries, setTries] = useState(0);
  useEffect(() => setTitle(t('orders.title')), [lang]);
  useEffect(() => {
    if (!user) return undefined;
    return poll('/api/orders', {
      onData: (data, trouble) => {
        setOrders(data);
        setTrouble(trouble);
        data.slice(0, 8).forEach((order) => { tell(order.sale_id); keepOrder(user.user_id, order); });
      },
      onError: (reply, trouble) => reply.code !== 'not_logged_in' && setTrouble(trouble),
      interval: () => jitter(15_000),
    }).stop;
  }, [user, lang, tries]);

  if (user === null) return html`<${LoginFirst} />`;
  if (!orders && trouble) return html`<${Failed} title=${t('trouble.' + causeOf(trouble.reply))} more=${t('trouble.more.' + causeOf(trouble.reply))} onRetry=${() => setTries(tries + 1)} />`;
  if (!orders) return html`<${Loading} />`;
  if (!orders.length) {
    return html`<${Trouble} trouble=${trouble} /><div class="blank"><h1>${t('orders.empty')}</h1><p>${t('orders.emptyMore')}</p><a class="button" href="/">${t('sale.back')}</a></div>`;
  }
  return html`
    <h1>${t('orders.title')}</h1>
    <${Trouble} trouble=${trouble} />
    <ul class="orders">${orders.map((o) => html`<${Row} key=${o.id} order=${o} />`)}</ul>`;
}

function Row({ order }) {
  const status = statusOf(order);
  return html`
    <li data-test="order" data-order=${order.id} data-status=${status}>
      <a href=${'/order.html?id=' + encodeURIComponent(order.id)}>
        <${Drawing} src=${order.image} lazy />
        <span class="words"><b>${order.title}</b><span>${formatTime(order.created_at, now())}</span></span>
        <span class="total"><b>¥${yuan(order.price)}</b><span class="status" data-status=${status}>${t('status.' + status)}
          ${status === 'pending' && html` <${Countdown} to=${order.expires_at} short />`}</span></span>
      </a>
    </li>`;
}

mount(Orders);
