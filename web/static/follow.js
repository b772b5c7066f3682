// Reads one address again and again, as long as somebody looks at the page.
import { get } from './api.js';
import { pause } from './patience.js';

// follow calls good(data) after each reading and bad(answer) after each failed one, which may
// return false to end it. wait(data) is ms to the next reading. It returns {read, stop}.
export function follow(way, { good, bad = () => {}, wait }) {
  let timer;
  let failures = 0;
  let over = false;
  let flight = 0;

  async function read() {
    clearTimeout(timer);
    const mine = ++flight;
    const answer = await get(way);
    if (over || mine !== flight) return; // a newer reading is under way
    if (answer.ok) {
      failures = 0;
      good(answer.data);
      later(wait(answer.data));
    } else if (bad(answer) !== false) later(pause(answer, failures++));
  }
  const later = (ms) => { timer = setTimeout(tick, ms); };
  const tick = () => document.hidden || read();
  document.addEventListener('visibilitychange', tick);
  read();
  return {
    read,
    stop() {
      over = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', tick);
    },
  };
}
