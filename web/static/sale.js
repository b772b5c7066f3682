// The page of one sale: the goods, the figures, and the panel to buy with.
import { html, useEffect, useLayoutEffect, useRef, useState } from './lib/preact.js';
import { now, useSecond } from './clock.js';
import { FACES } from './faces.js';
import { t, when, why } from './i18n.js';
import { Countdown, Drawing, LeftBar, Price } from './parts.js';
import { faceOf, openPurchase } from './purchase.js';
import { Failed, mount, title } from './shell.js';

const id = new URLSearchParams(location.search).get('id') || '0';

function Sale({ lang, user }) {
  const [s, set] = useState(null);
  const deal = useRef();
  useEffect(() => {
    deal.current = openPurchase(id, set);
    return () => deal.current.stop();
  }, []);
  useEffect(() => deal.current.know(user), [user]);
  useEffect(() => { if (s) deal.current.reread(); }, [lang]); // titles come in the buyer's language
  useEffect(() => title(s?.sale?.title), [lang, s?.sale?.title]);

  if (s?.missing && !s.sale) return html`<${Failed} title=${t('sale.missing')} more=${t('sale.missingMore')} />`;
  if (!s?.sale) return html`<div class="sale" aria-busy="true"><span class="drawing"></span>
    <p class="more" role="status">${s?.stale ? t('busy.busy') + ' ' + t('busy.now') : t('loading')}</p></div>`;
  const { sale } = s;
  return html`
    <article class="sale">
      <${Drawing} src=${sale.image} />
      <div class="facts">
        <h1>${sale.title}</h1>
        <${Price} fen=${sale.price} list=${sale.list_price} />
        <${Board} sale=${sale} />
        ${s.stale && html`<p class="note" role="status">${t('stale')}</p>`}
        <${Panel} s=${s} deal=${deal.current} />
      </div>
      ${sale.detail && html`<section class="about"><h2>${t('sale.detail')}</h2><p>${sale.detail}</p></section>`}
    </article>`;
}

// Board: the two figures one should be able to read across a room.
function Board({ sale }) {
  const { state, left, total } = sale;
  const soon = state === 'upcoming';
  const over = state === 'ended';
  return html`
    <dl class="board" data-state=${state}>
      <div><dt>${over ? t('state.ended') : t(soon ? 'toStart' : 'toEnd')}</dt>
        <dd>${over ? html`<span class="countdown">${when(sale.end_at, now())}</span>` : html`<${Countdown} to=${soon ? sale.start_at : sale.end_at} />`}</dd></div>
      <div><dt>${t('left')}</dt>
        <dd><span data-test="left" class="digits">${left}</span> <small>${t('totalOf', { total })}</small></dd></div>
      <${LeftBar} left=${left} total=${total} />
    </dl>`;
}

const PLAIN = new Set(['open', 'login', 'loading']); // their button says it all

function Panel({ s, deal }) {
  const at = useSecond();
  const face = faceOf(s, at);
  const Face = FACES[face];
  const head = useRef();
  const inside = useRef(false);
  useLayoutEffect(() => { // a button that had the focus and is gone hands it to the headline
    if (inside.current && document.activeElement === document.body && face !== 'sum') head.current.focus();
  }, [face]);
  usePayTime(s, deal);
  const ahead = face === 'queue' && s.result?.ahead;
  return html`
    <section class="panel" data-test="face" data-face=${face} aria-label=${t('sale.panel')}
      onFocusCapture=${() => { inside.current = true; }}>
      <h2 ref=${head} tabindex="-1" class=${PLAIN.has(face) && !s.note ? 'hidden' : ''}>${t('face.' + face)}</h2>
      ${s.note && html`<p class="note" data-test="note">${why(s.note)}</p>`}
      <${Face} s=${s} deal=${deal} face=${face} />
      <p class="hidden" role="status">${t('face.' + face)} ${ahead ? t('queue.ahead', { n: ahead }) : ''} ${s.note ? why(s.note) : ''}</p>
    </section>`;
}

// usePayTime asks for the order again when its time to pay is over.
function usePayTime(s, deal) {
  const { order } = s;
  useEffect(() => {
    if (order?.status !== 'pending') return undefined;
    let timer;
    const look = async () => { timer = setTimeout(look, (await deal.orderAgain()) ? 3000 : 6000); };
    timer = setTimeout(look, Math.max(0, Date.parse(order.expires_at) - now()) + 300 + Math.random() * 700);
    return () => clearTimeout(timer);
  }, [order?.id, order?.status]);
}

mount(Sale);
