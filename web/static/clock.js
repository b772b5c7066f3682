// The shop's clock. Countdowns run on the server's time, carried forward by the monotonic
// performance.now(), so a wrong or changed local clock has no effect.
import { useEffect, useState } from './lib/preact.js';

let base = null; // {server, mono, error} of the best sample

// addSample takes the server's time (ms) from one reply. sentAt and receivedAt are the monotonic
// times of the request and the reply; precision is the precision of the server's time, in ms.
export function addSample(server, sentAt, receivedAt, precision) {
  if (!Number.isFinite(server)) return;
  const next = { server: server + (receivedAt - sentAt) / 2, mono: receivedAt, error: (receivedAt - sentAt) / 2 + precision };
  if (base) {
    const aged = base.error + (next.mono - base.mono) / 1000; // clocks drift, so old samples count less
    const apart = Math.abs(now() - next.server);              // monotonic time stands still while a laptop sleeps
    if (next.error > aged && apart < aged + next.error) return;
  }
  base = next;
}

// now returns the server's time in ms. Before the first reply, when no page shows a time, it is the
// local time.
export const now = () => (base ? base.server + performance.now() - base.mono : Date.now());

// useSecond renders its caller on each full second of the server's time, or on those that change a value of the time.
export function useSecond(value = now) {
  const [, render] = useState(value);
  useEffect(() => {
    let timer;
    const schedule = () => {
      timer = setTimeout(() => { render(value); schedule(); }, 1000 - (now() % 1000) + 5);
    };
    schedule();
    return () => clearTimeout(timer);
  }, []);
  return value();
}

// split cuts ms into full days and "hh:mm:ss". It rounds up, so that 0 comes at the moment itself.
// The server's time is known to about a tenth of a second, so that much does not count as a second.
export function split(ms) {
  const s = Math.max(0, Math.ceil(ms / 1000 - 0.15));
  const two = (n) => String(n).padStart(2, '0');
  return {
    days: Math.floor(s / 86400),
    clock: `${two(Math.floor(s / 3600) % 24)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`,
    short: `${two(Math.floor(s / 60))}:${two(s % 60)}`,
    iso: `PT${s}S`,
  };
}
