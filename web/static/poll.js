// Reads one URL again and again, as long as the page is visible.
import { get } from './api.js';
import { backoff } from './retry.js';

// poll calls onData(data) after each read and onError(reply) after each failed one. onError may
// return false to end it. interval(data) returns the ms until the next read. Returns {read, stop}.
export function poll(url, { onData, onError = () => {}, interval }) {
  let timer;
  let failures = 0;
  let over = false;
  let latest = 0;

  async function read() {
    clearTimeout(timer);
    const current = ++latest;
    const reply = await get(url);
    if (over || current !== latest) return; // a newer read is under way
    if (reply.ok) {
      failures = 0;
      onData(reply.data);
      schedule(interval(reply.data));
    } else if (onError(reply) !== false) schedule(backoff(reply, failures++));
  }
  const schedule = (ms) => { timer = setTimeout(readIfVisible, ms); };
  const readIfVisible = () => document.hidden || read();
  document.addEventListener('visibilitychange', readIfVisible);
  read();
  return {
    read,
    stop() {
      over = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', readIfVisible);
    },
  };
}
