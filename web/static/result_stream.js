// Waits for the result of a ticket. Polling alone is enough. The event stream only makes it
// faster, so its failures are ignored.
import { forUser, get } from './api.js';
import { backoff, jitter } from './retry.js';

const LOST_AFTER = 3; // replies without a ticket in a row before it counts as lost

// noTicket reports whether a result says that the buyer has no ticket. "sold_out" says so if it is
// not final: then it is about the sale, as it is now.
const noTicket = (result) => result.state === 'none' || (result.state === 'sold_out' && result.next_poll_ms > 0);

// resultStream calls onResult(result) for each news, onError(reply, ms) when a read fails and the
// next one follows in ms, and onLeft(n) with the units left. It reads for the first time after
// first ms. It returns stop().
export function resultStream(id, first, { onResult, onError, onLeft }) {
  const url = `/api/sales/${encodeURIComponent(id)}`;
  let timer;
  let over = false;
  let failures = 0;
  let none = 0;

  async function read() {
    const reply = await get(url + '/result');
    if (over) return;
    if (reply.ok) return take(reply.data);
    const ms = backoff(reply, failures++);
    onError(reply, ms);
    if (reply.code === 'not_logged_in' || reply.code === 'other_user') stop();
    else schedule(ms);
  }

  function take(result) {
    failures = 0;
    none = noTicket(result) ? none + 1 : 0;
    const pending = result.state === 'queued' || (none > 0 && none < LOST_AFTER);
    if (!pending) stop();
    if (none === 0 || none === LOST_AFTER) onResult(result);
    if (pending) schedule(jitter(result.next_poll_ms || 1000));
  }

  function schedule(ms) {
    clearTimeout(timer);
    timer = setTimeout(read, ms);
  }

  const stream = 'EventSource' in window ? new EventSource(forUser(url + '/events')) : null;
  stream?.addEventListener('result', (event) => parse(event, (result) => noTicket(result) || take(result)));
  stream?.addEventListener('left', (event) => parse(event, (figures) => onLeft(figures.left)));
  function parse(event, use) {
    if (over) return;
    try {
      use(JSON.parse(event.data));
    } catch {
      // broken data: the next poll brings the result
    }
  }

  function stop() {
    over = true;
    clearTimeout(timer);
    stream?.close();
  }

  schedule(first);
  return stop;
}
