// "Your own way": a student writes how to sell a unit, and the lab's crowd judges it. The URL names the part that is shown: #write,
// #exercises, #exercises/<name>, #certificate.
import { html, useEffect, useLayoutEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { loadTexts, t } from '../i18n.js';
import { useRuns } from '../lab/run.js';
import { Failed, Loading, mount, setTitle } from '../shell.js';
import { Certificate } from './certificate.js';
import { Exercises, useExercises } from './exercises.js';
import { Write } from './write.js';

await loadTexts(
  { zh: () => import('../lab/words/zh.js'), en: () => import('../lab/words/en.js') },
  { zh: () => import('../lab/words/picture_zh.js'), en: () => import('../lab/words/picture_en.js') },
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('../courses/words/zh.js'), en: () => import('../courses/words/en.js') }, // has the names of the courses
  { zh: () => import('./words/comments_zh.js'), en: async () => ({}) },
);

const PARTS = ['write', 'exercises', 'certificate'];

function Mine({ lang }) {
  const [lab, setLab] = useState(null);
  const [failed, setFailed] = useState(null);
  const [tries, setTries] = useState(0);
  const [part, arg] = usePart();
  const runs = useRuns(false);
  const exercises = useExercises(part !== 'write', runs.byOwner);
  useEffect(() => setTitle(t('mine.title')), [lang]);
  useEffect(() => {
    get('/api/lab/programs').then((reply) => (reply.ok ? (setLab(reply.data), setFailed(null)) : setFailed(reply)));
  }, [tries]);
  if (!lab && failed) return html`<${Failed} title=${t('lab.failed')} more=${t('error.busy')} onRetry=${() => setTries(tries + 1)} />`;
  const intro = html`<div class="intro"><h1>${t('mine.title')}</h1><p class="more">${t('mine.intro')}</p></div>`;
  if (!lab) return html`${intro}<${Loading} />`;
  return html`${intro}
    <nav class="parts" aria-label=${t('lab.parts')}>
      ${PARTS.map((p) => html`<a key=${p} href=${'#' + p} data-test=${'part-' + p} aria-current=${p === part ? 'page' : undefined}>${t('mine.' + p)}</a>`)}
      <a href="/lab.html">${t('mine.lab')}</a>
    </nav>
    ${part === 'write' && html`<${Write} lab=${lab} runs=${runs} />`}
    ${part === 'exercises' && html`<${Exercises} name=${arg} runs=${runs} exercises=${exercises} />`}
    ${part === 'certificate' && html`<${Certificate} exercises=${exercises} />`}`;
}

function usePart() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onChange = () => setHash(location.hash);
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  const [part, arg] = hash.slice(1).split('/');
  return [PARTS.includes(part) ? part : 'write', arg && decoded(arg)];
}

// decoded returns text without its escapes, or as it is if they are broken.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

mount(Mine);
