// The logged-in user: undefined until known, null for a visitor who is not logged in, UNSURE when
// the shop could not say. With UNSURE a page goes on, and the first refused request decides.
import { useEffect, useState } from './lib/preact.js';
import { get, post } from './api.js';

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

export async function logOut() {
  await post('/api/logout');
  location.assign('/');
}

// loginHref returns the address of the log-in page, which leads back to this page.
export const loginHref = () => '/login.html?next=' + encodeURIComponent(location.pathname + location.search);

// localPath returns path if it lies within this shop and has one leading slash, otherwise fallback.
export function localPath(path, fallback) {
  if (!/^\/(?![/\\])/.test(path || '') || /[\u0000-\u001f\\]/.test(path)) return fallback;
  const url = new URL(path, location.origin);
  return url.origin === location.origin ? url.pathname + url.search : fallback;
}

async function readUser() {
  const reply = await get('/api/me');
  setUser(reply.ok ? reply.data : reply.code === 'not_logged_in' ? null : UNSURE);
}

function setUser(next) {
  user = next;
  listeners.forEach((notify) => notify(next));
}
