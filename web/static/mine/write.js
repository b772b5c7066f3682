// The student's own programs: begin with one of the lab's strategies or with nothing, change it, and run it against a crowd.
import { html, useEffect, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { nameOf } from '../lab/result.js';
import { inLanguage } from './comments.js';
import { Crowd, FIRST_PLAN } from './crowd.js';
import { Desk, useShown } from './desk.js';
import { exportFile, freeName, loadPrograms, readFile, savePrograms, watchPrograms } from './store.js';
import { Verdict } from './verdict.js';

const EMPTY = {
  lua: 'function buy(user)\n  -- sell one unit to user: return true, or false when there is none\n  return false\nend\n',
  sql: '-- buy\n',
};

// empty returns a new program.
const empty = (language) => ({ language, source: inLanguage(EMPTY[language]), plan: { ...FIRST_PLAN } });

const OWNER = 'mine '; // and the name of the program: whose a run is

// startOf returns a program of the shop's list as one of the student's.
const startOf = (start) => ({ language: start.language, source: inLanguage(start.source), plan: { ...FIRST_PLAN } });

export function Write({ lab, runs }) {
  const [programs, setPrograms] = useState(() => {
    const kept = loadPrograms();
    if (Object.keys(kept.all).includes(kept.open)) return kept;
    const first = lab.programs[0];
    return first ? { open: first.name, all: { ...kept.all, [first.name]: startOf(first) } } : { open: 'mine', all: { ...kept.all, mine: empty('lua') } };
  });
  const [note, setNote] = useState('');
  const { shown, onStep, goTo, onLine } = useShown();
  const [removing, setRemoving] = useState(false); // whether the student was asked
  const { open } = programs;
  const owner = OWNER + open;
  const program = { ...programs.all[open], plan: { ...FIRST_PLAN, ...programs.all[open].plan } };
  // A change begins with what is stored now: another tab may have changed other programs. Which one is open is this tab's own affair.
  const update = (change) => setPrograms((old) => {
    const stored = loadPrograms().all;
    const next = change({ open: old.open, all: { ...stored, [old.open]: stored[old.open] ?? old.all[old.open] } });
    savePrograms(next);
    return next;
  });
  useEffect(() => update((old) => old), []);
  useEffect(() => watchPrograms(() => setPrograms((old) => {
    const stored = loadPrograms();
    const open = [old.open, stored.open, ...Object.keys(stored.all)].find((name) => Object.keys(stored.all).includes(name));
    return open === undefined ? old : { open, all: stored.all };
  })), []);
  useEffect(() => setRemoving(false), [open]);
  const change = (patch) => update((old) => ({ ...old, all: { ...old.all, [old.open]: { ...old.all[old.open], ...patch } } }));
  const add = (name, made) => {
    setNote('');
    update((old) => {
      const same = old.all[name] && old.all[name].source === made.source;
      const free = same ? name : freeName(old.all, name);
      return { open: free, all: { ...old.all, [free]: same ? old.all[name] : made } };
    });
  };
  const begin = (value) => {
    const none = value.match(/^empty-(lua|sql)$/);
    if (none) add(t('mine.emptyName'), empty(none[1]));
    else if (value) add(lab.programs[Number(value)].name, startOf(lab.programs[Number(value)]));
  };
  const rename = (name) => {
    const wanted = name.trim().slice(0, 60);
    if (!wanted || wanted === open) return;
    const free = freeName({ ...programs.all, ...loadPrograms().all }, wanted);
    runs.rename(owner, OWNER + free);
    update((old) => {
      const { [old.open]: moved, ...others } = old.all;
      return { open: free, all: { ...others, [free]: moved } };
    });
  };
  const remove = () => {
    setRemoving(!removing);
    if (!removing) return;
    runs.forget(owner);
    update((old) => {
      const { [old.open]: _, ...others } = old.all;
      const [next] = Object.keys(others);
      return next ? { open: next, all: others } : { open: t('mine.emptyName'), all: { [t('mine.emptyName')]: empty('lua') } };
    });
  };
  const bring = async (input) => {
    const [file] = input.files;
    if (!file) return;
    const read = await readFile(file);
    input.value = '';
    if (read.problem) setNote(t('mine.import.' + read.problem));
    else add(read.name, { language: read.language, source: read.source, plan: { ...FIRST_PLAN } });
  };
  const start = () => {
    onStep(null);
    runs.ask(owner, '/api/lab/mine', { language: program.language, source: program.source, plan: program.plan });
  };
  const run = runs.byOwner[owner];
  const result = run && run.state === 'done' ? run.results[0] : null;
  // A run of another program can be stopped from here, too.
  const working = Object.entries(runs.byOwner).find(([of, r]) => of.startsWith(OWNER) && ['waiting', 'running'].includes(r.state))?.[1] ?? run;
  const named = (wanted) => lab.programs.map((p, i) => ({ ...p, i })).filter(wanted).map((p) => html`
    <option key=${p.i} value=${p.i}>${titleOf(p)} (${p.language === 'sql' ? 'SQL' : 'Lua'})</option>`);
  const bar = html`<div class="shelf">
    <label class="field"><span>${t('mine.start')}</span>
      <select data-test="start" value="" onChange=${(e) => { begin(e.currentTarget.value); e.currentTarget.value = ''; }}>
        <option value="">${t('mine.choose')}</option>
        <option value="empty-lua">${t('mine.empty', { language: 'Lua' })}</option><option value="empty-sql">${t('mine.empty', { language: 'SQL' })}</option>
        <optgroup label=${t('mine.wrongOnes')}>${named((p) => p.wrong)}</optgroup><optgroup label=${t('mine.rightOnes')}>${named((p) => !p.wrong)}</optgroup></select></label>
    <label class="field"><span>${t('mine.kept')}</span>
      <select data-test="kept" value=${open} onChange=${(e) => { const name = e.currentTarget.value; update((old) => ({ ...old, open: name })); }}>${Object.keys(programs.all).map((name) => html`
        <option key=${name} value=${name}>${name} (${programs.all[name].language === 'sql' ? 'SQL' : 'Lua'})</option>`)}</select></label>
    <label class="field"><span>${t('mine.name')}</span>
      <input type="text" data-test="name" maxlength="60" value=${open} onChange=${(e) => { rename(e.currentTarget.value); e.currentTarget.value = open; }} /></label>
    <p class="row picks"><button type="button" class="plain pick" data-test="export" onClick=${() => exportFile({ name: open, ...program })}>${t('mine.export')}</button>
      <label class="plain pick file">${t('mine.import')}<input type="file" class="hidden" data-test="import" accept=".lua,.sql" onChange=${(e) => bring(e.currentTarget)} /></label>
      <button type="button" class="plain pick" data-test="remove" onClick=${remove}>${t(removing ? 'mine.removeSure' : 'mine.remove')}</button></p>
    ${note && html`<p class="note" role="alert">${note}</p>`}</div>`;
  return html`<section>
    <h2 class="hidden">${t('mine.write')}</h2>
    <${Desk} program=${program} onInput=${(source) => change({ source })} onRun=${start} run=${working} busy=${runs.busy} stop=${runs.stop} stock=${working === run ? Math.min(program.plan.stock, lab.max.stock) : 0}
      result=${result} shown=${shown} goTo=${goTo} label=${t('mine.source', { name: open })} bar=${bar}>
      <${Crowd} plan=${program.plan} max=${lab.max} faults=${lab.faults} onChange=${(plan) => change({ plan })} /><//>
    ${result && html`<${Verdict} key=${run.run} result=${result} cut=${run.cut} onLine=${onLine} onStep=${onStep} />`}
  </section>`;
}

// titleOf returns the name of a start program in the user's language.
function titleOf(program) {
  const key = program.name.replace(/-(lua|sql)$/, '');
  return nameOf(key) === 'strategy.' + key ? program.name : nameOf(key);
}
