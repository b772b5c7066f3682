// A class: students join it by a code and a name, and the teacher, an administrator, has its board. The URL names the class:
// #<code> is its board for the teacher, and fills in the code for a student.
import { html, useEffect, useLayoutEffect, useState } from '../lib/preact.js';
import { errorText, loadTexts, t } from '../i18n.js';
import { loginHref, readUser } from '../session.js';
import { Failed, Loading, mount, setTitle } from '../shell.js';
import { Board } from './board.js';
import { Classes } from './classes.js';
import { Seat } from './seat.js';

await loadTexts(
  { zh: () => import('../lab/words/zh.js'), en: () => import('../lab/words/en.js') },
  { zh: () => import('../lab/words/picture_zh.js'), en: () => import('../lab/words/picture_en.js') },
  { zh: () => import('../lab/words/load_zh.js'), en: () => import('../lab/words/load_en.js') },
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
);

function Class({ lang, user }) {
  const code = useHash();
  useEffect(() => setTitle(t('class.title')), [lang]);
  if (user === undefined) return html`<${Loading} />`;
  if (user?.unsure) return html`<${Failed} title=${errorText({ code: 'busy' })} onRetry=${readUser} />`;
  if (user?.role !== 'admin') {
    return html`<${Seat} code=${code} />
      ${!user && html`<p class="more small teacher">${t('class.teacher')} <a href=${loginHref()} data-test="teacher-login">${t('login')}</a></p>`}`;
  }
  return code ? html`<${Board} key=${code} code=${code} />` : html`<${Classes} />`;
}

// useHash returns what is behind the # of the URL.
function useHash() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onChange = () => setHash(location.hash);
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return hash.slice(1).toUpperCase();
}

mount(Class);
