// The keys of forms: a form that is sent again after a lost answer is one change.
import { useRef, useState } from './lib/preact.js';
import { post } from './api.js';
import { isLost } from './retry.js';

// newKey returns a random UUID. crypto.randomUUID is missing where a shop is opened over plain HTTP.
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

// UNKNOWN are the codes after which no one knows whether the shop has done it.
const UNKNOWN = new Set(['offline', 'internal', 'busy', 'unsure']);

// useKeys returns {sending, send, forget}. send(path, body, timeout) posts with a key, to each route one request at a time:
// while one is under way, its reply is that of all. A route keeps its key until the shop has answered, so pressing
// again after a lost answer does nothing twice. Such a reply has unsure, and errorText says so. forget() is called when the page shows
// what became of it: the same again is another change then.
export function useKeys() {
  const [sending, setSending] = useState(false);
  const keys = useRef({}).current;
  const underWay = useRef({}).current;
  const request = async (of, path, body, timeout) => {
    setSending(true);
    keys[of] ??= newKey();
    const reply = await post(path, body, { timeout, key: keys[of] });
    const unsure = !reply.ok && !reply.unsent && UNKNOWN.has(reply.code);
    if (!unsure && !reply.unsent) delete keys[of];
    delete underWay[of];
    setSending(Object.keys(underWay).length > 0);
    return { ...reply, unsure };
  };
  const send = (path, body, timeout) => {
    const of = body instanceof Blob ? path + ' ' + body.size : path; // another picture is another request
    return (underWay[of] ??= request(of, path, body, timeout));
  };
  const forget = () => Object.keys(keys).forEach((of) => delete keys[of]);
  return { sending, send, forget };
}

// useJobs returns a function that posts to the lab: the same request again, when an answer was lost, finds the job of the
// first.
export function useJobs() {
  const keys = useRef({}).current;
  return async (path, body) => {
    const same = path + JSON.stringify(body);
    keys[same] ??= newKey();
    const reply = await post(path, body, { key: keys[same] });
    if (!isLost(reply)) delete keys[same];
    return reply;
  };
}
