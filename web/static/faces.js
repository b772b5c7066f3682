// The faces of the purchase panel: one small component a state, all alike in build.
import { html, useEffect, useLayoutEffect, useRef, useState } from './lib/preact.js';
import { Card } from './card.js';
import { PayNow } from './cashier.js';
import { get } from './api.js';
import { t } from './i18n.js';
import { loginHref } from './session.js';
import { Countdown } from './parts.js';

const More = ({ say }) => html`<p class="more">${t(say)}</p>`;
const orderHref = (order) => '/order.html?id=' + encodeURIComponent(order.id);

const Loading = () => html`<button class="button big" disabled>${t('loading')}</button>`;

const Waiting = ({ s }) => html`
  <${More} say="waiting.more" />
  ${s.user === null && html`<a class="button" href=${loginHref()}>${t('waiting.login')}</a>`}`;

const Open = ({ s, deal }) => html`
  <button class="button big" data-test="buy" disabled=${s.sending} onClick=${deal.begin}>${t(s.sending ? 'sum.sending' : 'open.buy')}</button>
  <${More} say="open.more" />`;

const Login = () => html`<a class="button big" href=${loginHref()}>${t('login.go')}</a><${More} say="open.more" />`;

function Sum({ s, deal }) {
  const [answer, setAnswer] = useState('');
  const input = useRef();
  useLayoutEffect(() => { // each new sum: an empty field, ready to type; before it is seen, so that no key is lost
    setAnswer('');
    input.current?.focus();
  }, [s.sum]);
  const go = (event) => {
    event.preventDefault();
    if (answer && s.sum) deal.submit(answer);
  };
  return html`
    <form class="sum" onSubmit=${go} aria-busy=${s.sending}>
      <div id="sum-question" class=${s.spoken ? 'plate words' : 'plate'} aria-live="polite">${s.sum && (s.spoken
        ? html`<p data-test="captcha-words">${s.sum}</p>`
        : html`<img src=${s.sum} alt=${t('sum.alt')} width="160" height="60" data-test="captcha-img" />`)}</div>
      <button type="button" class="plain" disabled=${s.sending} onClick=${() => deal.draw()}>${t('sum.other')}</button>
      <button type="button" class="plain kind" data-test="captcha-kind" disabled=${s.sending} onClick=${() => deal.draw(!s.spoken)}>
        ${t(s.spoken ? 'sum.picture' : 'sum.words')}</button>
      <label for="sum">${t('sum.label')}</label>
      <input id="sum" ref=${input} data-test="captcha-input" aria-describedby="sum-question" inputmode="numeric" maxlength="6" autocomplete="off"
        enterkeyhint="go" value=${answer} onInput=${(e) => setAnswer(e.target.value.trim())} />
      <button class="button" data-test="captcha-submit" disabled=${s.sending || !s.sum || !answer}>${t(s.sending && s.sum ? 'sum.sending' : 'sum.go')}</button>
    </form>`;
}

const Queue = ({ s }) => html`
  <p class="place" data-test="queue" data-ahead=${s.result?.ahead}>${place(s.result?.ahead)}</p>
  <span class="running" aria-hidden="true"></span>
  <${More} say="queue.more" />`;
const place = (n) => (n > 0 ? t('queue.ahead', { n }) : t('queue.soon'));

const Ordered = ({ s }) => html`
  <div data-test="ordered">
    <p class="within">${t('ordered.payWithin')} <${Countdown} to=${s.order.expires_at} short /></p>
    <${PayNow} order=${s.order} />
    <${More} say="ordered.more" />
    <a href=${orderHref(s.order)}>${t('seeOrder')}</a>
  </div>`;

const SoldOut = ({ s }) => html`
  <div data-test="sold-out">
    <${More} say=${s.result?.state === 'sold_out' ? 'sold_out.queued' : s.sale.left > 0 ? 'sold_out.held' : 'sold_out.more'} />
    <${Others} not=${s.sale.id} />
  </div>`;

// Done: an order that needs nothing more from the buyer here.
const Done = ({ s, face }) => html`
  <${More} say=${face + '.more'} />
  <p class="row"><a class="button quiet" href=${orderHref(s.order)}>${t('seeOrder')}</a></p>
  ${face !== 'paid' && html`<${Others} not=${s.sale.id} />`}`;

const Over = ({ s, face }) => html`<${More} say=${face + '.more'} /><${Others} not=${s.sale.id} />`;

const Paused = () => html`<${More} say="paused.more" />`;

const Invalid = ({ deal }) => html`<${More} say="invalid.more" /><button class="button" onClick=${deal.retry}>${t('again')}</button>`;

function Busy({ s }) {
  const [, turn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => turn((n) => n + 1), 250);
    return () => clearInterval(timer);
  }, []);
  const n = Math.ceil((s.wait.until - performance.now()) / 1000);
  return html`
    <p class="more">${t('busy.' + s.wait.code)} ${t(s.step === 'queue' ? 'busy.place' : 'busy.nothing')}</p>
    <p class="place">${n > 0 ? t('busy.in', { n }) : t('busy.now')}</p>
    <span class="running" aria-hidden="true"></span>`;
}

// Others shows what else can be had.
const STILL = new Set(['open', 'upcoming']);
function Others({ not }) {
  const [sales, setSales] = useState([]);
  useEffect(() => {
    get('/api/sales').then((answer) => answer.ok && setSales(answer.data.filter((o) => o.id !== not && STILL.has(o.state)).slice(0, 3)));
  }, [not]);
  return sales.length === 0 ? null : html`
    <h3 class="also">${t('sale.others')}</h3>
    <ul class="others">${sales.map((o) => html`<${Card} key=${o.id} sale=${o} small />`)}</ul>`;
}

export const FACES = {
  loading: Loading, waiting: Waiting, open: Open, login: Login, sum: Sum, queue: Queue, ordered: Ordered, busy: Busy,
  sold_out: SoldOut, paid: Done, run_out: Done, cancelled: Done, refunded: Done,
  paused: Paused, ended: Over, closed: Over, invalid: Invalid,
};
