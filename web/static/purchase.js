// One purchase, from the button to the order, without its looks. Each change of the state is
// handed to onChange(state). Each public function is safe to call twice.
import { get, getImage, post } from './api.js';
import { now } from './clock.js';
import { pollSale } from './poll_sale.js';
import { resultStream } from './result_stream.js';
import { isTransient, retry, tryOnce } from './retry.js';
import { statusOf } from './status.js';
import { dropTurn, keepOrder, keepTurn, onTurns, tell } from './turns.js';

// step: idle -> captcha -> (ready, before the start) -> (sending) -> queue -> idle with a result.
// known: the buyer's result was read. captcha: an image's URL or, with asText, a question in words.
// heldUntil: the time until which the page shows "sold out", whatever the sale says. missed: the buyer was too late. trouble: see poll. place: see nextPlace.
// drawnAt: when the captcha was drawn, of performance.now().
// most: {left, until}: the buyer's own order has left so many units at most, which the sale may not say before then.
const start = {
  sale: null, missing: false, trouble: null, place: null, user: undefined, known: false,
  step: 'idle', sending: false, captcha: null, asText: false, note: null, wait: null, result: null, order: null, heldUntil: 0, missed: false, most: null, drawnAt: 0,
};

const EARLY = 30_000; // a captcha may be solved so many ms before the start
const LIFE = 60_000;  // and is valid for this many
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// canPrepare reports whether the buyer may solve the captcha now, before the start.
export const canPrepare = (s, at) => s.user && s.known && s.sale.captcha && Date.parse(s.sale.start_at) - at < EARLY;

export function openPurchase(id, onChange) {
  let s = { ...start };
  let over = false;
  let before = 0; // the units that were left when the buyer pressed the button
  let stopStream = () => {};
  let wake = () => {}; // ends the wait for the start, see started
  const url = `/api/sales/${encodeURIComponent(id)}`;
  const set = (patch) => {
    if (over) return;
    s = { ...s, ...patch };
    onChange(s);
  };
  const waiting = (during) => (reply, ms) =>
    set({ wait: reply && { code: reply.code, during, until: performance.now() + ms } });

  const salePoll = pollSale(id, {
    onData: (sale, trouble) => {
      set({ sale, trouble, note: isPast(s) ? null : s.note });
      wake();
    },
    onError: (reply, trouble) => set({ trouble }),
    onMissing: () => set({ missing: true }),
  });

  // setUser looks for the result of an earlier visit: an order, or a place in the queue.
  async function setUser(user) {
    if (user === s.user) return;
    const isSame = user && s.known && user.user_id === s.user?.user_id;
    set({ user });
    if (isSame) return; // read again: what was read of their purchase is as good as before
    if (!user) return set({ known: user === null });
    const reply = await retry(() => get(url + '/result'), waiting('load'));
    if (!reply.ok) refuse(reply, true);
    else await take(reply.data, true);
    set({ known: true, missed: wasMissed(id, user.user_id) });
  }

  // take shows a result. earlier: it is from before this click, so the page shows an order or a
  // place in the queue; otherwise the state of the sale counts.
  async function take(result, earlier) {
    if (result.state === 'queued') {
      set({ result, step: 'queue', sending: false, captcha: released(), note: null, wait: null, place: nextPlace(s.place, result.ahead) });
      keepTurn({ user: s.user?.user_id, sale: id, title: s.sale?.title, state: 'queued' });
      if (earlier) awaitResult(result.next_poll_ms || 500);
      return;
    }
    if (result.state === 'ordered') {
      const reply = await retry(() => get('/api/orders/' + encodeURIComponent(result.order_id)), waiting('queue'));
      set({ result, step: 'idle', sending: false, captcha: released(), wait: null, place: null });
      if (reply.ok) keepOrder(s.user?.user_id, reply.data);
      if (!earlier) {
        setTimeout(salePoll.read, 600 + Math.random() * 300); // the shop's count of units is half a second old
        set({ most: before > 0 ? { left: before - 1, until: now() + 2000 } : null });
      }
      return set(reply.ok ? { order: reply.data, note: null } : { note: reply });
    }
    dropTurn(s.user?.user_id, id);
    set({ result: earlier ? null : result, step: 'idle', sending: false, wait: null, place: null });
    if (!earlier) {
      if (result.state === 'sold_out') keepMissed(id, s.user.user_id);
      set({ note: result.state === 'none' ? { code: 'lost' } : null });
      salePoll.read();
    }
  }

  // look reads the buyer's result, which another tab may have changed. It shows an order or a place in the queue, and returns
  // whether there is one.
  async function look() {
    const reply = await get(url + '/result');
    const has = reply.ok && (reply.data.state === 'queued' || reply.data.state === 'ordered');
    if (has && !s.order && s.step !== 'queue') await take(reply.data, true);
    return has;
  }

  // lookAgain is called when the page becomes visible, and when another tab has news.
  function lookAgain() {
    if (s.order) return s.order.status === 'pending' && readOrder();
    return s.user && s.known && !s.sending && !s.wait && (s.step === 'idle' || s.step === 'captcha') && look();
  }
  const onVisible = () => document.hidden || lookAgain();
  document.addEventListener('visibilitychange', onVisible);
  const stopTurns = onTurns((elsewhere) => elsewhere && lookAgain());
  tell(id);

  function awaitResult(first) {
    stopStream();
    stopStream = resultStream(id, first, {
      onResult: (result) => take(result),
      onError: (reply, ms) => (reply.code === 'not_logged_in' ? refuse(reply) : waiting('queue')(reply, ms)),
      onLeft: (left) => s.sale && set({ sale: { ...s.sale, left } }),
    });
  }

  function begin() {
    if (s.step !== 'idle' || s.sending || s.wait) return;
    keepMissed(id, '');
    set({ result: null, note: null, heldUntil: 0, missed: false });
    if (!s.sale.captcha) return submit('');
    set({ step: 'captcha' });
    drawCaptcha();
  }

  // drawCaptcha shows a new captcha, as an image or as text. The shop forgets the old one. A buyer
  // who chose text receives text from then on.
  async function drawCaptcha(asText = s.asText) {
    if (s.sending) return;
    set({ sending: true, captcha: released(), asText });
    const request = asText ? () => get(`${url}/captcha?kind=words`) : () => getImage(`${url}/captcha?t=${Date.now()}`);
    const reply = await retry(request, waiting('buy'));
    set({ sending: false });
    if (reply.ok) set({ captcha: asText ? reply.data.question : reply.data, drawnAt: performance.now(), note: s.note?.code === 'offline' ? null : s.note });
    else refuse(reply);
  }

  const isOld = () => performance.now() - s.drawnAt > LIFE;

  // freshen draws another captcha if the one that comes back, after a pause, say, is too old to be answered.
  function freshen() {
    if (s.step !== 'captcha' || !s.captcha || s.sending || !isOld()) return;
    set({ note: { code: 'old_captcha' } });
    drawCaptcha();
  }

  // started waits until the sale is open, also if its start is moved and while it is paused, and returns whether the answer is still
  // good. An answer that is not leads back to the captcha.
  async function started() {
    set({ step: 'ready' });
    for (;;) {
      const ms = s.sale.state === 'upcoming' ? Date.parse(s.sale.start_at) - now() : isBarred(s.sale) ? LIFE : 0;
      if (over || ms <= 0) break;
      if (isOld()) {
        set({ step: 'captcha', sending: false });
        return false;
      }
      const left = LIFE - (performance.now() - s.drawnAt);
      await Promise.race([sleep(Math.min(ms, left + 10)), new Promise((changed) => { wake = changed; })]);
    }
    await sleep(120 + Math.random() * 400); // the order within the first second does not count, so the browsers spread their requests
    return !over;
  }

  async function submit(captcha) {
    if (s.sending) return;
    set({ sending: true, note: null });
    before = s.sale.left;
    const askPath = () => (s.sale.captcha ? tryOnce : retry)(() => post(url + '/path', s.sale.captcha ? { captcha } : undefined), waiting('buy'));
    let path;
    for (;;) {
      if (s.sale.captcha && s.sale.state === 'upcoming' && !await started()) return undefined;
      path = await askPath();
      if (!s.sale.captcha || path.code !== 'not_started' || path.starts_in_ms >= EARLY) break;
      opensIn(path.starts_in_ms); // the captcha is not used up
    }
    if (isTransient(path)) { // a captcha is used up by its first answer, so the next try needs a new one
      set({ step: 'captcha', sending: false, note: path });
      return drawCaptcha();
    }
    if (!path.ok) return refuse(path);
    const bought = await retry(() => post(`${url}/buy/${encodeURIComponent(path.data.path)}`), waiting('buy'));
    if (!bought.ok) {
      set({ captcha: released() }); // it is used up
      return refuse(bought);
    }
    set({ captcha: released(), step: 'queue', result: { state: 'queued' }, place: null, sending: false });
    keepTurn({ user: s.user.user_id, sale: id, title: s.sale.title, state: 'queued' });
    awaitResult(bought.data.state === 'queued' ? bought.data.next_poll_ms || 300 : 0);
  }

  const opensIn = (ms) => set({ sale: { ...s.sale, state: 'upcoming', start_at: new Date(now() + ms).toISOString() } });

  // refuse handles a refusal. Each one leads to a step from which the buyer can go on.
  async function refuse(reply, quiet) {
    const { code } = reply;
    if (code !== 'not_logged_in' && code !== 'other_user' && !quiet && await look()) return; // another tab was faster
    set({ sending: false, wait: null });
    if (code === 'not_logged_in' || code === 'other_user') return set({ step: 'idle', captcha: released() }); // see session.js
    if (code === 'bad_request' && s.captcha) return set({ step: 'captcha', note: { ...reply, msg: reply.fields?.[0].msg ?? reply.msg } }); // the sum is not used up
    if (code === 'wrong_captcha' || code === 'stale_captcha' || (code === 'bad_path' && s.sale.captcha)) {
      set({ step: 'captcha', note: reply });
      return drawCaptcha();
    }
    const soon = code === 'not_started' && reply.starts_in_ms > 0;
    if (soon || code === 'paused' || code === 'ended') { // the view of the sale says so. Its captcha is not used up, and comes back with it.
      if (soon) opensIn(reply.starts_in_ms);
      else set({ sale: { ...s.sale, state: code } });
      set({ step: s.captcha ? 'captcha' : 'idle', note: null });
      const ms = soon ? reply.starts_in_ms : 1000; // what the shop says of a sale may be a second old
      return ms < LIFE && setTimeout(salePoll.read, ms + Math.random() * 500);
    }
    set({ step: 'idle', captcha: released() });
    if (code === 'sold_out') {
      // Other buyers may hold the last units for a moment, so the button stays away for some seconds even if units are left.
      keepMissed(id, s.user.user_id);
      set({ missed: true, heldUntil: now() + 4000 + Math.random() * 2000, sale: s.sale.left > 0 ? s.sale : { ...s.sale, state: 'sold_out' } });
      return salePoll.read();
    }
    salePoll.read();
    set({ note: quiet ? null : { ...reply, until: reply.retryAfter ? performance.now() + reply.retryAfter : Infinity } });
  }

  async function readOrder() {
    if (!s.order) return;
    const reply = await get('/api/orders/' + encodeURIComponent(s.order.id));
    if (reply.ok) {
      set({ order: reply.data });
      keepOrder(s.user?.user_id, reply.data);
    }
    return !isTransient(reply);
  }

  // released frees the captcha's image and returns null in its place.
  const released = () => {
    if (s.captcha && !s.asText) URL.revokeObjectURL(s.captcha);
    return null;
  };
  return {
    setUser, begin, freshen, submit, readOrder,
    another: (asText) => {
      set({ note: null });
      drawCaptcha(asText);
    },
    dismiss: () => set({ result: null, note: null }),
    readSale: salePoll.read,
    stop() {
      over = true;
      stopStream();
      stopTurns();
      salePoll.stop();
      document.removeEventListener('visibilitychange', onVisible);
    },
  };
}

// keepMissed keeps the buyer who was too late for a sale, as long as the tab is open; '' forgets that. So a reload still says that
// nothing was charged.
function keepMissed(id, user) {
  try {
    sessionStorage.setItem('miaosha.missed.' + id, user);
  } catch {
    // the browser forbids storage: it is said until the page is left
  }
}

function wasMissed(id, user) {
  try {
    return sessionStorage.getItem('miaosha.missed.' + id) === String(user);
  } catch {
    return false;
  }
}

// nextPlace follows a place in the queue: first is the number of people ahead at the time since, ahead is their number now, and
// wait the ms until the buyer's turn if the queue goes on as fast, null if that is not known yet.
function nextPlace(place, ahead) {
  if (!(ahead >= 0)) return place;
  const at = performance.now();
  if (!place || ahead > place.first) return { first: ahead, since: at, ahead, wait: null };
  const gone = place.first - ahead;
  return { ...place, ahead, wait: gone > 0 ? (at - place.since) / gone * ahead : null };
}

// leftOf returns the units left: none while others are about to get the last ones.
export function leftOf({ sale, heldUntil, most }, at) {
  if (heldUntil > at) return 0;
  return most?.until > at ? Math.max(0, Math.min(sale.left, most.left)) : sale.left;
}

// isBarred reports whether the shop lets no one buy in a sale: it is paused, or over.
const isBarred = ({ state }) => state === 'paused' || state === 'ended';

// isPast reports whether the reason of a note is over: an outage, when the shop answers again, or the time that a refusal has named.
const isPast = ({ step, note }) => note && (note.until < performance.now() || (step === 'idle' && isTransient(note)));

// awaitsSum reports whether the buyer waits for a sum that the shop does not draw yet: it draws only so many for each buyer.
export const awaitsSum = ({ step, captcha, wait }) => step === 'captcha' && captcha === null && wait !== null;

// viewOf returns the name of the view that shows a state.
export function viewOf(s, at) {
  const { sale, order, result } = s;
  if (!sale) return 'loading';
  if (order) return order.status === 'pending' ? 'ordered' : statusOf(order);
  if (s.wait && (s.wait.during !== 'load' || sale.state === 'open')) return 'busy';
  if (s.step === 'captcha' || s.step === 'ready') { // neither is of use while no one can buy; it comes back with the sale
    if (isBarred(sale)) return sale.state;
    if (sale.state === 'upcoming' && Date.parse(sale.start_at) - at > EARLY) return 'waiting';
  }
  if (s.step !== 'idle') return s.step;
  if (result && (result.state === 'closed' || result.state === 'invalid')) return result.state;
  if (isBarred(sale)) return sale.state;
  if (sale.state === 'upcoming') return 'waiting';
  if (sale.state === 'sold_out' || s.heldUntil > at) return 'sold_out';
  if (s.user === undefined || (s.user && !s.known)) return 'loading';
  return s.user ? 'open' : 'login';
}
