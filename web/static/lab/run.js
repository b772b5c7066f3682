// The runs of this page. The lab does one thing at a time, for all its users together.
import { useEffect, useRef, useState } from '../lib/preact.js';
import { get, post } from '../api.js';

const INTERVAL = 200;       // ms between two reads of a run
const RETRY_AFTER = 1500;   // the same, after a read that failed
const TIMEOUT = 25_000;     // ms for an experiment; the shop takes 20 s at most

// useRuns returns {byOwner, busy, start, call, stop}. byOwner[owner] is the latest run of that part
// of the page:
//   {state: 'running' | 'done' | 'failed' | 'refused', plan, now, results, reply}
// owner is 'bench' or the number of a lesson. If a run of another user is going on when the page
// opens, it belongs to the bench. reply is the refused request. start(owner, plan) starts a run.
// call(owner, path, body) runs an experiment, whose outcome comes as data.
export function useRuns(open) {
  const [byOwner, setByOwner] = useState({});
  const [followed, follow] = useState(null); // {owner, run}
  const calling = useRef(false);
  const asked = useRef(false); // this page has asked for a run: what the first read finds may be that one
  const put = (owner, run) => setByOwner((old) => ({ ...old, [owner]: run }));

  useEffect(() => {
    if (!open) return;
    get('/api/lab/run').then(({ ok, data }) => ok && data.state === 'running' && !asked.current && follow({ owner: 'bench', run: data.run }));
  }, [open]);

  useEffect(() => {
    if (!followed) return undefined;
    const { owner, run } = followed;
    let timer, ended = false;
    const read = async () => {
      const { ok, data } = await get('/api/lab/run');
      if (ended) return;
      if (ok && data.run === run) put(owner, data);
      if (ok && (data.run !== run || data.state !== 'running')) {
        if (data.run !== run) put(owner, { state: 'refused', results: [], reply: { code: 'replaced' } });
        follow(null);
        return;
      }
      timer = setTimeout(read, ok ? INTERVAL : RETRY_AFTER);
    };
    read();
    return () => { ended = true; clearTimeout(timer); };
  }, [followed]);

  const request = async (owner, path, body, plan) => {
    if (calling.current) return null;
    calling.current = asked.current = true;
    put(owner, { state: 'running', plan, results: [] });
    const reply = await post(path, body, TIMEOUT);
    calling.current = false;
    if (!reply.ok) put(owner, { state: 'refused', plan, results: [], reply });
    return reply.ok ? reply.data : null;
  };
  return {
    byOwner,
    busy: followed !== null || Object.values(byOwner).some((r) => r.state === 'running'),
    start: async (owner, plan) => {
      const started = await request(owner, '/api/lab/run', plan, plan);
      if (started) follow({ owner, run: started.run });
    },
    call: async (owner, path, body) => {
      const data = await request(owner, path, body);
      if (data) put(owner, { state: 'done', results: [], data });
    },
    stop: () => post('/api/lab/run/stop'),
  };
}
