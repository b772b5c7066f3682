// The jobs of this page: runs, experiments and races. The lab does one at a time, for all its users together; the others
// wait in line.
import { useEffect, useRef, useState } from '../lib/preact.js';
import { get, post } from '../api.js';
import { useJobs } from '../keys.js';

const INTERVAL = 200;       // ms between two reads of a job
const RETRY_AFTER = 1500;   // the same, after a read that failed
const LOST = [401, 403, 404]; // the statuses after which no read succeeds: the job is gone, or the session that may see it

// useRuns returns {byOwner, busy, start, call, ask, forget, rename, stop}. byOwner[owner] is the latest job of that part
// of the page, as GET /api/lab/run shows it:
//   {state: 'waiting' | 'running' | 'done' | 'failed' | 'refused', ahead, yours, plan, now, results, trial, data, reply, trouble}
// owner is 'bench', 'race' or the number of a lesson. If a run of another user is going on when the page
// opens, it belongs to the bench. reply is the refused request, and trouble is for Trouble while the job cannot be read. start(owner, plan) starts a run.
// call(owner, path, body) runs an experiment or a race, whose outcome comes as data. ask(owner, path, body) has a program of the student
// judged, whose outcome comes as results or as data. forget(owner) drops the job of an owner that is gone, and rename(owner, to)
// moves it to another one.
export function useRuns(open) {
  const [byOwner, setByOwner] = useState({});
  const [followed, follow] = useState(null); // {owner, run}
  const calling = useRef(false);
  const asked = useRef(false); // this page has asked for a job: what the first read finds may be that one
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
      const reply = await get('/api/lab/run?run=' + run);
      if (ended) return;
      const gone = LOST.includes(reply.status);
      if (reply.ok) put(owner, reply.data);
      else if (gone) put(owner, { state: 'refused', results: [], reply: reply.status === 404 ? { code: 'replaced' } : reply });
      else setByOwner((old) => ({ ...old, [owner]: { ...old[owner], trouble: { reply } } }));
      if (reply.ok ? reply.data.state !== 'running' && reply.data.state !== 'waiting' : gone) {
        follow(null);
        return;
      }
      timer = setTimeout(read, reply.ok ? INTERVAL : RETRY_AFTER);
    };
    read();
    return () => { ended = true; clearTimeout(timer); };
  }, [followed]);

  const ask = useJobs();
  const request = async (owner, path, body, plan) => {
    if (calling.current) return;
    calling.current = asked.current = true;
    put(owner, { state: 'running', yours: true, plan, results: [] });
    const reply = await ask(path, body);
    calling.current = false;
    if (reply.ok) follow({ owner, run: reply.data.run });
    else put(owner, { state: 'refused', plan, results: [], reply });
  };
  return {
    byOwner,
    busy: Object.values(byOwner).some((r) => r.yours && ['waiting', 'running'].includes(r.state)),
    start: (owner, plan) => request(owner, '/api/lab/run', plan, plan),
    call: (owner, path, body) => request(owner, path, { ...body, async: true }),
    ask: (owner, path, body) => request(owner, path, body),
    forget: (owner) => setByOwner(({ [owner]: _, ...others }) => others),
    rename: (owner, to) => {
      setByOwner(({ [owner]: run, ...others }) => (run ? { ...others, [to]: run } : others));
      follow((old) => (old?.owner === owner ? { ...old, owner: to } : old));
    },
    stop: () => post('/api/lab/run/stop'),
  };
}
