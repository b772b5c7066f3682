// Reminders: notifications of the browser where it can show one, otherwise a sound. The permission is asked for on a click only. A
// page sends them itself, so it has to stay open.
import { useState } from './lib/preact.js';
import { canSound, isPrepared, prepare, ring } from './sound.js';

// constructs reports whether a page can make a notification. Chrome on Android has the class and throws: there a service worker alone
// can. Without the permission a try shows nothing.
function constructs() {
  if (!('Notification' in window) || !window.isSecureContext) return false;
  if (Notification.permission === 'granted') return !/Android/.test(navigator.userAgent);
  try {
    return Boolean(new Notification(''));
  } catch {
    return false;
  }
}
const can = constructs();

// whyNot says why this browser shows this page no notification: none, insecure (the address is not https) or denied; '' if it does, or asks.
const whyNot = () => {
  if (!can) return window.isSecureContext ? 'none' : 'insecure';
  return Notification.permission === 'denied' ? 'denied' : '';
};
const isGranted = () => can && Notification.permission === 'granted';

// remind tells a visitor who wished it: by a notification, a click on which leads to this page, or by a sound.
export function remind(title, body, tag) {
  if (!isGranted()) return ring();
  try {
    const shown = new Notification(title, { body, tag });
    shown.onclick = () => { window.focus(); shown.close(); };
    shown.onerror = ring;
  } catch {
    ring(); // the browser has changed its mind
  }
}

// The wishes to be told of an event of a sale. Those for a notification outlive a reload of the tab; a sound needs a click again.
const wishes = new Set();
const KEY = 'miaosha.wishes';
try {
  JSON.parse(sessionStorage.getItem(KEY) || '[]').forEach((wish) => wishes.add(wish));
} catch {
  // the browser forbids storage: a wish lasts as long as the page
}

const meansOf = (key) => (!wishes.has(key) ? '' : isGranted() ? 'notice' : isPrepared() ? 'sound' : '');

export const wanted = (event, sale) => meansOf(`${event} ${sale}`) !== '';

// useWish returns such a wish: {means, offer, why, ask}. means is how the visitor will be told: notice or sound, '' without a wish;
// offer is what ask() can bring, '' for nothing. why says why there is no notification: as whyNot, or undecided after a question of the
// browser that was closed.
export function useWish(event, sale) {
  const key = `${event} ${sale}`;
  const [closed, setClosed] = useState(false);
  const [, render] = useState(0);
  const ask = async () => {
    prepare();
    const never = whyNot(); // it may have changed since the button was drawn
    const answer = never || await permission();
    wishes.delete(key);
    setClosed(answer === 'default');
    if (answer === 'granted') {
      wishes.add(key);
      store();
    } else if (never) {
      wishes.add(key);
      ring(); // so the visitor knows how it sounds
    }
    render((n) => n + 1);
  };
  const why = whyNot();
  return { means: meansOf(key), offer: !why ? 'notice' : canSound ? 'sound' : '', why: why || (closed ? 'undecided' : ''), ask };
}

// permission asks the visitor. Safari before 15 calls a function in place of returning a promise.
const permission = () => new Promise((done) => {
  try {
    Notification.requestPermission(done)?.then(done, () => done(Notification.permission));
  } catch {
    done(Notification.permission);
  }
});

function store() {
  try {
    sessionStorage.setItem(KEY, JSON.stringify([...wishes]));
  } catch {
    // as above
  }
}
