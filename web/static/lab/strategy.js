// The source of a strategy, with the lines marked that decide whether it is right.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { loadTexts, t } from '../i18n.js';
import { load } from '../lost.js';
import { nameOf, pathOf, withCode } from './result.js';

const range = ([from, to]) => (from === to ? `${from}` : `${from}–${to}`);

// Strategies lists all strategies beside the source of one.
export function Strategies({ lab, name }) {
  const strategy = lab.ways.find((s) => s.name === name) || lab.ways[0];
  return html`<section class="split">
    <nav class="list" aria-label=${t('lab.strategies')}><ol>${lab.ways.map((s) => html`
      <li key=${s.name}><a href=${'#strategies/' + s.name} aria-current=${s === strategy ? 'true' : undefined}>
        <span class="mark2" data-right=${s.right ? 'yes' : 'no'} aria-hidden="true">${s.right ? '✓' : '✗'}</span>
        <span>${nameOf(s.name)}<span class="hidden"> ${t(s.right ? 'strategy.right' : 'strategy.wrong')}</span></span></a></li>`)}</ol></nav>
    <div><h2>${nameOf(strategy.name)}</h2><${Strategy} strategy=${strategy} /></div>
  </section>`;
}

// Strategy shows whether a strategy is right and why, its source, and a link to its race.
export function Strategy({ strategy }) {
  const { name, right, wrong, needs } = strategy;
  return html`
    <p class="judged"><strong class="verdict" data-right=${right ? 'yes' : 'no'}><span aria-hidden="true">${right ? '✓ ' : '✗ '}</span>
      ${right ? t('strategy.right') : t(wrong ? 'strategy.wrong.' + wrong : 'strategy.wrong')}
      ${needs && needs.length > 0 && ' ' + t('strategy.needs', { faults: needs.map((f) => t('fault.' + f)).join(t('and')) })}</strong> ${t('strategy.' + name + '.says')}</p>
    <${Source} of=${{ ...strategy, text: 'strategy.' + name }} />
    <p class="row"><a class="button quiet" href=${'#race/' + name}>${t('race.see')}</a></p>`;
}

// The comment at the top of each source, in Chinese. They come with the first source that is shown: "async" keeps them out of the
// page's preload list.
let about = null;
async function loadAbout() {
  about ??= load(() => loadTexts({ zh: async () => import('./words/about_zh.js'), en: async () => ({}) }));
  if (await about === null) about = null; // lost: the next source tries again
}

// Source shows a file. text is the beginning of the keys of its texts.
export function Source({ of: { text, file, source, marks } }) {
  const code = useRef();
  const [, setReady] = useState(null);
  useEffect(() => { loadAbout().then(() => setReady({})); }, [file]);
  const lines = source.replace(/\n$/, '').split('\n');
  const isMarked = (n) => marks.some(([from, to]) => from <= n && n <= to);
  useLayoutEffect(() => { // scroll the code to the first marked line; the page itself does not move
    const first = code.current.querySelector('.decides');
    if (first) code.current.scrollTop = first.offsetTop - 60;
  }, [file]);
  return html`<figure class="source" data-test="source">
    <figcaption><code>${pathOf(file)}</code> <mark>${t('strategy.decide', { lines: marks.map(range).join(t('comma')) })}</mark></figcaption>
    <div class="code" ref=${code} tabindex="0" role="region" aria-label=${file}><ol>${lines.map((line, i) => html`
      <li key=${i} class=${isMarked(i + 1) ? 'decides' : ''}>${isMarked(i + 1)
        ? html`<mark><code>${line || ' '}</code></mark>` : html`<code>${line || ' '}</code>`}</li>`)}</ol></div>
    <dl class="explains" data-test="explains">${marks.map((mark, i) => html`
      <div key=${i}><dt>${t('strategy.line', { lines: range(mark) })}</dt><dd>${withCode(t(text + '.lines')[i])}</dd></div>`)}</dl>
    ${t(text + '.about') !== text + '.about' && html`<details class="about" data-test="about" open><summary>${t('strategy.about')}</summary>
      ${t(text + '.about').map((p, i) => html`<p key=${i}>${withCode(p)}</p>`)}</details>`}
  </figure>`;
}
