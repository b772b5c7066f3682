// The handout of a lesson, to print on one or two pages: /handout.html?lesson=3, or ?lesson=guard. It is made from the texts of the
// lesson, and from the lines of the sources that decide.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { loadTexts, t } from '../i18n.js';
import { lessons } from './lessons.js';
import { nameOf, pathOf, withCode } from './result.js';
import { mount, setTitle } from '../shell.js';

await loadTexts(
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('./words/titles_zh.js'), en: () => import('./words/titles_en.js') },
  { zh: () => import('./words/lessons_zh.js'), en: () => import('./words/lessons_en.js') },
  { zh: () => import('./words/lines_zh.js'), en: () => import('./words/lines_en.js') },
  { zh: () => import('./words/trials_zh.js'), en: () => import('./words/trials_en.js') },
  { zh: () => import('./words/load_zh.js'), en: () => import('./words/load_en.js') },
  { zh: () => import('./words/handout_zh.js'), en: () => import('./words/handout_en.js') },
);

const COLUMNS = ['sold', 'oversold', 'unsold', 'duplicates', 'lost'];

function Handout({ lang }) {
  const asked = new URLSearchParams(location.search).get('lesson') ?? '';
  const i = lessons.findIndex((l, at) => l.name === asked || String(at + 1) === asked);
  useEffect(() => setTitle(i < 0 ? t('handout.title') : t(`lesson.${lessons[i].name}.title`), i >= 0 && t('handout.title')), [lang]);
  if (i < 0) {
    return html`<h1>${t('handout.title')}</h1><p class="lead more">${t('handout.intro')}</p>
      <ol class="handouts" data-test="handouts">${lessons.map((l, at) => html`<li key=${l.name}><a href=${`/handout.html?lesson=${at + 1}`} data-test=${`handout-${at + 1}`}>
        ${at + 1}. ${t(`lesson.${l.name}.title`)}</a></li>`)}</ol>`;
  }
  return html`<${Sheet} lesson=${lessons[i]} n=${i + 1} />`;
}

function Sheet({ lesson, n }) {
  const { name, plan, experiment, places } = lesson;
  const text = (key) => t(`lesson.${name}.${key}`);
  const sources = useSources(lesson);
  return html`<article class="handout" data-test="handout" data-lesson=${n} data-sources=${sources ? sources.length : undefined}>
    <p class="row screen"><button type="button" class="button" data-test="print" onClick=${() => print()}>${t('handout.print')}</button>
      <a class="button quiet" href=${'/lab.html#' + n}>${t('handout.toLesson')}</a><a class="button quiet" href="/handout.html">${t('handout.all')}</a></p>
    <header><p class="more">${t('lesson.nth', { n, of: lessons.length })} · ${t('lesson.taught')}${text('taught').join(t('comma'))}</p><h1>${text('title')}</h1>
      <p class="name">${t('handout.name')}</p></header>
    ${text('text').map((p, at) => html`<p key=${at}>${withCode(p)}</p>`)}
    <section class="keep"><h2>${text('ask')}</h2>
      <ul class="boxes">${text('choices').map((choice, at) => html`<li key=${at}>${choice}</li>`)}</ul>
      <p class="write">${t('handout.why')}</p></section>
    <section class="keep"><h2>${t('handout.run')}</h2>
      <p>${experiment ? t('lesson.experiment') : t('lesson.preset', { buyers: plan.buyers, stock: plan.stock, double: plan.double_clicks, strategies: plan.strategies.length, faults: plan.faults.map((f) => t('fault.' + f)).join(t('and')) })}
        ${' '}<code>/lab.html#${n}</code></p>
      ${plan ? html`<table><thead><tr><th>${t('result.strategy')}</th>${COLUMNS.map((c) => html`<th key=${c}>${t('result.' + c)}</th>`)}<th>${t('result.costs')}</th></tr></thead>
        <tbody>${plan.strategies.map((s) => html`<tr key=${s}><th>${nameOf(s)}</th>${[...COLUMNS, 'costs'].map((c) => html`<td key=${c}></td>`)}</tr>`)}</tbody></table>`
        : html`<p class="write">${t('handout.figures')}</p>`}
      <p class="write">${t('handout.shows')}</p></section>
    ${sources?.length > 0 && html`<section><h2>${t('lesson.lines')}</h2>${sources.map((source) => html`<${Lines} key=${source.file} of=${source} />`)}</section>`}
    <p class="places"><b>${t('lesson.where')}</b> ${places.map(([file, at], k) => html`<span key=${k}><code>${file}</code> <code class="soft">${at}</code>${' '}</span>`)}</p>
  </article>`;
}

// useSources returns the files whose lines decide, null until they are known, and none where the lab is closed to this visitor.
function useSources({ read, experiment }) {
  const [sources, setSources] = useState(null);
  useEffect(() => {
    const of = experiment ? 'experiment=' + encodeURIComponent(experiment) : 'strategy=' + encodeURIComponent(read);
    get('/api/lab/source?' + of).then(({ ok, data }) => setSources(ok ? data.map((f) => ({ ...f, text: experiment ? 'source.' + f.file : 'strategy.' + read })) : []));
  }, [read, experiment]);
  return sources;
}

function Lines({ of: { text, file, source, marks } }) {
  const lines = source.split('\n');
  return html`<div class="lines"><h3><code>${pathOf(file)}</code></h3>${marks.map(([from, to], i) => html`<div key=${i} class="keep">
    <pre>${unindented(lines.slice(from - 1, to)).join('\n')}</pre><p>${withCode(t(text + '.lines')[i])}</p></div>`)}</div>`;
}

// unindented takes the tabs away that all lines have.
function unindented(lines) {
  const tabs = Math.min(...lines.filter((l) => l.trim()).map((l) => /^\t*/.exec(l)[0].length));
  return lines.map((l) => l.slice(tabs).replaceAll('\t', '  '));
}

mount(Handout);
