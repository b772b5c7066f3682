// Requests to the shop. Nothing here throws: every request returns
//   {ok: true, data, age}                           age in s, 0 if the data is fresh; or
//   {ok: false, code, msg, retryAfter, ...extra}    retryAfter in ms, 0 if the shop named none.
// A broken connection and a proxy's error page have codes too (offline, busy), so no caller can
// take an outage for a refusal.
import { lang } from './i18n.js';
import { addSample } from './clock.js';
import { once } from './once.js';

const TIMEOUT = 10_000; // ms for one reply, unless the caller knows that it takes longer

// Whose this page is: the id of its user, 0 for a visitor, undefined while that is not known. Each request says it, and the shop
// refuses one if another user is logged in by now.
let whose;
let heard = () => {};
let ask = async () => null;

export const speakFor = (id) => { whose = id; };

// onUnknown calls f before the page changes something and does not know whose it is: f returns null if that is known by then, or why not.
export const onUnknown = (f) => { ask = f; };

// onRefused calls f when a request was refused because the page's user is not logged in any more.
export const onRefused = (f) => { heard = f; };

export const whoseHeader = () => (whose === undefined ? {} : { 'X-User': String(whose) });

// forUser returns the address of a stream or a download, for which a browser sends no header.
export const forUser = (path) => (whose === undefined ? path : `${path}${path.includes('?') ? '&' : '?'}for=${whose}`);

// hearRefusal hears of a refusal with this code, whoever sent the request.
export const hearRefusal = (code) => { if (code === 'other_user' || code === 'not_logged_in') heard(); };

export const get = (path) => send('GET', path, readData);

// readMe asks who is logged in, whoever it is.
export const readMe = (timeout) => send('GET', '/api/me', readData, { ofAnyone: true, timeout });

// post sends an object as JSON, and a file as it is. A request with a key can be sent again with it: see useKeys.
export const post = (path, body, { timeout, key } = {}) => once(path, body, async () => {
  const reply = whose === undefined && await ask();
  return reply ? { ...reply, unsent: true } : send('POST', path, readData, { body, timeout, key });
});

// getImage returns an image as a blob: URL, which the caller revokes.
export const getImage = (path) => send('GET', path, readImage);

const readImage = async (response) => URL.createObjectURL(await response.blob());

async function readData(response, sentAt, receivedAt) {
  const { data } = await response.json();
  if (data && data.server_time) addSample(Date.parse(data.server_time), sentAt, receivedAt, 0);
  return data;
}

// send sends a request. read takes the data from its response. A request ofAnyone does not say whose the page is.
async function send(method, path, read, { body, timeout = TIMEOUT, key, ofAnyone = false } = {}) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), timeout);
  const init = {
    method,
    headers: { Accept: 'application/json', 'Accept-Language': lang(), ...(ofAnyone ? {} : whoseHeader()) },
    credentials: 'same-origin',
    cache: 'no-cache', // the browser revalidates each time
    redirect: 'error',
    signal: abort.signal,
  };
  if (key) init.headers['Idempotency-Key'] = key;
  if (body instanceof Blob) {
    init.body = body;
  } else if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const sentAt = performance.now();
  try {
    const response = await fetch(path, init);
    const receivedAt = performance.now();
    // The Date header has whole seconds: take the middle of that second.
    const date = Date.parse(response.headers.get('Date') || '');
    if (date) addSample(date + 500, sentAt, receivedAt, 500);
    if (!response.ok) {
      const refused = await refusal(response);
      if (!ofAnyone) hearRefusal(refused.code);
      return refused;
    }
    return { ok: true, data: await read(response, sentAt, receivedAt), age: ageOf(response) };
  } catch {
    return offline();
  } finally {
    clearTimeout(timer);
  }
}

async function refusal(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // not a reply of the shop (a proxy's page, a broken connection): the status decides
  }
  const { status } = response;
  const guess = status === 401 ? 'not_logged_in' : status === 404 ? 'not_found'
    : status === 429 ? 'too_many' : status === 503 ? 'busy' : status > 501 ? 'offline' : 'internal';
  return { msg: '', ...body, ok: false, status, code: body.code || guess, retryAfter: retryAfter(response) };
}

// ageOf returns the age of data that the shop calls stale: it cannot read its catalogue just now. Without a warning, Age is a cache's.
const ageOf = ({ headers }) => (headers.get('Warning')?.startsWith('110') ? Number(headers.get('Age')) || 0 : 0);

const offline = () => ({ ok: false, status: 0, code: 'offline', msg: '', retryAfter: 0 });

function retryAfter(response) {
  const value = response.headers.get('Retry-After');
  if (!value) return 0;
  const ms = /^\d+$/.test(value) ? value * 1000 : Date.parse(value) - Date.parse(response.headers.get('Date') || '');
  return ms > 0 ? Math.min(ms, 60_000) : 0;
}
