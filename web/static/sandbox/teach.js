// The teaching panel: break a part of the running sandbox, watch what a buyer notices, and see how the shop gets up. Only an
// administrator at this machine has it. The URL names the fault that the index of the courses leads to: #kill.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { get, post } from '../api.js';
import { loadTexts, errorText, t } from '../i18n.js';
import { useNote } from '../note.js';
import { loginHref } from '../session.js';
import { mount, sandbox, setTitle } from '../shell.js';
import { Pulse } from './pulse.js';

await loadTexts({ zh: () => import('./words/teach_zh.js'), en: () => import('./words/teach_en.js') });

const FAULTS = ['redis', 'flush', 'postgres', 'kill'];
const EVERY = 300; // ms between two looks at a fault under way
const isOver = (lesson) => ['idle', 'done', 'failed'].includes(lesson.state);

function Teach({ lang, user }) {
  useEffect(() => setTitle(t('teach')), [lang]);
  if (user === undefined) return html`<p class="blank" role="status">${t('loading')}</p>`;
  if (user === null) return html`<div class="blank"><h1>${t('teach')}</h1><p>${t('teach.login')}</p><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  if (user.role !== 'admin') {
    return html`<div class="blank"><h1>${t('teach')}</h1><p>${t('teach.closed')}</p><a class="button" href="/">${t('sale.back')}</a></div>
      ${sandbox && html`<${sandbox.Start} user=${user} pages=${sandbox.ABOVE} closed />`}`;
  }
  return html`<${Panel} user=${user} lang=${lang} />`;
}

function Panel({ user, lang }) {
  const [state, setState] = useState(null); // {can, lesson}
  const [refused, setRefused] = useNote();
  const [failed, setFailed] = useState(null); // why there is no state yet
  const { lesson, can, breaker } = state ?? {};
  const here = location.hash.slice(1);
  const running = lesson && !isOver(lesson);
  const head = useRef();
  useEffect(() => {
    let timer;
    let stopped = false;
    const look = async () => {
      const reply = await get('/api/sandbox/teach');
      if (stopped) return;
      if (reply.ok) setState(reply.data);
      else if (reply.code === 'not_logged_in') return;
      else setFailed(reply);
      timer = setTimeout(look, EVERY);
    };
    look();
    return () => { stopped = true; clearTimeout(timer); };
  }, []);
  useLayoutEffect(() => {
    const part = state && FAULTS.includes(here) && document.getElementById(here);
    if (!part) return;
    part.scrollIntoView({ block: 'center' });
    part.querySelector('button').focus({ preventScroll: true });
  }, [!state]);
  const start = async (fault) => {
    const reply = await post('/api/sandbox/teach', { fault });
    setRefused(reply.ok ? null : reply);
    if (!reply.ok) return;
    setState(reply.data);
    head.current?.focus();
  };
  if (!state) return html`<p key="loading" class="blank" role="status">${failed ? errorText(failed) : t('loading')}</p>`;
  return html`
    <h1>${t('teach')}</h1>
    <p class="lead">${t('teach.more')}</p>
    <div class="teach">
      <section class="faults" aria-label=${t('teach.faults')}>${FAULTS.map((fault) => html`
        <div key=${fault} id=${fault} class="fault" data-here=${fault === here ? '' : undefined}>
          <h2>${t('teach.' + fault)}</h2>
          <p class="more">${can[fault] ? t('teach.not.' + can[fault]) : t('teach.' + fault + '.more')}</p>
          <button class="button quiet" data-test=${'fault-' + fault} disabled=${running || !!can[fault]} onClick=${() => start(fault)}>
            ${t('teach.' + fault + '.do')}</button>
        </div>`)}</section>
      <div class="watch">
        <section class="now" aria-labelledby="now" data-test="lesson" data-state=${lesson.state} data-fault=${lesson.fault}>
          <h2 id="now" ref=${head} tabindex="-1">${t('teach.now')}</h2>
          ${breaker !== 'off' && html`<p data-test="breaker" data-state=${breaker}>${t('teach.breaker')}${t('colon')}<b>${t('teach.breaker.' + breaker)}</b></p>`}
          <${Lesson} lesson=${lesson} />
          <p class="note" role="alert" hidden=${!refused}>${refused && errorText(refused)}</p>
          <p class="hidden" role="status">${lesson.fault ? t('teach.' + lesson.fault) + ' ' : ''}${t('teach.state.' + lesson.state)}
            ${isOver(lesson) && lesson.audit ? t(lesson.audit === 'clean' ? 'teach.clean' : 'teach.broken') : ''}</p>
        </section>
        <${Buyer} user=${user} lang=${lang} />
      </div>
    </div>`;
}

function Lesson({ lesson }) {
  if (lesson.state === 'idle') return html`<p class="more">${t('teach.none')}</p>`;
  const { second } = lesson;
  const left = Math.max(0, Math.ceil(lesson.seconds - lesson.elapsed));
  const row = (name, value) => html`<div><dt>${t('teach.' + name)}</dt><dd data-test=${'lesson-' + name}>${value}</dd></div>`;
  return html`
    <p aria-hidden="true"><b>${t('teach.' + lesson.fault)}</b>${t('colon')}${t('teach.state.' + lesson.state)}</p>
    ${lesson.state === 'broken' && lesson.fault !== 'kill' && lesson.seconds > 0 && html`
      <progress max=${lesson.seconds} value=${lesson.seconds - left} aria-label=${t('teach.left', { n: left })}></progress><p class="more">${t('teach.left', { n: left })}</p>`}
    ${second && html`<p>${t('teach.second')} <a href=${`${second.url}/sale.html?id=${second.sale}`} target="_blank" rel="noopener">${second.url}</a>
      ${' '}<span class="more">${t('teach.pid', { n: second.pid })}</span></p>`}
    <dl class="counts">
      ${row('elapsed', t('teach.seconds', { n: lesson.elapsed.toFixed(1) }))}
      ${second && row('accepted', second.accepted)}
      ${second && lesson.state !== 'selling' && row('waiting', Math.max(0, second.accepted - second.before))}
      ${second && row('orders', second.orders)}
      ${second && second.unknown > 0 && row('unknown', second.unknown)}
      ${second?.took_over > 0 && isOver(lesson) && row('tookOver', t('teach.seconds', { n: second.took_over.toFixed(1) }))}
      ${lesson.audit && row('recovered', t('teach.seconds', { n: (lesson.recovered ?? 0).toFixed(1) }))}
    </dl>
    ${second && isOver(lesson) && html`<p>${t(second.orders >= second.accepted ? 'teach.noneLost' : 'teach.lost', { n: second.accepted - second.orders })}</p>`}
    ${lesson.fault === 'flush' && html`<p class="more">${t('teach.flush.after')}</p>`}
    ${lesson.audit && html`<p data-test="lesson-audit">${t(lesson.audit === 'clean' ? 'teach.clean' : 'teach.broken')}</p>`}
    ${lesson.audit && lesson.audit !== 'clean' && html`<pre tabindex="0">${lesson.audit}</pre>`}`;
}

// Buyer is what a buyer has of it: the shop's answers, and the page of a sale in a window of its own. A frame on this page would
// have to be allowed by the policy of all pages.
function Buyer({ user, lang }) {
  const [sales, setSales] = useState([]);
  const [id, setId] = useState(0);
  useEffect(() => {
    let timer;
    let stopped = false;
    const look = async () => {
      const reply = await get('/api/sales');
      if (stopped) return;
      if (reply.ok) setSales(reply.data.filter((sale) => ['open', 'sold_out'].includes(sale.state)));
      timer = setTimeout(look, 3000);
    };
    look();
    return () => { stopped = true; clearTimeout(timer); };
  }, [lang]);
  const sale = sales.find((s) => s.id === id) ?? sales.find((s) => s.state === 'open') ?? sales[0];
  const href = sale && `/sale.html?id=${sale.id}`;
  const open = (event) => {
    event.preventDefault();
    window.open(href, 'buyer', 'popup,width=420,height=860');
  };
  if (!sale) return null;
  return html`
    <section class="buyer" aria-labelledby="buyer">
      <h2 id="buyer">${t('teach.buyer')}</h2>
      <p class="field"><label for="sale">${t('teach.sale')}</label>
        <select id="sale" data-test="sale" value=${sale.id} onChange=${(e) => setId(Number(e.target.value))}>
          ${sales.map((s) => html`<option key=${s.id} value=${s.id}>${s.title} · ${t('leftOf', s)}</option>`)}</select></p>
      <p><a class="button quiet" href=${href} target="_blank" rel="noopener" onClick=${open} data-test="buyer-window">${t('teach.window')}</a></p>
      <p class="more">${t('teach.windowMore')}</p>
      <${Pulse} key=${sale.id} sale=${sale.id} />
      ${sandbox && html`<${sandbox.Bots} sale=${sale} user=${user} />`}
    </section>`;
}

mount(Teach);
