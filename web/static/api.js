// Talks to the shop. Nothing here throws: every call answers
//   {ok: true, data}                                or
//   {ok: false, code, msg, retryAfter, ...extra}    retryAfter in ms, 0 when the shop named none.
// A broken line or a proxy's page becomes a code too (offline, busy), so no caller can
// mistake an outage for a refusal.
import { lang } from './i18n.js';
import { sample } from './clock.js';

const LIMIT = 10_000; // ms for one answer, unless the caller knows of a longer one

export const get = (path) => call('GET', path);
export const post = (path, body, limit) => call('POST', path, body, limit);

// picture fetches an image as a blob: URL; a refusal reads like any other.
// The caller revokes the URL.
export async function picture(path) {
  const got = await send('GET', path);
  if (!got.response) return got;
  if (!got.response.ok) return refusal(got.response);
  try {
    return { ok: true, data: URL.createObjectURL(await got.response.blob()) };
  } catch {
    return offline();
  }
}

async function call(method, path, body, limit) {
  const got = await send(method, path, body, limit);
  if (!got.response) return got;
  const { response, sent, answered } = got;
  if (!response.ok) return refusal(response);
  try {
    const { data } = await response.json();
    if (data && data.server_time) sample(Date.parse(data.server_time), sent, answered, 0);
    return { ok: true, data };
  } catch {
    return offline();
  }
}

async function send(method, path, body, limit = LIMIT) {
  const init = {
    method,
    headers: { Accept: 'application/json', 'Accept-Language': lang() },
    credentials: 'same-origin',
    cache: 'no-cache', // asked for each time; the shop says what may be kept to ask with
    redirect: 'error',
    signal: AbortSignal.timeout(limit),
  };
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(body);
  }
  const sent = performance.now();
  try {
    const response = await fetch(path, init);
    const answered = performance.now();
    // Date counts whole seconds: take the middle of that second.
    const date = Date.parse(response.headers.get('Date') || '');
    if (date) sample(date + 500, sent, answered, 500);
    return { response, sent, answered };
  } catch {
    return offline();
  }
}

async function refusal(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // not ours (a proxy's page, a cut line): the status has to do
  }
  const { status } = response;
  const guess = status === 401 ? 'not_logged_in' : status === 404 ? 'not_found'
    : status === 429 ? 'too_many' : status >= 502 ? 'busy' : 'internal';
  return { msg: '', ...body, ok: false, status, code: body.code || guess, retryAfter: retryAfter(response) };
}

const offline = () => ({ ok: false, status: 0, code: 'offline', msg: '', retryAfter: 0 });

function retryAfter(response) {
  const value = response.headers.get('Retry-After');
  if (!value) return 0;
  const ms = /^\d+$/.test(value) ? value * 1000 : Date.parse(value) - Date.parse(response.headers.get('Date') || '');
  return ms > 0 ? Math.min(ms, 60_000) : 0;
}
