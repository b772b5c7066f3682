// The tour of a sandbox: five notes at the lower edge, one at a time. A note takes no focus and covers nothing for good: it lies
// below the page, and sticks to the window's edge until one has scrolled there. In a window without room beside the page it is a line
// that opens, which on a phone sticks on the home page alone. The browser remembers the step, and that the tour was closed; the footer
// starts it again.
import { html, useEffect, useState } from '../lib/preact.js';
import { t } from '../i18n.js';

const KEY = 'miaosha.tour';
const STEPS = 5;
const CLOSED = 0;
const listeners = new Set();
let step = stored();

// Where a step is done: on these pages; and where one goes for it from any other page.
const PAGES = {
  1: { at: ['/', '/index.html'], go: '/' },
  2: { at: ['/sale.html'], go: '/' },
  3: { at: ['/sale.html', '/login.html'], go: '/' },
  4: { at: ['/order.html', '/pay.html', '/orders.html', '/sale.html'], go: '/orders.html' },
  5: { at: ['/lab.html', '/admin.html'], go: '/lab.html' },
};
const WHOLE = ['/sale.html', '/lab.html', '/admin.html', '/class.html']; // pages that need the whole width of most windows
const NONE = ['/teach.html', '/live.html', '/courses.html', '/mine.html']; // pages of a teacher, and one that needs its whole window
// A page that belongs to a later step leads there automatically: a visitor who looks at a sale has chosen one.
const LEADS_TO = { '/sale.html': 2, '/order.html': 4, '/pay.html': 4 };

if (step !== CLOSED && LEADS_TO[location.pathname] > step) goTo(LEADS_TO[location.pathname]);

export function Tour() {
  const [now, setNow] = useState(step);
  const [open, setOpen] = useState(matchMedia(`(min-width: ${WHOLE.includes(location.pathname) ? 1680 : 1280}px) and (min-height: 700px)`).matches);
  useEffect(() => {
    listeners.add(setNow);
    return () => listeners.delete(setNow);
  }, []);
  if (now === CLOSED || NONE.includes(location.pathname)) return null;
  const page = PAGES[now];
  const here = page.at.includes(location.pathname);
  const last = now === STEPS;
  return html`
    <aside class="tour" aria-label=${t('tour')} data-test="tour" data-note=${now}>
      <details open=${open} onToggle=${(event) => setOpen(event.target.open)}>
      <summary data-test="tour-open">${t('tour.step', { n: now, of: STEPS })}</summary>
      <p role="status">${t('tour.' + now)}</p>
      <p class="row">
        ${!here && html`<a class="button quiet" data-test="tour-go" href=${page.go}>${t('tour.go.' + now)}</a>`}
        <button class="button quiet" data-test="tour-next" onClick=${() => goTo(last ? CLOSED : now + 1)}>${t(last ? 'tour.done' : 'tour.next')}</button>
        ${now > 1 && html`<button class="plain" data-test="tour-back" onClick=${() => goTo(now - 1)}>${t('tour.back')}</button>`}
        ${!last && html`<button class="plain" data-test="tour-close" onClick=${() => goTo(CLOSED)}>${t('tour.close')}</button>`}
      </p></details>
    </aside>`;
}

// Again is a line of the footer that starts the tour from its first step.
export function Again() {
  const start = () => {
    goTo(1);
    requestAnimationFrame(() => document.querySelector('.tour summary')?.focus());
  };
  return html`<button class="plain again" data-test="tour-again" onClick=${start}>${t('tour.again')}</button>`;
}

function goTo(next) {
  step = next;
  try {
    localStorage.setItem(KEY, String(next));
  } catch {
    // the browser forbids storage: the step lasts as long as the page
  }
  listeners.forEach((notify) => notify(next));
}

function stored() {
  try {
    const text = localStorage.getItem(KEY);
    return text === null ? 1 : Math.max(CLOSED, Math.min(STEPS, Math.trunc(Number(text)) || CLOSED));
  } catch {
    return 1;
  }
}
