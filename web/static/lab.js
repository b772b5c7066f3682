// The lab: see it go wrong, see why, see it put right. Twelve lessons lead the way; the bench, the ways' sources and the
// race stand beside them for who wants to try for himself. The part shown is named by the address: #1 to #12, #bench,
// #ways/<name>, #race/<name>.
import { html, useEffect, useState } from './lib/preact.js';
import { get } from './api.js';
import { learn, t } from './i18n.js';
import { Bench } from './lab_bench.js';
import { Lesson } from './lab_lesson.js';
import { lessons } from './lab_lessons.js';
import { Race } from './lab_race.js';
import { useRuns } from './lab_run.js';
import { Ways } from './lab_way.js';
import { loginHref } from './session.js';
import { Failed, mount, title } from './shell.js';
import labEn from './words/lab_en.js';
import labZh from './words/lab_zh.js';
import lessonsEn from './words/lessons_en.js';
import lessonsZh from './words/lessons_zh.js';

learn({ zh: labZh, en: labEn });
learn({ zh: lessonsZh, en: lessonsEn });

const CLOSED = [401, 403, 404]; // what a shop answers that has no lab for this visitor

function Lab({ lang }) {
  const [lab, setLab] = useState(null);
  const [failed, setFailed] = useState(null);
  const [turn, again] = useState(0);
  const [part, arg] = usePlace();
  const runs = useRuns(lab !== null);
  useEffect(() => title(t('lab.title')), [lang]);
  useEffect(() => {
    get('/api/lab').then((answer) => (answer.ok ? (setLab(answer.data), setFailed(null)) : setFailed(answer)));
  }, [turn]);

  if (!lab && failed && CLOSED.includes(failed.status)) {
    return html`<div class="blank" data-test="lab-closed"><h1>${t('lab.closed')}</h1><p>${t('lab.closedMore')}</p>
      ${failed.status === 401 && html`<a class="button" href=${loginHref()}>${t('login')}</a>`}
      ${failed.status !== 401 && html`<a class="button" href="/">${t('sale.back')}</a>`}</div>`;
  }
  if (!lab && failed) return html`<${Failed} title=${t('lab.failed')} more=${t('why.busy')} again=${() => again(turn + 1)} />`;
  if (!lab) return html`<p class="blank" role="status">${t('loading')}</p>`;
  return html`
    <div class="intro"><h1>${t('lab.title')}</h1><p class="more">${t('lab.intro')}</p></div>
    <nav class="parts" aria-label=${t('lab.parts')}>
      ${['lessons', 'bench', 'ways', 'race'].map((p) => html`
        <a key=${p} href=${p === 'lessons' ? '#1' : '#' + p} data-test=${'part-' + p} aria-current=${p === part ? 'page' : undefined}>${t('lab.' + p)}</a>`)}
    </nav>
    ${part === 'lessons' && html`<${Lesson} key=${arg} n=${Number(arg)} lab=${lab} runs=${runs} />`}
    ${part === 'bench' && html`<${Bench} lab=${lab} runs=${runs} />`}
    ${part === 'ways' && html`<${Ways} lab=${lab} name=${arg} />`}
    ${part === 'race' && html`<${Race} key=${arg} lab=${lab} name=${arg} />`}`;
}

// usePlace gives the part of the lab the address names, and which lesson or way of it.
function usePlace() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const moved = () => setHash(location.hash);
    addEventListener('hashchange', moved);
    return () => removeEventListener('hashchange', moved);
  }, []);
  const [part, arg] = hash.slice(1).split('/');
  if (['bench', 'ways', 'race'].includes(part)) return [part, arg];
  return ['lessons', lessons[part - 1] ? part : '1'];
}

mount(Lab);
