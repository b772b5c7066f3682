// Waits for the outcome of a ticket. Polling is the base and works alone; the event stream
// only makes it quicker, and its failures are nobody's business.
import { get } from './api.js';
import { pause, spread } from './patience.js';

const DEAF = 3; // answers "none" in a row before a ticket counts as lost

// watchResult calls heard(result) for every news, trouble(answer, ms) when the shop cannot say
// (it goes on asking), and left(n). first is ms until the first question. It returns stop().
export function watchResult(id, first, { heard, trouble, left }) {
  const way = `/api/sales/${encodeURIComponent(id)}`;
  let timer;
  let over = false;
  let failures = 0;
  let none = 0;

  async function ask() {
    const answer = await get(way + '/result');
    if (over) return;
    if (answer.ok) return take(answer.data);
    const ms = pause(answer, failures++);
    trouble(answer, ms);
    if (answer.code === 'not_logged_in') stop();
    else later(ms);
  }

  function take(result) {
    failures = 0;
    none = result.state === 'none' ? none + 1 : 0;
    const open = result.state === 'queued' || (none > 0 && none < DEAF);
    if (!open) stop();
    if (none === 0 || none === DEAF) heard(result);
    if (open) later(spread(result.next_poll_ms || 1000));
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(ask, ms);
  }

  const stream = 'EventSource' in window ? new EventSource(way + '/events') : null;
  stream?.addEventListener('result', (event) => read(event, (result) => result.state !== 'none' && take(result)));
  stream?.addEventListener('left', (event) => read(event, (figures) => left(figures.left)));
  function read(event, use) {
    if (over) return;
    try {
      use(JSON.parse(event.data));
    } catch {
      // a line we cannot read: the next poll knows
    }
  }

  function stop() {
    over = true;
    clearTimeout(timer);
    stream?.close();
  }

  later(first);
  return stop;
}
