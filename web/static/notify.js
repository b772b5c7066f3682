// Notifications of the browser. The permission is asked for on a click only. A page sends them itself, so it has to stay open.
import { useState } from './lib/preact.js';

export const canNotify = 'Notification' in window && window.isSecureContext;

// notify shows a notification. A click on it leads to this page. Some browsers on phones show none.
export function notify(title, body, tag) {
  try {
    const shown = new Notification(title, { body, tag });
    shown.onclick = () => { window.focus(); shown.close(); };
  } catch {
    // such a browser has told the visitor nothing: the page still has its countdown in the title
  }
}

// The wishes to be told of an event of a sale. They outlive a reload of the tab.
const wishes = new Set();
const KEY = 'miaosha.wishes';
try {
  JSON.parse(sessionStorage.getItem(KEY) || '[]').forEach((wish) => wishes.add(wish));
} catch {
  // the browser forbids storage: a wish lasts as long as the page
}

export const wanted = (event, sale) => canNotify && Notification.permission === 'granted' && wishes.has(`${event} ${sale}`);

// useWish returns [state, ask] of such a wish. The state is '' without one, 'granted', or 'denied' when the browser forbids
// notifications.
export function useWish(event, sale) {
  const [state, setState] = useState(() => (wanted(event, sale) ? 'granted' : ''));
  const ask = async () => {
    const answer = await Notification.requestPermission();
    setState(answer === 'granted' ? 'granted' : 'denied');
    if (answer !== 'granted') return;
    wishes.add(`${event} ${sale}`);
    try {
      sessionStorage.setItem(KEY, JSON.stringify([...wishes]));
    } catch {
      // as above
    }
  };
  return [state, ask];
}
