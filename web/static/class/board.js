// The board of a class, for the projector: the address and the code, who has solved what, and a run of the lab.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { forUser, get, post } from '../api.js';
import { Confirm } from '../dialog.js';
import { errorText, t } from '../i18n.js';
import { useJobs } from '../keys.js';
import { Bench } from '../lab/bench.js';
import { useNote } from '../note.js';
import { poll } from '../poll.js';
import { Failed, Loading } from '../shell.js';
import { Trouble } from '../trouble.js';
import { Wall } from './wall.js';

const EVERY = 1000; // ms between two looks at the class

export function Board({ code }) {
  const [board, setBoard] = useState(null);
  const [failed, setFailed] = useState(null); // the class does not exist, or is not this visitor's to see
  const [trouble, setTrouble] = useState(null);
  const [part, setPart] = useState('wall');
  const [refused, setRefused] = useNote();
  const [asking, setAsking] = useState(null); // {title, text, yes, path, body}
  const box = useRef();
  const url = '/api/sandbox/classes/' + encodeURIComponent(code);
  const reading = useRef();
  useEffect(() => {
    reading.current = poll(url, {
      onData: (data, now) => { setBoard(data); setTrouble(now); },
      onError: (reply, now) => { if ([401, 403, 404].includes(reply.status)) { setFailed(reply); return false; } setTrouble(now); return true; },
      interval: () => EVERY,
    });
    return reading.current.stop;
  }, [url]);
  const ask = useJobs();
  const change = async (path, body) => {
    const reply = await ask(url + path, body);
    setRefused(reply.ok ? null : reply);
    if (reply.ok) { setBoard(reply.data); reading.current.read(); }
  };
  if (failed && failed.status !== 404) return html`<${Failed} title=${errorText(failed)} onRetry=${() => location.reload()} />`;
  if (failed) return html`<${Failed} title=${t('class.gone')} more=${t('class.goneMore')} /><p class="row"><a href="#" class="button quiet">${t('class.all')}</a></p>`;
  if (!board) return html`<${Loading} /><${Trouble} trouble=${trouble} />`;
  const closed = !!board.closed_at;
  return html`<div class="board" ref=${box} data-test="board" data-closed=${closed}>
    <div class="boardhead"><h1>${board.title}</h1>
      <span class="more" role="status" data-test="student-count">${t('class.students', { n: board.students.length })}${closed ? ` · ${t('class.isClosed')}` : board.locked ? ` · ${t('class.isLocked')}` : ''}</span>
      <nav class="parts" aria-label=${t('class.parts')}>${['wall', 'run'].map((p) => html`
      <button key=${p} type="button" data-test=${'part-' + p} aria-pressed=${p === part} onClick=${() => setPart(p)}>${t('class.part.' + p)}</button>`)}</nav>
      <button type="button" class="button quiet" data-test="full" onClick=${() => box.current.requestFullscreen?.()}>${t('class.full')}</button></div>
    ${!closed && html`<${How} board=${board} />`}
    <${Trouble} trouble=${trouble} />
    ${refused && html`<p class="note" role="alert">${errorText(refused)}</p>`}
    ${part === 'wall' && html`<${Wall} board=${board} onRemove=${({ id, nickname }) => setAsking({ title: t('class.remove', { nickname }), text: t('class.removeMore'), yes: t('class.removeYes'), path: '/remove', body: { student: id } })}
      onCrowd=${({ seats, student }) => setAsking({ title: t('class.crowdTitle', { seats }), text: t('class.crowdMore'), yes: t('class.removeYes'), path: '/remove', body: { student, idle: true } })} />`}
    ${part === 'run' && html`<${OnBoard} board=${board} start=${(plan) => change('/run', plan)} />`}
    <p class="row tools">
      <a class="button quiet" href=${forUser(url + '/results.csv')} data-test="results-csv" download>${t('class.csv')}</a>
      <a class="button quiet" href=${forUser(url + '/results.json')} data-test="results-json" download>${t('class.json')}</a>
      ${!closed && html`<button type="button" class="button quiet" data-test="class-lock" onClick=${() => change('/lock', { locked: !board.locked })}>${t(board.locked ? 'class.unlock' : 'class.lock')}</button>`}
      ${!closed && html`<button type="button" class="button quiet" data-test="class-close" onClick=${() => setAsking({ title: t('class.close'), text: t('class.closeMore'), yes: t('class.closeYes'), path: '/close' })}>${t('class.close')}</button>`}
      <a class="button quiet" href="#">${t('class.all')}</a></p>
    ${asking && html`<${Confirm} title=${asking.title} text=${asking.text} yes=${asking.yes} no=${t('class.no')} test="class-sure"
      onNo=${() => setAsking(null)} onYes=${() => { change(asking.path, asking.body); setAsking(null); }} />`}
  </div>`;
}

// How tells students where to go. It is huge until the first of them is at work.
function How({ board: { code, addresses = [], students } }) {
  const here = location.hostname;
  const own = here === 'localhost' || here === '[::1]' || here.startsWith('127.');
  const bases = own && addresses.length ? addresses : [location.origin];
  const alone = own && !addresses.length;
  return html`<div class="how" data-test="how" data-size=${students.some((s) => s.exercises.length) ? 'small' : 'big'}>
    <p><span class="more">${t('class.goTo')}</span> <b class="address" data-test="class-address">${bases.map((base, i) => html`${i > 0 && html` <span class="more">${t('class.or')}</span> `}${base.replace(/^http:\/\//, '')}/class.html`)}</b></p>
    <p><span class="more">${t('class.code')}</span> <b class="class-code" data-test="board-code">${code}</b></p>
    ${alone && html`<p class="more small">${t('class.alone')} <code>miaosha --addr 0.0.0.0:8080 --allow-lan</code></p>`}
  </div>`;
}

// OnBoard is the bench of the lab, whose runs the board shows.
function OnBoard({ board, start }) {
  const [lab, setLab] = useState(null);
  const [failed, setFailed] = useState(null);
  useEffect(() => {
    get('/api/lab').then((reply) => (reply.ok ? setLab(reply.data) : setFailed(reply)));
  }, []);
  if (failed) return html`<p class="note" role="alert">${errorText(failed)}</p>`;
  if (!lab) return html`<p class="more" role="status">${t('loading')}</p>`;
  const runs = {
    byOwner: { bench: board.run }, busy: !!board.run && ['waiting', 'running'].includes(board.run.state),
    start: (_, plan) => start(plan), stop: () => post('/api/lab/run/stop'),
  };
  return html`<${Bench} lab=${lab} runs=${runs} />`;
}
