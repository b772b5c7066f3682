// What the buyer waits for or has to do: places in queues and orders to pay. Every page shows them in its header. They are kept in
// this browser, so a page without any asks the shop for nothing.
import { useEffect, useState } from './lib/preact.js';

const KEY = 'miaosha.turns';
const LIFE = 3_600_000; // ms until one without news is forgotten
const listeners = new Set();
const told = new Set(); // the sales of which this page reads the news itself

export const isTold = (turn) => told.has(turn.sale);

// keepTurn keeps {user, sale, title, state, order, until}. state: queued; pending, an order to pay until then; or lost, a place
// that became no order. It takes the place of the user's former one in that sale.
export function keepTurn(turn) {
  const next = { ...turn, sale: String(turn.sale) };
  const all = stored();
  const same = ({ at, ...rest }) => JSON.stringify(rest) === JSON.stringify(next);
  if (turn.user && !all.some(same)) store([{ ...next, at: Date.now() }, ...others(all, next)].slice(0, 8));
}

export function dropTurn(user, sale) {
  const all = stored();
  const kept = others(all, { user, sale: String(sale) });
  if (kept.length < all.length) store(kept);
}

// keepOrder keeps an order that its buyer can pay, and drops any other.
export function keepOrder(user, { id, sale_id: sale, title, status, expires_at: until }) {
  if (status === 'pending') keepTurn({ user, sale, title, state: 'pending', order: id, until });
  else dropTurn(user, sale);
}

// tell marks a sale of which this page reads the news itself.
export const tell = (sale) => told.add(String(sale));

// forgetTurns forgets all of a user.
export const forgetTurns = (user) => store(stored().filter((turn) => turn.user !== user));

// onTurns calls f at each change, also in another tab, and returns a function that ends it.
export function onTurns(f) {
  const onStorage = (event) => event.key === KEY && f(true);
  listeners.add(f);
  addEventListener('storage', onStorage);
  return () => {
    listeners.delete(f);
    removeEventListener('storage', onStorage);
  };
}

// useTurns returns the user's turns, the most urgent first.
export function useTurns(user) {
  const [, render] = useState(0);
  useEffect(() => onTurns(() => render((n) => n + 1)), []);
  const rank = (turn) => (turn.state === 'pending' ? Date.parse(turn.until) : turn.state === 'queued' ? 0 : Infinity);
  return stored().filter((turn) => user && turn.user === user).sort((a, b) => rank(a) - rank(b));
}

const others = (all, { user, sale }) => all.filter((turn) => turn.user !== user || turn.sale !== sale);

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY) || '[]').filter((turn) => Date.now() - turn.at < LIFE);
  } catch {
    return []; // the browser forbids storage, or another program wrote there
  }
}

function store(turns) {
  try {
    localStorage.setItem(KEY, JSON.stringify(turns));
  } catch {
    return;
  }
  listeners.forEach((f) => f(false));
}
