// One purchase, from the button to the order, without a word about looks.
// State goes out through changed(state); each public function is safe to call twice.
import { get, picture, post } from './api.js';
import { now } from './clock.js';
import { followSale } from './live.js';
import { once, passing, patiently } from './patience.js';
import { forget } from './session.js';
import { statusOf } from './status.js';
import { watchResult } from './watch.js';

// step: idle -> sum -> (sending) -> queue -> idle with a result.
const start = {
  sale: null, missing: false, stale: false, user: undefined, known: false, // known: /result was read
  step: 'idle', sending: false, sum: null, spoken: false, note: null, wait: null, result: null, order: null, held: 0,
};

export function openPurchase(id, changed) {
  let s = { ...start };
  let over = false;
  let unwatch = () => {};
  const way = `/api/sales/${encodeURIComponent(id)}`;
  const set = (patch) => {
    if (over) return;
    s = { ...s, ...patch };
    changed(s);
  };
  const waiting = (during) => (answer, ms) =>
    set({ wait: answer && { code: answer.code, during, until: performance.now() + ms } });

  const live = followSale(id, {
    good: (sale) => set({ sale, stale: false }),
    bad: () => set({ stale: true }),
    missing: () => set({ missing: true }),
  });

  // A buyer who comes back finds his order or his place in the queue.
  async function know(user) {
    if (user === s.user) return;
    set({ user });
    if (!user) return set({ known: user === null });
    const answer = await patiently(() => get(way + '/result'), waiting('look'));
    if (!answer.ok) refuse(answer, true);
    else await take(answer.data, true);
    set({ known: true });
  }

  async function take(result, old) {
    if (result.state === 'queued') {
      set({ result, step: 'queue', sending: false, note: null, wait: null });
      if (old) watch(result.next_poll_ms || 500);
      return;
    }
    if (result.state === 'ordered') {
      const answer = await patiently(() => get('/api/orders/' + encodeURIComponent(result.order_id)), waiting('queue'));
      set({ result, step: 'idle', sending: false, sum: dropped(), wait: null });
      return set(answer.ok ? { order: answer.data, note: null } : { note: answer });
    }
    // An outcome of long ago (old) says nothing about now: then the sale's own state speaks.
    set({ result: old ? null : result, step: 'idle', sending: false, wait: null });
    if (!old) {
      set({ note: result.state === 'none' ? { code: 'lost' } : null });
      live.read();
    }
  }

  function watch(first) {
    unwatch();
    unwatch = watchResult(id, first, {
      heard: (result) => take(result),
      trouble: (answer, ms) => (answer.code === 'not_logged_in' ? refuse(answer) : waiting('queue')(answer, ms)),
      left: (left) => s.sale && set({ sale: { ...s.sale, left } }),
    });
  }

  function begin() {
    if (s.step !== 'idle' || s.sending || s.wait) return;
    set({ result: null, note: null, held: 0 });
    if (!s.sale.captcha) return submit('');
    set({ step: 'sum' });
    draw();
  }

  // draw puts a new sum up, as a picture or in words; the old one is gone on the shop's side. Who chose words keeps them.
  async function draw(spoken = s.spoken) {
    if (s.sending) return;
    set({ sending: true, sum: dropped(), spoken });
    const ask = spoken ? () => get(`${way}/captcha?kind=words`) : () => picture(`${way}/captcha?t=${Date.now()}`);
    const answer = await patiently(ask, waiting('buy'));
    set({ sending: false });
    if (answer.ok) set({ sum: spoken ? answer.data.question : answer.data });
    else refuse(answer);
  }

  async function submit(captcha) {
    if (s.sending) return;
    set({ sending: true, note: null });
    const address = await (s.sale.captcha ? once : patiently)(() => post(way + '/path', s.sale.captcha ? { captcha } : undefined), waiting('buy'));
    if (passing(address)) { // the answer is used up, so asking again takes a new sum
      set({ step: 'sum', sending: false, note: address });
      return draw();
    }
    if (!address.ok) return refuse(address);
    const bought = await patiently(() => post(`${way}/buy/${encodeURIComponent(address.data.path)}`), waiting('buy'));
    if (!bought.ok) return refuse(bought);
    set({ sum: dropped(), step: 'queue', result: { state: 'queued' }, sending: false });
    watch(bought.data.state === 'queued' ? bought.data.next_poll_ms || 300 : 0);
  }

  // refuse: the shop decided against it. Each refusal leads to the place where one can go on.
  async function refuse(answer, quiet) {
    const { code } = answer;
    set({ sending: false, wait: null });
    if (code === 'not_logged_in') {
      forget();
      return set({ user: null, step: 'idle', order: null, note: quiet ? null : { code } });
    }
    if (code === 'wrong_captcha' || (code === 'bad_path' && s.sale.captcha)) {
      set({ step: 'sum', note: answer });
      return draw();
    }
    set({ step: 'idle', sum: dropped() });
    if (code === 'sold_out') {
      // no new ticket; there may be an older one. The last units may also be in other hands
      // for a moment, so the button stays away a while even if the count is not 0.
      set({ held: now() + 4000 + Math.random() * 2000, sale: s.sale.left > 0 ? s.sale : { ...s.sale, state: 'sold_out' } });
      const old = await get(way + '/result');
      if (old.ok && (old.data.state === 'queued' || old.data.state === 'ordered')) return take(old.data, true);
      return live.read();
    }
    if (code === 'not_started' && answer.starts_in_ms > 0) {
      const start_at = new Date(now() + answer.starts_in_ms).toISOString();
      set({ sale: { ...s.sale, state: 'upcoming', start_at } });
      if (answer.starts_in_ms < 60_000) setTimeout(live.read, answer.starts_in_ms + Math.random() * 500);
    } else live.read();
    set({ note: quiet ? null : answer });
  }

  async function orderAgain() {
    if (!s.order) return;
    const answer = await get('/api/orders/' + encodeURIComponent(s.order.id));
    if (answer.ok) set({ order: answer.data });
    return !passing(answer);
  }

  const dropped = () => {
    if (s.sum && !s.spoken) URL.revokeObjectURL(s.sum);
    return null;
  };
  return {
    know, begin, draw, submit, orderAgain,
    retry: () => set({ result: null, note: null }),
    reread: live.read,
    stop() { over = true; unwatch(); live.stop(); },
  };
}

// faceOf says which face of the panel a state shows.
export function faceOf(s, at) {
  const { sale, order, result } = s;
  if (!sale) return 'loading';
  if (order) return order.status === 'pending' ? 'ordered' : statusOf(order, at);
  if (s.wait && (s.wait.during !== 'look' || sale.state === 'open')) return 'busy';
  if (s.step !== 'idle') return s.step;
  if (result && (result.state === 'closed' || result.state === 'invalid')) return result.state;
  if (sale.state === 'paused' || sale.state === 'ended') return sale.state;
  if (sale.state === 'upcoming') return 'waiting';
  if (sale.state === 'sold_out' || s.held > at) return 'sold_out';
  if (s.user === undefined || (s.user && !s.known)) return 'loading';
  return s.user ? 'open' : 'login';
}
