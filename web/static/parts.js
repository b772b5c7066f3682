// Small components that several pages share.
import { html } from './lib/preact.js';
import { split, useSecond } from './clock.js';
import { t, yuan } from './i18n.js';

export function Price({ fen, list }) {
  const [whole, cents] = yuan(fen).split('.');
  return html`<p class="price"><b><span class="hidden">${t('price')} </span><span translate="no"><small>¥</small>${whole}${cents && html`<small>.${cents}</small>`}</span></b>
    ${list > fen && html`<s><span class="hidden">${t('listPrice')} </span><span>¥${yuan(list)}</span></s>`}</p>`;
}

// Countdown counts down to a time of the shop's clock. With short it shows only
// minutes and seconds.
export function Countdown({ to, short }) {
  const left = split(Date.parse(to) - useSecond());
  return html`<time class="countdown" role="timer" data-test="countdown" datetime=${left.iso}>
    ${!short && left.days > 0 && html`<span class="days">${t('days', { n: left.days })}</span> `}<span>${short ? left.short : left.clock}</span></time>`;
}

// Taken shows which share of the units is taken: an empty bar before the first one, a full one after the last, and the same in words.
export function Taken({ left, total }) {
  const share = left >= total ? 0 : left <= 0 ? 100 : Math.min(99, Math.max(1, Math.round((total - left) / total * 100)));
  return html`<span class="taken"><span class="bar" aria-hidden="true"><i style=${{ width: share + '%' }}></i></span>
    <span data-test="taken">${t('taken', { n: share })}</span></span>`;
}

const assets = new URL('./', import.meta.url).href;

// ownImage returns an image's address if it lies within this shop or beside this script, which a CDN may serve, otherwise the
// default image.
export const ownImage = (path) => (/^\/(?![/\\])/.test(path || '') || path?.startsWith(assets) ? path : assets + 'goods/parcel.svg');

// Drawing shows the default image also where the shop no longer has the picture.
export const Drawing = ({ src, alt = '', lazy }) => html`<span class="drawing"><img src=${ownImage(src)} alt=${alt} width="400" height="400"
  loading=${lazy ? 'lazy' : 'eager'} decoding="async" onError=${showParcel} /></span>`;

function showParcel({ currentTarget: img }) {
  const parcel = ownImage('');
  if (img.src !== new URL(parcel, location).href) img.src = parcel;
}
