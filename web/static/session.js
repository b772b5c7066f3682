// The logged-in user: undefined until known, null for a visitor who is not logged in (as the shop says it to a browser
// without a session), UNSURE when the shop could not say. With UNSURE a page goes on, asks again, and changes nothing before it knows.
//
// Tabs share the cookie, and Back brings a page as it was left. So a page that has known a user knows no other one: when someone
// else, or no one, is logged in, it erases itself, loads again and says so. It learns that from a refusal (see api.js), from another
// tab, and when it comes back: it hides before it is left, until the shop has said who is logged in. It stays as it is, with ended, when
// its log-in has ended of itself while something is being typed, until someone else is logged in.
import { render, useEffect, useState } from './lib/preact.js';
import { onRefused, onUnknown, post, readMe, speakFor } from './api.js';
import { backoff } from './retry.js';
import { forgetTurns } from './turns.js';

export const UNSURE = { nickname: '', unsure: true };

const KEY = 'miaosha.user'; // in localStorage, whose changes the other tabs see: every browser has that event
const LEFT = '0'; // what the key says after a log-out; '' is a browser without a session
const CHANGED = 'miaosha.changed';

let user;
let asked = false;
let left = false; // the page is erased
let typed = false; // the page has what its user has typed since it came to the front
let gone = false; // the page was left, and did not come back yet
let failures = 0; // of reading the user, one after another
let again;
const cookieOf = lastUser(); // whose the cookie was when the page began, as far as the tabs knew
const listeners = new Set();

// changed: the page was loaded again, because its user is not logged in any more.
export const changed = takeMark();

export function useUser() {
  const [value, setValue] = useState(user);
  useEffect(() => {
    listeners.add(setValue);
    if (!asked) readUser();
    if (value !== user) setValue(user);
    return () => listeners.delete(setValue);
  }, []);
  return value;
}

// logOut leads to the list of sales; or, if other devices may still be logged in, to a page that says so.
export async function logOut() {
  const reply = await post('/api/logout');
  if (reply.code === 'other_user') return; // who is logged in now has not asked for it
  hasLoggedOut(reply.ok || reply.code === 'not_logged_in' ? '/' : '/login.html?logout=unfinished');
}

// hasLoggedOut erases the page and leads to another one.
export function hasLoggedOut(path) {
  tellTabs(LEFT);
  erase();
  location.assign(path);
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
  asked = true;
  const reply = await readMe(isHidden() ? 4000 : undefined);
  if (left) return reply;
  const next = reply.ok ? reply.data : reply.code === 'not_logged_in' ? null : UNSURE;
  if (next === UNSURE && isHidden()) setUser({ ...UNSURE, lost: reply }); // the frame says that, and shows no page
  else if (next === UNSURE) show(user === undefined ? UNSURE : user);
  else if (next === null && user?.user_id && typed) show({ ...user, ended: true });
  else if (isOther(next)) {
    loadAgain();
    return reply;
  } else setUser(next);
  hide(false);
  clearTimeout(again);
  failures = user?.unsure ? failures + 1 : 0;
  if (failures) again = setTimeout(readUser, backoff(reply, failures));
  return reply;
}

// isOther reports whether the page may be another user's than next.
function isOther(next) {
  if (user?.unsure) return !!user.lost || (next !== null && String(next.user_id) !== cookieOf);
  return !!user && user.user_id !== next?.user_id;
}

function setUser(next) {
  if (!next?.unsure) {
    speakFor(next?.user_id ?? 0);
    tellTabs(next ? `${next.user_id} ${next.role}` : '');
  }
  show(next);
}

function show(next) {
  user = next;
  listeners.forEach((notify) => notify(next));
}

const hide = (on) => { document.body.style.visibility = on ? 'hidden' : ''; };
const isHidden = () => document.body.style.visibility === 'hidden';

// doubt asks who is logged in. A page that shows a user is hidden until then.
function doubt() {
  if (left || (user && isHidden())) return undefined; // it has asked
  hide(!!user);
  return readUser();
}

function loadAgain() {
  erase();
  if (user.user_id) mark();
  location.reload();
}

// erase takes from the page and from this tab what belongs to the user.
function erase() {
  left = true;
  render(null, document.getElementById('app'));
  forgetTurns(user?.user_id);
  try {
    sessionStorage.clear();
  } catch {
    // the browser forbids storage
  }
}

onRefused(() => user?.ended || doubt());
onUnknown(async () => {
  const reply = await readUser();
  if (left) return { ok: false, code: 'other_user', msg: '' };
  return user?.unsure ? reply : null;
});
addEventListener('pagehide', () => {
  document.querySelectorAll('input[type="password"]').forEach((input) => {
    input.value = '';
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });
  hide(true);
  gone = true;
  typed = false;
});
addEventListener('input', () => { typed = true; }, true);

function comeBack() {
  if (!gone) return undefined;
  gone = false;
  if (left) return location.reload();
  hide(false);
  return doubt();
}
addEventListener('pageshow', comeBack);
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return;
  comeBack(); // it was not left after all
  if (user?.ended) readUser(); // its user may have logged in again
});
addEventListener('storage', ({ key, newValue }) => {
  if (key !== KEY || newValue === null || user === undefined) return;
  if (newValue === LEFT) typed = false; // what its user has typed goes with them
  if (user && newValue.startsWith(user.user_id + ' ')) readUser(); // in another role, or again
  else doubt();
});

function tellTabs(who) {
  try {
    localStorage.setItem(KEY, who);
  } catch {
    // the browser forbids storage: the other tabs learn it from their next request
  }
}

function lastUser() {
  try {
    return localStorage.getItem(KEY)?.split(' ')[0];
  } catch {
    return undefined;
  }
}

function mark() {
  try {
    sessionStorage.setItem(CHANGED, '1');
  } catch {
    // as above: nothing says why the page is another one
  }
}

function takeMark() {
  try {
    const is = sessionStorage.getItem(CHANGED) !== null;
    sessionStorage.removeItem(CHANGED);
    return is;
  } catch {
    return false;
  }
}
