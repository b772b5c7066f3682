// The page of one sale: the goods, the countdown and the units left, and the panel to buy with.
import { html, useEffect, useLayoutEffect, useRef, useState } from './lib/preact.js';
import { useBackAgain } from './after.js';
import { now, useSecond } from './clock.js';
import { errorText, formatTime, t } from './i18n.js';
import { Countdown, Drawing, Price, Taken } from './parts.js';
import { awaitsSum, leftOf, openPurchase, viewOf } from './purchase.js';
import { Failed, Loading, mount, sandbox, setTitle } from './shell.js';
import { TabTitle } from './tab_title.js';
import { causeOf, Trouble } from './trouble.js';
import { VIEWS } from './views.js';

const id = new URLSearchParams(location.search).get('id') || '0';

function Sale({ lang, user }) {
  const [s, set] = useState(null);
  const purchase = useRef();
  useEffect(() => {
    purchase.current = openPurchase(id, set);
    return () => purchase.current.stop();
  }, []);
  useEffect(() => purchase.current.setUser(user), [user]);
  useEffect(() => { if (s) purchase.current.readSale(); }, [lang]); // the shop sends titles in the buyer's language

  useEffect(() => { if (s?.missing) setTitle(t('sale.missing')); }, [s?.missing, lang]);
  const back = useBackAgain(s?.sale && viewOf(s, now()), s?.sale);

  if (s?.missing && !s.sale) return html`<${Failed} title=${t('sale.missing')} more=${t('sale.missingMore')} />`;
  if (!s?.sale) return s?.trouble ? html`<${Trouble} trouble=${s.trouble} />` : html`<${Loading} />`;
  const { sale } = s;
  return html`
    <article class="sale">
      <${TabTitle} sale=${sale} lang=${lang} back=${back} />
      <${Drawing} src=${sale.image} />
      <div class="facts">
        <h1>${sale.title}</h1>
        <${Price} fen=${sale.price} list=${sale.list_price} />
        <${Board} s=${s} />
        <${Trouble} trouble=${s.trouble} ageOnly=${viewOf(s, now()) === 'busy'} />
        <${Panel} s=${s} purchase=${purchase.current} />
      </div>
      ${sandbox && html`<${sandbox.Bots} sale=${sale} user=${user} onLook=${() => purchase.current.readSale()} />`}
      ${sale.detail && html`<section class="about"><h2>${t('sale.detail')}</h2><p>${sale.detail}</p></section>`}
    </article>`;
}

// Board shows the countdown and the units left, in large figures.
function Board({ s }) {
  const { sale } = s;
  const { state, total } = sale;
  const left = leftOf(s, useSecond());
  const soon = state === 'upcoming';
  const over = state === 'ended';
  return html`
    <dl class="board" data-state=${state}>
      <div><dt>${over ? t('state.ended') : t(soon ? 'toStart' : 'toEnd')}</dt>
        <dd>${over ? html`<span class="countdown">${formatTime(sale.end_at, now())}</span>` : html`<${Countdown} to=${soon ? sale.start_at : sale.end_at} />`}</dd></div>
      <div><dt>${t('left')}</dt>
        <dd><span data-test="left" class="digits">${left}</span> <small>${t('totalOf', { total })}</small></dd></div>
    </dl>
    ${!soon && html`<${Taken} left=${left} total=${total} />`}`;
}

const PLAIN = new Set(['open', 'login', 'loading']); // their button says everything, so the headline is hidden

// headline names the cause in an outage, so that a shop that is down is not called crowded. A buyer who only waits for the next sum
// did nothing too often.
const headline = (view, s) => t(view !== 'busy' ? 'view.' + view : awaitsSum(s) && s.wait.code === 'too_many' ? 'view.captcha' : 'trouble.' + causeOf(s.wait));

// noteText promises a new sum for later while the shop draws none yet.
const noteText = (s) => errorText({ ...s.note, soon: awaitsSum(s) });

function Panel({ s, purchase }) {
  const at = useSecond();
  const view = viewOf(s, at);
  const View = VIEWS[view];
  const head = useRef();
  const focusWithin = useRef(false);
  useLayoutEffect(() => { // if the focused button is gone, the headline receives the focus
    const focused = document.activeElement;
    if (focusWithin.current && (focused === document.body || focused.closest('[hidden]')) && view !== 'captcha') head.current.focus();
    if (view === 'captcha' && focused === head.current) document.getElementById('captcha').focus();
  }, [view]);
  useEffect(() => { if (view === 'captcha') purchase.freshen(); }, [view]);
  useOrderExpiry(s, purchase);
  const ahead = view === 'queue' && s.result?.ahead;
  return html`
    <section class="panel" data-test="view" data-view=${view} aria-label=${t('sale.panel')}
      onFocusCapture=${() => { focusWithin.current = true; }}>
      <h2 ref=${head} tabindex="-1" class=${PLAIN.has(view) && !s.note ? 'hidden' : ''}>${headline(view, s)}</h2>
      ${s.note && html`<p class="note" data-test="note">${noteText(s)}</p>`}
      ${s.step === 'captcha' && html`<div class="sum" hidden=${view !== 'captcha'}><${VIEWS.captcha} s=${s} purchase=${purchase} /></div>`}
      ${view !== 'captcha' && html`<${View} s=${s} purchase=${purchase} view=${view} />`}
      <p class="hidden" role="status">${headline(view, s)} ${ahead ? t('queue.ahead', { n: ahead }) : ''} ${s.note ? noteText(s) : ''}</p>
    </section>`;
}

// useOrderExpiry reads the order again after its payment deadline.
function useOrderExpiry(s, purchase) {
  const { order } = s;
  useEffect(() => {
    if (order?.status !== 'pending') return undefined;
    let timer;
    const read = async () => { timer = setTimeout(read, (await purchase.readOrder()) ? 3000 : 6000); };
    timer = setTimeout(read, Math.max(0, Date.parse(order.expires_at) - now()) + 300 + Math.random() * 700);
    return () => clearTimeout(timer);
  }, [order?.id, order?.status]);
}

mount(Sale);
