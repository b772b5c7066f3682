// The lab's runs as this page follows them. The lab does one thing at a time, for everybody who uses it.
import { useEffect, useRef, useState } from './lib/preact.js';
import { get, post } from './api.js';

const EVERY = 200;     // ms between two looks at a run
const SOON = 1500;     // the same, after one that was not answered
const ONCE = 25_000;   // ms that a race or an experiment may take; the shop gives it 20 s

// useRuns gives {of, busy, start, stop, once}. of[owner] is the latest thing that part of the page began:
//   {state: 'running' | 'done' | 'failed' | 'refused', plan, now, results, answer}
// owner is 'bench' or a lesson's number; a run that somebody else has going when the page opens is the bench's. answer is
// the refused call. start(owner, plan) begins a run and once(owner, path, body) a short thing whose data come as `data`.
export function useRuns(open) {
  const [of, setOf] = useState({});
  const [following, follow] = useState(null); // {owner, run}
  const calling = useRef(false);
  const put = (owner, what) => setOf((was) => ({ ...was, [owner]: what }));

  useEffect(() => {
    if (!open) return;
    get('/api/lab/run').then(({ ok, data }) => ok && data.state === 'running' && !calling.current && follow({ owner: 'bench', run: data.run }));
  }, [open]);

  useEffect(() => {
    if (!following) return undefined;
    const { owner, run } = following;
    let timer, ended = false;
    const look = async () => {
      const { ok, data } = await get('/api/lab/run');
      if (ended) return;
      if (ok && data.run === run) put(owner, data);
      if (ok && (data.run !== run || data.state !== 'running')) {
        if (data.run !== run) put(owner, { state: 'refused', results: [], answer: { code: 'replaced' } });
        follow(null);
        return;
      }
      timer = setTimeout(look, ok ? EVERY : SOON);
    };
    look();
    return () => { ended = true; clearTimeout(timer); };
  }, [following]);

  const call = async (owner, path, body, plan) => {
    if (calling.current) return null;
    calling.current = true;
    put(owner, { state: 'running', plan, results: [] });
    const answer = await post(path, body, ONCE);
    calling.current = false;
    if (!answer.ok) put(owner, { state: 'refused', plan, results: [], answer });
    return answer.ok ? answer.data : null;
  };
  return {
    of,
    busy: following !== null || Object.values(of).some((r) => r.state === 'running'),
    start: async (owner, plan) => {
      const begun = await call(owner, '/api/lab/run', plan, plan);
      if (begun) follow({ owner, run: begun.run });
    },
    once: async (owner, path, body) => {
      const data = await call(owner, path, body);
      if (data) put(owner, { state: 'done', results: [], data });
    },
    stop: () => post('/api/lab/run/stop'),
  };
}
