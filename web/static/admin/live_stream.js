// Reads the live view's event stream. It is read with fetch and not with EventSource: a link to the view goes into a header, which
// no proxy logs, and a refusal has a code.
import { hearRefusal, whoseHeader } from '../api.js';
import { lang } from '../i18n.js';
import { backoff } from '../retry.js';

const SILENT = 10_000; // ms without an event until the stream counts as broken

// liveStream reads the figures of a sale, or with '' of the whole shop. It calls onEvent(name, data), and onState('live'),
// onState('broken') or onState('full') when it tries again, or onState(code) when the shop refuses for good. It returns stop().
export function liveStream({ sale, link, onEvent, onState }) {
  const url = (link === undefined ? '/api/admin/live' : '/api/live') + (sale ? '?sale=' + encodeURIComponent(sale) : '');
  const headers = { 'Accept-Language': lang(), ...(link === undefined ? whoseHeader() : {}), ...(link ? { 'X-Live-Link': link } : {}) };
  let abort;
  let timer;
  let over = false;
  let failures = 0;

  async function read() {
    abort = new AbortController();
    let wait = {};
    let state = 'broken';
    try {
      const response = await fetch(url, { headers, credentials: 'same-origin', cache: 'no-store', signal: abort.signal });
      if (!response.ok) {
        const { code } = await response.json();
        if (link === undefined) hearRefusal(code);
        if ([400, 401, 403, 409].includes(response.status)) return onState(code);
        if (code === 'busy') state = 'full'; // also for a guest whose place another one has got
        wait = { retryAfter: 1000 * (response.headers.get('Retry-After') || 0) };
      } else {
        await events(response.body.getReader());
      }
    } catch {
      // a broken connection, or stop()
    }
    if (over) return;
    onState(state);
    timer = setTimeout(read, backoff({ retryAfter: 0, ...wait }, failures++));
  }

  async function events(reader) {
    const decoder = new TextDecoder();
    let text = '';
    for (;;) {
      const silent = setTimeout(() => abort.abort(), SILENT);
      const { done, value } = await reader.read().finally(() => clearTimeout(silent));
      if (done || over) return;
      text += decoder.decode(value, { stream: true });
      const parts = text.split('\n\n');
      text = parts.pop();
      for (const part of parts) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(part) || [];
        if (!name) continue;
        failures = 0;
        onEvent(name, JSON.parse(data));
        onState('live');
      }
    }
  }

  // Without a link there is nothing to ask, unless the view is open to everyone.
  if (link === '' && !('live' in document.documentElement.dataset)) onState('bad_link');
  else read();
  return () => {
    over = true;
    clearTimeout(timer);
    abort?.abort();
  };
}
