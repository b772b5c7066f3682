// The views of the purchase panel: one small component for each state.
import { html, useEffect, useState } from './lib/preact.js';
import { Next, Returns } from './after.js';
import { Before, Steps } from './before.js';
import { Captcha } from './captcha.js';
import { Card } from './card.js';
import { PayNow } from './cashier.js';
import { get } from './api.js';
import { now, useSecond } from './clock.js';
import { t } from './i18n.js';
import { loginHref } from './session.js';
import { Countdown } from './parts.js';
import { backOf } from './payments.js';
import { awaitsSum, canPrepare, leftOf } from './purchase.js';

const More = ({ text }) => html`<p class="more">${t(text)}</p>`;
const orderHref = (order) => '/order.html?id=' + encodeURIComponent(order.id);

const Loading = ({ s }) => html`<button class="button big" disabled>${t('loading')}</button><${Steps} sale=${s.sale} />`; // as high as what follows

const Waiting = ({ s, purchase }) => html`
  <${More} text="waiting.more" />
  ${s.sale.captcha && !canPrepare(s, now()) && html`<${More} text="waiting.sum" />`}
  ${canPrepare(s, now()) && html`<button class="button big" data-test="prepare" onClick=${purchase.begin}>${t('waiting.solve')}</button>`}
  ${s.user === null && html`<a class="button" href=${loginHref()}>${t('waiting.login')}</a>`}
  <${Before} s=${s} preparing=${canPrepare(s, now())} />`;

const Open = ({ s, purchase }) => html`
  <button class="button big" data-test="buy" disabled=${s.sending} onClick=${purchase.begin}>${t(s.sending ? 'captcha.sending' : 'open.buy')}</button>
  <${Steps} sale=${s.sale} />`;

const Login = ({ s }) => html`<a class="button big" href=${loginHref()}>${t('view.login')}</a><${Steps} sale=${s.sale} />`;

const Sum = ({ s, purchase }) => html`
  <p class="note" role="status" data-test="none-left" hidden=${!['open', 'sold_out'].includes(s.sale.state) || leftOf(s, now()) > 0}>${t('captcha.noneLeft')}</p>
  <${Captcha} captcha=${s.captcha} asText=${s.asText} sending=${s.sending} onDraw=${purchase.another} onSubmit=${purchase.submit} />`;

// Ready waits for the start with the answer to the captcha.
const Ready = () => html`<span class="running" aria-hidden="true"></span><${More} text="ready.more" />`;

// Queue shows the place, about how long the wait is, and a bar that falls with the people ahead.
const Queue = ({ s: { place } }) => html`
  <p class="position" data-test="queue" data-ahead=${place?.ahead}>${place?.ahead > 0 ? t('queue.ahead', { n: place.ahead }) : t('queue.soon')}
    ${place?.wait > 0 && html` <span class="more" data-test="queue-wait">${t('queue.wait', { n: Math.ceil(place.wait / 1000) })}</span>`}</p>
  ${place?.ahead > 0 ? html`<span class="bar" aria-hidden="true"><i style=${{ width: place.ahead / place.first * 100 + '%' }}></i></span>` : html`<span class="running" aria-hidden="true"></span>`}
  <${More} text="queue.more" />`;

// Ordered has no button after the payment deadline, even before the shop has said so.
function Ordered({ s }) {
  const over = Date.parse(s.order.expires_at) <= useSecond();
  return html`
    <div data-test="ordered">
      <p class="within">${t('ordered.payWithin')} <${Countdown} to=${s.order.expires_at} short /></p>
      ${!over && html`<${PayNow} order=${s.order} />`}
      <${More} text=${over ? 'ordered.over' : 'ordered.more'} />
      <a href=${orderHref(s.order)}>${t('seeOrder')}</a>
    </div>`;
}

const SoldOut = ({ s }) => html`
  <div data-test="sold-out">
    ${s.missed && html`<${More} text="sold_out.missed" />`}
    <${More} text=${s.result?.state === 'sold_out' ? 'sold_out.queued' : s.sale.left > 0 ? 'sold_out.held' : 'sold_out.more'} />
    <${Returns} sale=${s.sale} />
    <${OtherSales} not=${s.sale.id} />
  </div>`;

// Done shows an order for which the buyer has nothing left to do here.
const Done = ({ s, view }) => html`
  ${view === 'paid' ? html`<${Next} />` : html`<${More} text=${backOf(s.order) ? 'order.back.' + backOf(s.order) : view + '.more'} />`}
  <p class="row"><a class="button quiet" href=${orderHref(s.order)}>${t('seeOrder')}</a></p>
  ${view !== 'paid' && html`<${OtherSales} not=${s.sale.id} />`}`;

const Over = ({ s, view }) => html`<${More} text=${view + '.more'} /><${OtherSales} not=${s.sale.id} />`;

const Paused = () => html`<${More} text="paused.more" />`;

const Invalid = ({ purchase }) => html`<${More} text="invalid.more" /><button class="button" onClick=${purchase.dismiss}>${t('again')}</button>`;

function Busy({ s }) {
  const [, render] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => render((n) => n + 1), 250);
    return () => clearInterval(timer);
  }, []);
  const n = Math.ceil((s.wait.until - performance.now()) / 1000);
  const why = s.step === 'queue' ? 'busy.position' : s.wait.code === 'busy' ? 'busy.nothing' : awaitsSum(s) && !s.note ? 'captcha.soon' : '';
  return html`
    ${why && html`<${More} text=${why} />`}
    <p class="position">${n > 0 ? t('busy.in', { n }) : t('busy.now')}</p>
    <span class="running" aria-hidden="true"></span>`;
}

const AVAILABLE = new Set(['open', 'upcoming']);
function OtherSales({ not }) {
  const [sales, setSales] = useState([]);
  useEffect(() => {
    get('/api/sales').then((reply) => reply.ok && setSales(reply.data.filter((o) => o.id !== not && AVAILABLE.has(o.state)).slice(0, 3)));
  }, [not]);
  return sales.length === 0 ? null : html`
    <h3 class="also">${t('sale.others')}</h3>
    <ul class="others">${sales.map((o) => html`<${Card} key=${o.id} sale=${o} small />`)}</ul>`;
}

export const VIEWS = {
  loading: Loading, waiting: Waiting, open: Open, login: Login, captcha: Sum, ready: Ready, queue: Queue, ordered: Ordered, busy: Busy,
  sold_out: SoldOut, paid: Done, expired: Done, cancelled: Done, refunded: Done,
  paused: Paused, ended: Over, closed: Over, invalid: Invalid,
};
