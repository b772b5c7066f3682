// The lab shows how a flash sale goes wrong, why, and how to put it right. It has lessons, and
// four tools to try things alone: the bench, the sources of the strategies, the race, and the shop without a defence. The URL
// names the part that is shown: #1 or #oversell for a lesson, #bench, #strategies/<name>, #race/<name>, #without. The
// index of the courses adds /run to a lesson or a race, which then begins at once.
import { html, useEffect, useLayoutEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { loadTexts, t } from '../i18n.js';
import { Bench } from './bench.js';
import { Lesson } from './lesson.js';
import { lessons } from './lessons.js';
import { Race } from './race.js';
import { useRuns } from './run.js';
import { Strategies } from './strategy.js';
import { Without } from './without.js';
import { loginHref } from '../session.js';
import { Failed, Loading, mount, setTitle } from '../shell.js';

await loadTexts(
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('./words/titles_zh.js'), en: () => import('./words/titles_en.js') },
  { zh: () => import('./words/lessons_zh.js'), en: () => import('./words/lessons_en.js') },
  { zh: () => import('./words/lines_zh.js'), en: () => import('./words/lines_en.js') },
  { zh: () => import('./words/trials_zh.js'), en: () => import('./words/trials_en.js') },
  { zh: () => import('./words/picture_zh.js'), en: () => import('./words/picture_en.js') },
  { zh: () => import('./words/load_zh.js'), en: () => import('./words/load_en.js') },
);

const CLOSED = [401, 403, 404]; // the statuses of a shop whose lab is closed to this visitor

function Lab({ lang, user }) {
  const [lab, setLab] = useState(null);
  const [failed, setFailed] = useState(null);
  const [tries, setTries] = useState(0);
  const [part, arg, begin] = usePart();
  const runs = useRuns(lab !== null);
  useEffect(() => setTitle(t('lab.title')), [lang]);
  useEffect(() => {
    if (!('lab' in document.documentElement.dataset) && !user) { // a shop that is no sandbox shows its lab to no stranger
      if (user === null) setFailed({ status: 401 });
      return;
    }
    get('/api/lab').then((reply) => (reply.ok ? (setLab(reply.data), setFailed(null)) : setFailed(reply)));
  }, [tries, user]);

  if (!lab && failed && CLOSED.includes(failed.status)) {
    return html`<div class="blank" data-test="lab-closed"><h1>${t('lab.closed')}</h1><p>${t('lab.closedMore')}</p>
      ${failed.status === 401 && html`<a class="button" href=${loginHref()}>${t('login')}</a>`}
      ${failed.status !== 401 && html`<a class="button" href="/">${t('sale.back')}</a>`}</div>`;
  }
  if (!lab && failed) return html`<${Failed} title=${t('lab.failed')} more=${t('error.busy')} onRetry=${() => setTries(tries + 1)} />`;
  return html`
    <div class="intro"><h1>${t('lab.title')}</h1><p class="more">${t('lab.intro')}</p><p class="more"><a href="/courses.html">${t('lab.courses')}</a></p>
      ${'lab' in document.documentElement.dataset && html`<p class="row"><a class="button quiet" href="/mine.html" data-test="to-mine">${t('lab.mine')}</a> <a class="button quiet" href="/class.html" data-test="to-class">${t('lab.class')}</a></p>
      <p class="more small">${t('lab.own', { follow: t('order.follow') })} <a href="/orders.html" data-test="to-own">${t('orders')}</a></p>`}</div>
    ${lab ? html`<${Parts} lab=${lab} runs=${runs} part=${part} arg=${arg} begin=${begin} />` : html`<${Loading} />`}`;
}

function Parts({ lab, runs, part, arg, begin }) {
  return html`
    <nav class="parts" aria-label=${t('lab.parts')}>
      ${['lessons', 'bench', 'strategies', 'race', 'without'].map((p) => html`
        <a key=${p} href=${p === 'lessons' ? '#1' : '#' + p} data-test=${'part-' + p} aria-current=${p === part ? 'page' : undefined}>${t('lab.' + p)}</a>`)}
    </nav>
    ${part === 'lessons' && html`<${Lesson} key=${arg} n=${Number(arg)} lab=${lab} runs=${runs} begin=${begin} />`}
    ${part === 'bench' && html`<${Bench} lab=${lab} runs=${runs} />`}
    ${part === 'strategies' && html`<${Strategies} lab=${lab} name=${arg} />`}
    ${part === 'race' && html`<${Race} key=${arg} lab=${lab} name=${arg} begin=${begin} runs=${runs} />`}
    ${part === 'without' && html`<${Without} lab=${lab} runs=${runs} />`}`;
}

// Another site can lead here too, but it begins nothing.
const fromIndex = document.referrer === location.origin + '/courses.html';

// usePart returns the part of the lab that the URL names, its lesson or strategy, and whether to begin it.
function usePart() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onChange = () => setHash(location.hash);
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  const [part, ...args] = hash.slice(1).split('/');
  const begin = fromIndex && args.at(-1) === 'run';
  if (['bench', 'strategies', 'race', 'without'].includes(part)) return [part, args[0], begin];
  const named = lessons.findIndex((lesson) => lesson.name === part);
  return ['lessons', named >= 0 ? String(named + 1) : lessons[part - 1] ? part : '1', begin];
}

mount(Lab);
