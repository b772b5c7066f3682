// What a page says of a request that was refused. It goes with its reason: a connection that was lost, when the shop can be
// reached again; a wait that the shop has named, when it is over; any other one, with the next try, as one after which no one knows
// whether it was done. A note with after, another note, becomes that one.
import { useEffect, useState } from './lib/preact.js';
import { get } from './api.js';
import { retry } from './retry.js';

// useNote keeps the reply of a refused request, null for none, and returns it with the function that sets it.
export function useNote(first = null) {
  const [note, setNote] = useState(first);
  useEffect(() => {
    const lost = note?.code === 'offline' || note?.code === 'unsure';
    if (note?.unsure || (!lost && !note?.retryAfter)) return undefined;
    let over = false;
    const drop = () => over || setNote(note.after || null);
    const timer = !lost && setTimeout(drop, note.retryAfter);
    if (lost) retry(() => (over ? { ok: true } : get('/api/slots')), () => {}).then(drop);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [note]);
  return [note, setNote];
}
