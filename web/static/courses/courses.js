// The index: what five courses teach, found by the courses' own words in Chinese and English, and
// where this shop has it. The rows are in rows/, in both languages. The URL names what is shown:
// #q=<words> a search, #<id> a row.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { loadTexts, t } from '../i18n.js';
import { lessons } from '../lab/lessons.js';
import { withCode } from '../lab/result.js';
import { mount, setTitle } from '../shell.js';
import { commandHere, openSale } from './command.js';
import { groups, nearest, search } from './search.js';

await loadTexts(
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('../lab/words/titles_zh.js'), en: () => import('../lab/words/titles_en.js') },
);

const inSandbox = 'lab' in document.documentElement.dataset; // which alone has classes and exercises
const local = document.documentElement.dataset.lab === 'local'; // a sandbox where everyone may be the shopkeeper
const COURSES = ['A', 'B', 'C', 'D', 'E'];

function Courses({ lang }) {
  const [place, setPlace] = useState(read); // {query, id}, as the URL has it
  const [course, setCourse] = useState('');
  const [sale, setSale] = useState(1); // of the commands
  const box = useRef();
  useEffect(() => setTitle(t('courses.title')), [lang]);
  useEffect(() => {
    const ask = () => openSale().then((id) => id && setSale(id));
    ask();
    const timer = setInterval(ask, 30_000); // a sale of the sandbox may last three minutes
    return () => clearInterval(timer);
  }, []);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onChange = () => setPlace(read());
    const onKey = (event) => {
      if (event.key !== '/' || event.target.matches('input, textarea, select') || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      box.current.focus();
    };
    addEventListener('hashchange', onChange);
    addEventListener('keydown', onKey);
    return () => { removeEventListener('hashchange', onChange); removeEventListener('keydown', onKey); };
  }, []);
  useLayoutEffect(() => {
    const row = place.id && document.getElementById(place.id);
    if (!row) return;
    row.scrollIntoView();
    row.focus({ preventScroll: true });
  }, [place.id]);

  const type = (query) => {
    history.replaceState(null, '', query ? '#q=' + encodeURIComponent(query) : location.pathname);
    setPlace({ query, id: '' });
  };
  const onKeyDown = (event) => {
    if (event.isComposing) return; // Enter and Escape are the input method's
    if (event.key === 'Escape') type('');
    if (event.key === 'Enter' || event.key === 'ArrowDown') {
      event.preventDefault();
      document.querySelector('.index article')?.focus();
    }
  };
  const found = search(place.query, course);
  const elsewhere = found.length ? 0 : search(place.query, '').length; // rows of other courses
  const near = found.length || elsewhere ? null : nearest(place.query, course);
  const row = (r) => html`<${Row} key=${r.id} row=${r} lang=${lang} here=${r.id === place.id} sale=${sale} />`;
  return html`
    <div class="intro"><h1>${t('courses.title')}</h1><p class="more">${t('courses.intro')}</p>
      <p>${t('courses.teachers')} ${inSandbox && html`<a href="/class.html" data-test="to-class">${t('courses.class')}</a>${t('courses.comma')}`}<a href="/handout.html" data-test="to-handouts">${t('courses.handouts')}</a></p></div>
    <search class="finder">
      <label for="query">${t('courses.search')}</label>
      <input id="query" ref=${box} type="search" data-test="query" autocomplete="off" autocapitalize="off" spellcheck=${false} enterkeyhint="search"
        placeholder=${t('courses.example')} value=${place.query} onInput=${(e) => type(e.currentTarget.value)} onKeyDown=${onKeyDown} />
      <p class="more small" role="status" data-test="count" data-count=${found.length}>${near ? t('courses.near', { n: near.rows.length, piece: near.piece }) : t('courses.count', { n: found.length })}</p>
      <p class="row filter" role="group" aria-label=${t('courses.by')}>
        ${['', ...COURSES].map((c) => html`<button key=${c} type="button" class="plain pick" data-test=${'by-' + (c || 'all')} aria-pressed=${c === course}
          onClick=${() => setCourse(c)}>${t('courses.' + (c || 'all'))}</button>`)}</p>
    </search>
    <div class="index" data-test="index">
      ${elsewhere > 0 && html`<p><button type="button" class="button quiet" data-test="elsewhere" onClick=${() => setCourse('')}>${t('courses.elsewhere', { n: elsewhere })}</button></p>`}
      ${!found.length && !elsewhere && !near && html`<p class="blank" data-test="nothing">${t('courses.nothing')}</p>`}
      ${place.query ? html`<section><h2 class="hidden">${t('courses.found')}</h2>${(near ? near.rows : found).map(row)}</section>` : groups.map(({ name }, i) => {
        const rows = found.filter((r) => r.group === name);
        return rows.length > 0 && html`<${Group} key=${name} name=${name} at=${place.id ? 0 : i}>${rows.map(row)}<//>`;
      })}
    </div>
    <p class="more small how">${t('courses.how')}</p>`;
}

// read returns the search or the row that the URL names.
function read() {
  let hash = location.hash.slice(1);
  try {
    hash = decodeURIComponent(hash);
  } catch {
    // not encoded: the text as it is
  }
  return hash.startsWith('q=') ? { query: hash.slice(2), id: '' } : { query: '', id: hash };
}

// Group is a part of the index. All parts but the first come one after the other when the page opens, so that it answers meanwhile.
function Group({ name, at, children }) {
  const [shown, show] = useState(at === 0);
  useEffect(() => {
    if (shown) return undefined;
    const turn = setTimeout(() => show(true), at * 30);
    return () => clearTimeout(turn);
  }, []);
  return shown && html`<section><h2>${t('courses.group.' + name)}</h2>${children}</section>`;
}

// Row is one taught thing.
function Row({ row, lang, here, sale }) {
  const { taught, ours } = row[lang];
  const see = row.see.filter(isHere);
  return html`<article id=${row.id} class="sheet taught" tabindex="-1" data-test="row" data-here=${here ? '' : undefined} aria-labelledby=${row.id + '-name'}>
    <div class="name">
      <h3 id=${row.id + '-name'}><a href=${'#' + row.id}>${taught}</a></h3>
      <ul class="words" aria-label=${t('courses.words')}>${row.words.map((w) => html`<li key=${w}>${w}</li>`)}</ul>
      <p class="more small">${t('courses.taughtBy')} ${row.by.split('').map((c) => t('courses.' + c)).join(t('courses.comma'))}</p>
    </div>
    <div class="ours">
      ${ours.split('\n').map((text, i) => html`<p key=${i} class="says">${withCode(text)}</p>`)}
      ${row.code.length > 0 && html`<p class="places small"><b>${t('courses.where')}</b>${row.code.map(([file, name]) => html`<${Place} key=${file + name} file=${file} name=${name} />`)}</p>`}
      ${see.length > 0 && html`<p class="row">${see.map((s) => html`<${See} key=${s} what=${s} />`)}</p>`}
      ${row.run.map((command) => html`<${Command} key=${command} command=${command} sale=${sale} />`)}
    </div>
  </article>`;
}

// Place is a name in a file. The lab shows the source of a strategy.
function Place({ file, name }) {
  const strategy = /^seckill\/lab\/strategy_(\w+)\.go$/.exec(file);
  const path = html`<code>${file}</code>`;
  return html`<span>${strategy ? html`<a href=${'/lab.html#strategies/' + strategy[1].replaceAll('_', '-')}>${path}</a>` : path}${' '}
    <code class="soft">${name}</code></span>`;
}

// isHere reports whether this shop has what a button leads to. The panel is in a local sandbox only, and a student of a class is no shopkeeper.
const isHere = (what) => (inSandbox ? local || !/^page:\/(teach|admin)\.html/.test(what) : !/^(exercise:|page:\/teach\.html)/.test(what));

// See opens the lab or a page. The lab runs what it is sent to by this page.
function See({ what }) {
  const [kind, name] = what.split(':');
  if (kind === 'exercise') return html`<a class="button quiet" data-test="see" href=${`/mine.html#exercises/${name}`}>${t('courses.exercise', { title: t('courses.exercise.' + name) })}</a>`;
  if (kind === 'page') return html`<a class="button quiet" href=${name}>${t('courses.page', { name })}</a>`;
  if (kind === 'race') return html`<a class="button quiet" data-test="see" href=${`/lab.html#race/${name}/run`}>${t('courses.race', { name })}</a>`;
  const n = lessons.findIndex((l) => l.name === name) + 1;
  return html`<a class="button" data-test="see" href=${`/lab.html#${name}/run`}>${t('courses.lesson', { n, title: t(`lesson.${name}.title`) })}</a>`;
}

// Command is a line to copy into a terminal.
function Command({ command, sale }) {
  const [copied, setCopied] = useState(false);
  const line = useRef();
  const text = commandHere(command, sale);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch { // the browser forbids it: the user copies the selected line
      getSelection().selectAllChildren(line.current);
    }
  };
  return html`<p class="command"><code ref=${line}>${text}</code>
    <button type="button" class="plain" data-test="copy" onClick=${copy}>${t(copied ? 'courses.copied' : 'courses.copy')}</button></p>`;
}

mount(Courses);
