// Who is looking. user is undefined until known, null for a stranger, UNSURE when the shop
// could not say (then pages go on, and the first refused call settles it).
import { useEffect, useState } from './lib/preact.js';
import { get, post } from './api.js';

export const UNSURE = { nickname: '', unsure: true };

let user;
let asked = null;
const heard = new Set();

export function useUser() {
  const [value, tell] = useState(user);
  useEffect(() => {
    heard.add(tell);
    asked ??= ask();
    if (value !== user) tell(user);
    return () => heard.delete(tell);
  }, []);
  return value;
}

// forget: a call was answered not_logged_in.
export const forget = () => know(null);

export async function logOut() {
  await post('/api/logout');
  location.assign('/');
}

// loginHref is the log-in page, coming back to where we are.
export const loginHref = () => '/login.html?next=' + encodeURIComponent(location.pathname + location.search);

// inside keeps a way within this shop: a path with a single leading slash, else the fallback.
export function inside(way, fallback) {
  if (!/^\/(?![/\\])/.test(way || '') || /[\u0000-\u001f\\]/.test(way)) return fallback;
  const url = new URL(way, location.origin);
  return url.origin === location.origin ? url.pathname + url.search : fallback;
}

async function ask() {
  const answer = await get('/api/me');
  know(answer.ok ? answer.data : answer.code === 'not_logged_in' ? null : UNSURE);
}

function know(next) {
  user = next;
  heard.forEach((tell) => tell(next));
}
