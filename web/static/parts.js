// Small parts that several pages share.
import { html } from './lib/preact.js';
import { split, useSecond } from './clock.js';
import { t, yuan } from './i18n.js';

export function Price({ fen, list }) {
  const [whole, cents] = yuan(fen).split('.');
  return html`<p class="price"><b><span class="hidden">${t('price')} </span><small>¥</small>${whole}${cents && html`<small>.${cents}</small>`}</b>
    ${list > fen && html`<s><span class="hidden">${t('listPrice')} </span>¥${yuan(list)}</s>`}</p>`;
}

// Countdown runs to a moment of the shop's clock. short leaves out the hours.
export function Countdown({ to, short }) {
  const left = split(Date.parse(to) - useSecond());
  return html`<time class="countdown" role="timer" data-test="countdown" datetime=${left.iso}>
    ${!short && left.days > 0 && html`<span class="days">${t('days', { n: left.days })}</span> `}${short ? left.short : left.clock}</time>`;
}

export function LeftBar({ left, total }) {
  const share = total > 0 ? Math.max(0, Math.min(100, left / total * 100)) : 0;
  return html`<span class="bar" aria-hidden="true"><i style=${{ width: share + '%' }}></i></span>`;
}

// ownImage keeps an image to this shop: whatever else the data says is not fetched.
export const ownImage = (way) => (/^\/(?![/\\])/.test(way || '') ? way : new URL('./goods/parcel.svg', import.meta.url).pathname);

export const Drawing = ({ src, alt = '', lazy }) =>
  html`<span class="drawing"><img src=${ownImage(src)} alt=${alt} width="400" height="400" loading=${lazy ? 'lazy' : 'eager'} decoding="async" /></span>`;
