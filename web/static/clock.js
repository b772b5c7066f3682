// The shop's clock. Countdowns run on server time carried forward by the monotonic
// performance.now(): a wrong or changed local clock moves nothing.
import { useEffect, useState } from './lib/preact.js';

let base = null; // {server, mono, error} of the best sample

// sample learns from one answer: server time (ms), when the question left and the answer
// came (monotonic ms), and how coarse the server's figure is.
export function sample(server, sent, answered, coarse) {
  if (!Number.isFinite(server)) return;
  const next = { server: server + (answered - sent) / 2, mono: answered, error: (answered - sent) / 2 + coarse };
  if (base) {
    const aged = base.error + (next.mono - base.mono) / 1000; // clocks drift; old samples lose weight
    const apart = Math.abs(now() - next.server);              // a slept laptop: monotonic time stood still
    if (next.error > aged && apart < aged + next.error) return;
  }
  base = next;
}

// now is server time in ms. Before the first answer it is the local clock: nothing is shown yet.
export const now = () => (base ? base.server + performance.now() - base.mono : Date.now());

// useSecond renders the caller on each whole second of the server.
export function useSecond() {
  const [, turn] = useState(0);
  useEffect(() => {
    let timer;
    const arm = () => {
      timer = setTimeout(() => { turn((n) => n + 1); arm(); }, 1000 - (now() % 1000) + 5);
    };
    arm();
    return () => clearTimeout(timer);
  }, []);
  return now();
}

// split cuts a span of ms into whole days and "hh:mm:ss", rounding up, so that 0 comes with the moment.
// The shop's clock is known to about a tenth of a second: that much must not show as one more.
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
