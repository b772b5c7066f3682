// The logged-in user: undefined until known, null for a visitor who is not logged in (as the shop says it to a browser
// without a session), UNSURE when the shop could not say. With UNSURE a page goes on, and the first refused request decides.
//
// Tabs share the cookie, and Back brings a page as it was left. So a page that has known a user knows no other one: when someone
// else, or no one, is logged in, it erases itself, loads again and says so. It learns that from a refusal (see api.js), from another
// tab, and when it comes back: it hides before it is left, until the shop has said who is logged in.
import { render, useEffect, useState } from './lib/preact.js';
import { onRefused, post, readMe, speakFor } from './api.js';
import { forgetTurns } from './turns.js';

export const UNSURE = { nickname: '', unsure: true };

const KEY = 'miaosha.user'; // in localStorage, whose changes the other tabs see: every browser has that event
const CHANGED = 'miaosha.changed';

let user;
let asked = false;
let left = false; // the page is erased
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
  tellTabs('0');
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
  const reply = await readMe();
  if (left) return;
  const next = reply.ok ? reply.data : reply.code === 'not_logged_in' ? null : UNSURE;
  if (next === UNSURE && isHidden()) setUser({ ...UNSURE, lost: reply }); // the frame says that, and shows no page
  else if (next === UNSURE) setUser(user === undefined ? UNSURE : user);
  else if (user?.unsure || (user && user.user_id !== next?.user_id)) return loadAgain();
  else setUser(next);
  hide(false);
  if (user?.lost) setTimeout(readUser, 2000 + Math.random() * 2000);
}

function setUser(next) {
  user = next;
  if (!next?.unsure) {
    speakFor(next?.user_id ?? 0);
    tellTabs(next ? `${next.user_id} ${next.role}` : '0');
  }
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

onRefused(doubt);
addEventListener('pagehide', () => {
  document.querySelectorAll('input[type="password"]').forEach((input) => {
    input.value = '';
    input.dispatchEvent(new Event('input', { bubbles: true }));
  });
  hide(true);
});
addEventListener('pageshow', () => {
  if (!isHidden()) return undefined; // the first time
  if (left) return location.reload();
  hide(false);
  return doubt();
});
addEventListener('storage', ({ key, newValue }) => {
  if (key !== KEY || newValue === null || user === undefined) return;
  if (user && newValue.startsWith(user.user_id + ' ')) readUser(); // in another role
  else doubt();
});

function tellTabs(who) {
  try {
    localStorage.setItem(KEY, who);
  } catch {
    // the browser forbids storage: the other tabs learn it from their next request
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
