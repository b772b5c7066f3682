// A way's own source, with the lines that decide marked.
import { html, useLayoutEffect, useRef } from './lib/preact.js';
import { t } from './i18n.js';
import { nameOf } from './lab_result.js';

const at = ([from, to]) => (from === to ? `${from}` : `${from}–${to}`);

// Ways lists them all beside the source of one.
export function Ways({ lab, name }) {
  const way = lab.ways.find((w) => w.name === name) || lab.ways[0];
  return html`<section class="split">
    <nav class="list" aria-label=${t('lab.ways')}><ol>${lab.ways.map((w) => html`
      <li key=${w.name}><a href=${'#ways/' + w.name} aria-current=${w === way ? 'true' : undefined}>
        <span class="mark2" data-right=${w.right ? 'yes' : 'no'} aria-hidden="true">${w.right ? '✓' : '✗'}</span>
        <span>${nameOf(w.name)}<span class="hidden"> ${t(w.right ? 'way.right' : 'way.wrong')}</span></span></a></li>`)}</ol></nav>
    <div><h2>${nameOf(way.name)}</h2><${Way} way=${way} /></div>
  </section>`;
}

// Way is what there is to say about a way, its source and its race.
export function Way({ way }) {
  return html`
    <p class="judged"><strong class="verdict" data-right=${way.right ? 'yes' : 'no'}><span aria-hidden="true">${way.right ? '✓ ' : '✗ '}</span>
      ${way.right ? t('way.right') : t('way.wrong.' + (way.wrong || 'any'))}
      ${way.needs && way.needs.length > 0 && ' ' + t('way.needs', { faults: way.needs.map((f) => t('fault.' + f)).join(t('and')) })}</strong> ${t('way.' + way.name + '.says')}</p>
    <${Source} way=${way} />
    <p class="row"><a class="button quiet" href=${'#race/' + way.name}>${t('race.see')}</a></p>`;
}

export function Source({ way }) {
  const box = useRef();
  const lines = way.source.replace(/\n$/, '').split('\n');
  const decides = (n) => way.marks.some(([from, to]) => from <= n && n <= to);
  useLayoutEffect(() => { // the lines that decide are seen first; the page itself stays where it is
    const first = box.current.querySelector('.decides');
    if (first) box.current.scrollTop = first.offsetTop - 60;
  }, [way.name]);
  return html`<figure class="source" data-test="source">
    <figcaption><code>seckill/lab/${way.file}</code> <mark>${t('way.decide', { lines: way.marks.map(at).join(t('comma')), n: way.marks.length })}</mark></figcaption>
    <div class="code" ref=${box} tabindex="0" role="region" aria-label=${way.file}><ol>${lines.map((line, i) => html`
      <li key=${i} class=${decides(i + 1) ? 'decides' : ''}>${decides(i + 1)
        ? html`<mark><code>${line || ' '}</code></mark>` : html`<code>${line || ' '}</code>`}</li>`)}</ol></div>
  </figure>`;
}
