// What a buyer wants to know afterwards: what comes next, when units come back, and the order's number to copy.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { now } from './clock.js';
import { formatTime, t } from './i18n.js';
import { remind, useWish, wanted } from './notify.js';
import { readWhileHidden } from './poll.js';
import { WishButton, Wished } from './wish.js';

const SOON = 600_000; // such a time has seconds
const inSandbox = 'lab' in document.documentElement.dataset;

// Next says what comes after the payment.
export function Next({ shipped }) {
  if (inSandbox && !shipped) return html`<p class="more" data-test="next">${t('next.sandbox')}</p>`;
  const steps = shipped ? ['shipped', 'help'] : ['ship', 'tracking', 'help'];
  return html`<ol class="steps" data-test="next">${steps.map((step) => html`<li key=${step}>${t('next.' + step)}</li>`)}</ol>`;
}

// Returns says how many units wait for a payment and when the first may come back, and offers a notification or a sound.
export function Returns({ sale }) {
  const wish = useWish('back', sale.id);
  useEffect(() => {
    if (!wish.means) return undefined;
    readWhileHidden(true);
    return () => readWhileHidden(false);
  }, [wish.means !== '']);
  const { held, back_at: back } = sale;
  return html`
    ${held !== undefined && html`<p class="more" data-test="held">${held > 0
      ? t('held.units', { n: held, at: back && Date.parse(back) > now() ? formatTime(back, now(), Date.parse(back) - now() < SOON ? '2-digit' : undefined) : '' }) : t('held.none')}</p>`}
    ${held !== 0 && html`<p><${WishButton} wish=${wish} of="held" test="notify-back" /></p><${Wished} wish=${wish} of="held" />`}`;
}

// useBackAgain tells a visitor who wished it that a unit is back, when the panel goes from sold out to its button. It returns whether
// the title of a hidden page should say so.
export function useBackAgain(view, sale) {
  const former = useRef(view);
  const [back, setBack] = useState(false);
  useEffect(() => {
    const seen = () => document.hidden || setBack(false);
    document.addEventListener('visibilitychange', seen);
    return () => document.removeEventListener('visibilitychange', seen);
  }, []);
  useEffect(() => {
    if (former.current === 'sold_out' && (view === 'open' || view === 'login') && wanted('back', sale.id)) {
      remind(t('back.title', { title: sale.title }), t('back.body'), 'back-' + sale.id);
      setBack(document.hidden);
    }
    former.current = view;
  }, [view]);
  return back && (view === 'open' || view === 'login');
}

// OrderNumber shows the short number of an order, and copies it.
export function OrderNumber({ order }) {
  const [copied, setCopied] = useState(false);
  const text = useRef();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(order.number);
    } catch { // not over plain http from another machine
      getSelection().selectAllChildren(text.current);
      document.execCommand('copy');
    }
    setCopied(true);
  };
  return html`<span class="number" translate="no" data-test="order-number" ref=${text}>${order.number}</span>
    <button type="button" class="plain copy" data-test="copy-number" onClick=${copy}>${t('number.copy')}</button>
    <span class="hidden" role="status">${copied && t('number.copied')}</span>${copied && html`<span aria-hidden="true"> ✓</span>`}`;
}
