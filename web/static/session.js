// The logged-in user: undefined until known, null for a visitor who is not logged in (as the shop says it to a browser
// without a session), UNSURE when the shop could not say. With UNSURE a page goes on, and the first refused request decides.
import { useEffect, useState } from './lib/preact.js';
import { get, post } from './api.js';
import { forgetTurns } from './turns.js';

export const UNSURE = { nickname: '', unsure: true };

let user;
let reading = null;
const listeners = new Set();

export function useUser() {
  const [value, setValue] = useState(user);
  useEffect(() => {
    listeners.add(setValue);
    reading ??= readUser();
    if (value !== user) setValue(user);
    return () => listeners.delete(setValue);
  }, []);
  return value;
}

// forgetUser is called when a request was refused as not_logged_in.
export const forgetUser = () => setUser(null);

// logOut leads to the list of sales; or, if other devices may still be logged in, to a page that says so.
export async function logOut() {
  const reply = await post('/api/logout');
  forgetTurns();
  location.assign(reply.ok || reply.code === 'not_logged_in' ? '/' : '/login.html?logout=unfinished');
}

// loginHref returns the address of the log-in page, which leads back to this page.
export const loginHref = () => '/login.html?next=' + encodeURIComponent(location.pathname + location.search);

// One slash; no backslash, which a browser reads as a slash; no control character, which it drops.
const LOCAL = /^\/(?!\/)[^\\\u0000-\u001f]*$/;

// localPath returns path, parsed, if it lies within this shop and has one leading slash, otherwise
// fallback. The parsed path is checked too: "/.//host" has one leading slash, but its parsed path
// is "//host", the address of another site.
export function localPath(path, fallback) {
  if (!LOCAL.test(path)) return fallback;
  const { pathname, search } = new URL(path, location.origin);
  return LOCAL.test(pathname) ? pathname + search : fallback;
}

// readUser reads the user again, after a change of the account.
export async function readUser() {
  const reply = await get('/api/me');
  setUser(reply.ok ? reply.data : reply.code === 'not_logged_in' ? null : UNSURE);
}

function setUser(next) {
  user = next;
  listeners.forEach((notify) => notify(next));
}
