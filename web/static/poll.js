// Reads one URL again and again, as long as the page is visible.
import { get } from './api.js';
import { backoff } from './retry.js';

const LONGEST = 2 ** 31 - 1; // ms, 24 days: a browser takes a longer wait for none

let whileHidden = false;

// readWhileHidden sets whether a hidden page reads, too: its visitor wants to be told what happens.
export const readWhileHidden = (on) => { whileHidden = on; };

// poll calls onData(data, trouble) after each read and onError(reply, trouble) after each failed one. onError may
// return false to end it. interval(data) returns the ms until the next read; hidden(data) those until the next read of a hidden
// page, if it needs one. trouble is for Trouble: null if all is well, otherwise {reply, since}, with the failed reply and the time
// of performance.now() from which the last data is, if there is any. Returns {read, stop}.
export function poll(url, { onData, onError = () => {}, interval, hidden = () => 0 }) {
  let timer;
  let failures = 0;
  let over = false;
  let latest = 0;
  let last;  // the last data
  let since; // from which it is

  async function read() {
    clearTimeout(timer);
    const current = ++latest;
    const reply = await get(url);
    if (over || current !== latest) return; // a newer read is under way
    if (reply.ok) {
      failures = 0;
      last = reply.data;
      since = performance.now() - reply.age * 1000;
      onData(last, reply.age > 0 ? { since } : null);
      schedule(interval(last));
    } else if (onError(reply, { reply, since }) !== false) schedule(backoff(reply, failures++));
  }
  const wait = (data) => hidden(data) || (whileHidden && 10_000);
  function schedule(ms) {
    clearTimeout(timer);
    const late = document.hidden && last && wait(last);
    timer = setTimeout(late ? read : readIfVisible, Math.min(LONGEST, Math.max(late || 0, ms)));
  }
  const readIfVisible = () => (document.hidden ? last && wait(last) && schedule(0) : read());
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
