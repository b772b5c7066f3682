// The ladder of exercises and the algorithms of courses: two lists with what this browser has solved, and one exercise with its task,
// editor, hints and solution.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { lang, t } from '../i18n.js';
import { Loading, Failed } from '../shell.js';
import { count, number, withCode } from '../lab/result.js';
import { Source } from './code.js';
import { inLanguage } from './comments.js';
import { Desk, useShown } from './desk.js';
import { loadExercises, saveExercises, watchExercises } from './store.js';
import { Verdict } from './verdict.js';

const FRESH = { sources: {}, hints: 0, solved: 0, gaveUp: false, cost: null };
const EMPTY_SQL = '-- buy\n';
const OWNER = 'exercise '; // and its name: whose a run is

// useExercises returns {all, failed, retry, kept, keep(name, patch), setStudent}. all is null until the lists are there. It keeps each exercise
// that a run of byOwner has solved, whatever part of the page is shown.
export function useExercises(wanted, byOwner) {
  const [all, setAll] = useState(null);
  const [failed, setFailed] = useState(null);
  const [tries, setTries] = useState(0);
  const [kept, setKept] = useState(loadExercises);
  useEffect(() => {
    if (wanted && !all) get('/api/lab/exercises').then((reply) => (reply.ok ? (setAll(reply.data), setFailed(null)) : setFailed(reply)));
  }, [wanted, tries]);
  useEffect(() => watchExercises(() => setKept(loadExercises())), []);
  // A change begins with what is stored now: another tab may have solved something.
  const update = (change) => {
    const next = change(loadExercises());
    saveExercises(next);
    setKept(next);
  };
  const keep = (name, patchOf) => update((old) => {
    const was = { ...FRESH, ...old.by[name] };
    return { ...old, by: { ...old.by, [name]: { ...was, ...patchOf(was) } } };
  });
  const recorded = useRef(new WeakSet()); // the runs whose outcome is kept
  useEffect(() => {
    for (const [owner, run] of Object.entries(byOwner)) {
      if (!owner.startsWith(OWNER) || run.state !== 'done' || !run.data?.solved || recorded.current.has(run)) continue;
      recorded.current.add(run);
      const now = costOf(run.data);
      keep(owner.slice(OWNER.length), (was) => ({
        solved: was.solved || Date.now(),
        cost: !was.cost || now.sql_per_order < was.cost.sql_per_order ? now : was.cost,
      }));
    }
  }, [byOwner]);
  return {
    all, failed, kept,
    retry: () => setTries(tries + 1),
    keep: (name, patch) => keep(name, () => patch),
    setStudent: (student) => update((old) => ({ ...old, student })),
  };
}

// textsOf returns {title, task, hints, why} of an exercise in the language that is shown.
export const textsOf = ({ title, task, hints, why }) => {
  const l = lang();
  return { title: title[l], task: task[l], hints: hints.map((hint) => hint[l]), why: why[l] };
};

// Paragraphs shows a text whose paragraphs are apart by an empty line.
const Paragraphs = ({ text }) => text.split(/\n{2,}/).map((part, i) => html`<p key=${i}>${withCode(part.replaceAll('\n', ' '))}</p>`);

// ladderOf and coursesOf return the exercises of the ladder, and those that are algorithms of courses.
export const ladderOf = (all) => all.filter((e) => !e.by);
const coursesOf = (all) => all.filter((e) => e.by);

export function Exercises({ name, runs, exercises }) {
  const { all, failed, kept } = exercises;
  // Without a name the address gets that of the next one, which then stays when it is solved.
  useEffect(() => {
    if (all && !all.some((e) => e.name === name)) location.replace('#exercises/' + nextOf(all, kept).name);
  }, [all, name]);
  const shown = useRef(), list = useRef();
  useLayoutEffect(() => {
    if (shown.current && shown.current !== name) document.querySelector('[data-test="exercise"] h2')?.focus();
    shown.current = name;
    const open = list.current?.querySelector('[aria-current]').getBoundingClientRect(), seen = list.current?.getBoundingClientRect();
    if (open && (open.top < seen.top || open.bottom > seen.bottom)) list.current.scrollTop += open.top - seen.top - seen.height / 2;
  }, [name, all]);
  if (!all && failed) return html`<${Failed} title=${t('lab.failed')} more=${t('error.busy')} onRetry=${exercises.retry} />`;
  if (!all) return html`<${Loading} />`;
  const exercise = all.find((e) => e.name === name) || nextOf(all, kept);
  const ladder = ladderOf(all), courses = coursesOf(all);
  const peers = exercise.by ? courses : ladder;
  const step = (e, mark) => html`<li key=${e.name}><a href=${'#exercises/' + e.name} data-test=${'exercise-' + e.name} aria-current=${e === exercise ? 'true' : undefined}>
    <b>${mark}</b> <span class="name">${textsOf(e).title}</span>
    ${kept.by[e.name]?.solved > 0 && html`<span class="done"><span aria-hidden="true">✓</span><span class="hidden"> ${t('exercise.solved')}</span></span>`}</a></li>`;
  return html`<section class="split ladder">
    <nav class="list" aria-label=${t('exercise.list')} ref=${list}>
      <p class="more small" data-test="progress">${t('exercise.progress', { n: ladder.filter((e) => kept.by[e.name]?.solved).length, of: ladder.length })}</p>
      <ol>${ladder.map((e, i) => step(e, i + 1))}</ol>
      <p class="more small">${t('exercise.courses')}</p>
      <div data-test="courses">${[...new Set(courses.map((e) => e.by))].map((by) => html`<p class="more small">${t('courses.' + by)}</p>
        <ol>${courses.filter((e) => e.by === by).map((e, i) => step(e, by + (i + 1)))}</ol>`)}</div></nav>
    <${Exercise} key=${exercise.name} exercise=${exercise} n=${peers.indexOf(exercise) + 1} all=${peers} runs=${runs} exercises=${exercises} />
  </section>`;
}

// nextOf returns the first exercise of the ladder that this browser has not solved, or the first of all.
const nextOf = (all, kept) => ladderOf(all).find((e) => !kept.by[e.name]?.solved) || all[0];

// Exercise shows one. It is the n-th of all, which is its own list.
function Exercise({ exercise, n, all, runs, exercises }) {
  const { name } = exercise;
  const mine = { ...FRESH, language: exercise.start.language, ...exercises.kept.by[name] };
  const keep = (patch) => exercises.keep(name, patch);
  const { title, task, hints, why } = textsOf(exercise);
  const own = exercise.checks.filter((check) => check.exercise === name);
  const again = [...new Set(exercise.checks.map((check) => check.exercise))].filter((other) => other !== name);
  const { shown, onStep, goTo, onLine } = useShown();
  const [sure, setSure] = useState(false);
  const [discarding, setDiscarding] = useState(false); // whether the student was asked
  const { language } = mine;
  useEffect(() => setDiscarding(false), [language]);
  const source = mine.sources[language] ?? (language === exercise.start.language ? inLanguage(exercise.start.source) : EMPTY_SQL);
  const owner = OWNER + name;
  const run = runs.byOwner[owner];
  const judged = run && run.state === 'done' ? run.data : null;
  const start = () => {
    onStep(null);
    runs.ask(owner, '/api/lab/exercises/' + name, { language, source });
  };
  const restart = () => {
    if (discarding) keep({ sources: { ...mine.sources, [language]: undefined } });
    setDiscarding(!discarding);
  };
  const bar = html`<p class="row picks">
    ${['lua', 'sql'].map((l) => html`<button key=${l} type="button" class="plain pick" aria-pressed=${l === language} data-test=${'in-' + l} onClick=${() => keep({ language: l })}>${l === 'sql' ? 'SQL' : 'Lua'}</button>`)}
    <button type="button" class="plain pick" data-test="restart" onClick=${restart}>${t(discarding ? 'exercise.restartSure' : 'exercise.restart')}</button></p>`;
  const failing = judged?.checks.find((c) => !c.passed);
  const outcome = useRef();
  const before = useRef(judged); // what was judged earlier is not scrolled to
  useLayoutEffect(() => {
    if (judged !== before.current) outcome.current?.scrollIntoView({ block: 'start' });
    before.current = judged;
  }, [judged]);
  return html`<article class="exercise" data-test="exercise" data-name=${name}>
    <p class="more small">${exercise.by ? t('exercise.taughtBy', { course: t('courses.' + exercise.by) }) : t('exercise.nth', { n, of: all.length })}</p>
    <h2 tabindex="-1">${title}</h2>
    <div class="task"><${Paragraphs} text=${task} /></div>
    <h3>${t('exercise.targets')}</h3>
    <ul class="targets">${own.map((check, i) => html`<li key=${i}>${targetOf(check)}</li>`)}
      ${again.length > 0 && html`<li class="more">${t('exercise.again', { names: again.map((a) => `“${titleOf(all, a)}”`).join(t('comma')) })}</li>`}</ul>
    <${Desk} beside=${false} program=${{ language, source }} onInput=${(text) => keep({ sources: { ...mine.sources, [language]: text } })} onRun=${start} run=${run} busy=${runs.busy} stop=${runs.stop} stock=${0}
      result=${failing?.result} shown=${shown} goTo=${goTo} label=${t('mine.source', { name: title })} bar=${bar} />
    ${judged && html`<div class="judged-exercise" data-test="judged" data-solved=${judged.solved ? 'yes' : 'no'} role="status" ref=${outcome}>
      <h3 class="verdict" data-right=${judged.solved ? 'yes' : 'no'}>${judged.solved ? '✓ ' : '✗ '}${t(judged.solved ? 'exercise.isSolved' : 'exercise.notYet')}</h3>
      ${run.seat_lost && html`<p class="note" data-test="seat-lost">${t('exercise.seatLost')} <a href="/class.html">${t('exercise.seatAgain')}</a></p>`}
      <ul class="checks-of">${judged.checks.map((c, i) => html`<li key=${i} data-right=${c.passed ? 'yes' : 'no'}><span aria-hidden="true">${c.passed ? '✓' : '✗'}</span>
        <span>${c.exercise !== name && html`<span class="more">${titleOf(all, c.exercise)}: </span>`}${targetOf(exercise.checks[i])}${!c.passed && html`<br /><strong class="bad">${c.message[lang()]}</strong>`}</span></li>`)}
        ${judged.checks.length < exercise.checks.length && html`<li class="more"><span></span><span>${t('exercise.notRun', { n: exercise.checks.length - judged.checks.length })}</span></li>`}</ul>
      ${judged.solved && n < all.length && html`<p><a class="button" data-test="next-exercise" href=${'#exercises/' + all[n].name}>${t('exercise.next', { title: textsOf(all[n]).title })}</a></p>`}
      ${judged.solved && n === all.length && !exercise.by && html`<p><a class="button" href="#certificate">${t('mine.certificate')}</a></p>`}
    </div>
    ${failing && !failing.result.right && html`<${Verdict} key=${run.run} result=${failing.result} cut=${run.cut} searched=${failing.exercise === name} leads=${false} onLine=${onLine} onStep=${onStep} />`}`}
    <section class="hints" aria-label=${t('exercise.hints')}>
      ${hints.slice(0, mine.hints).map((hint, i) => html`<div key=${i} class="tip" data-test=${`hint-${i + 1}`}><b>${t('exercise.hint', { n: i + 1, of: hints.length })}</b> <${Paragraphs} text=${hint} /></div>`)}
      <p class="row">${mine.hints < hints.length && html`<button type="button" class="button quiet" data-test="hint" onClick=${() => keep({ hints: mine.hints + 1 })}>${t('exercise.showHint', { n: mine.hints + 1, of: hints.length })}</button>`}
        ${!mine.solved && !mine.gaveUp && html`<button type="button" class="button quiet" data-test="give-up" onClick=${() => (sure ? keep({ gaveUp: true }) : setSure(true))}>${t(sure ? 'exercise.giveUpSure' : 'exercise.giveUp')}</button>`}</p></section>
    ${(mine.solved > 0 || mine.gaveUp) && html`<section class="sheet solution" data-test="solution"><h3>${t('exercise.solution')}</h3><${Source} language=${exercise.solution.language} source=${inLanguage(exercise.solution.source)} />
      <h4>${t('exercise.why')}</h4><${Paragraphs} text=${why} /></section>`}
  </article>`;
}

const titleOf = (all, name) => { const found = all.find((e) => e.name === name); return found ? textsOf(found).title : name; };
const costOf = ({ sql_per_order, checks: [{ result }] }) => ({ sql_per_order, per_second: result.per_second });

// targetOf says in words what a check asks for.
function targetOf(check) {
  const { plan } = check;
  const parts = [t('target.crowd', { ...plan, buyers: count(plan.buyers), nodes: check.nodes })];
  if (check.closes) parts.push(t('target.closes'));
  for (const fault of plan.faults || []) parts.push(t('fault.' + fault));
  if (check.sql_per_order) parts.push(t('target.sql', { n: number(check.sql_per_order, check.sql_per_order % 1 ? 1 : 0) }));
  if (check.most_late >= 0) parts.push(t('target.late', { n: check.most_late }));
  if (check.baseline) parts.push(t('target.pace', { ratio: number(check.ratio, check.ratio % 1 ? 1 : 0), name: t('strategy.' + check.baseline) }));
  return parts.join(t('comma'));
}
