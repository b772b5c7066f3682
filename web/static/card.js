// One sale in a list of sales; also are later ones of the same goods at the same price.
import { html } from './lib/preact.js';
import { formatTime, t } from './i18n.js';
import { now } from './clock.js';
import { Countdown, Drawing, Price, Taken } from './parts.js';

const saleHref = (id) => '/sale.html?id=' + encodeURIComponent(id);

export function Card({ sale, small }) {
  const { id, title, image, price, list_price: list, left, total, state, also = [] } = sale;
  return html`
    <li class=${also.length ? 'card later' : 'card'} data-test="sale-card" data-sale=${id} data-state=${state}>
      <a href=${saleHref(id)}>
        <${Drawing} src=${image} lazy />
        <div class="words">
          <h3>${title}</h3>
          <${Price} fen=${price} list=${list} />
          ${!small && html`<p class="stock">${state !== 'upcoming' && html`<${Taken} left=${left} total=${total} />`}
            <span>${t(state === 'upcoming' ? 'unitsOf' : 'leftOf', { left, total })}</span></p>`}
          <p class="when">${state === 'upcoming' ? html`<span>${t('startsAt', { at: formatTime(sale.start_at, now()) })}</span><${Countdown} to=${sale.start_at} />`
            : state === 'open' ? html`<span>${t('toEnd')}</span><${Countdown} to=${sale.end_at} />`
            : html`<span class="state">${t('state.' + state)}</span>`}</p>
        </div>
      </a>
      ${also.length > 0 && html`<p class="also-at">${also.map((s) => html`<a key=${s.id} href=${saleHref(s.id)}>${t('list.also', { at: formatTime(s.start_at, now()) })}</a>`)}</p>`}
    </li>`;
}
