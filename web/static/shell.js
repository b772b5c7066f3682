// The frame of every page: header, language, user and footer. mount(Page) renders Page with the
// props {lang, user}. It takes the place of the page's own skeleton (page.html), whose header looks the same.
import { html, render, useState } from './lib/preact.js';
import { Badge } from './badge.js';
import { setLang, t, useLang } from './i18n.js';
import { load, started } from './lost.js';
import { changed, logOut, loginHref, useUser } from './session.js';
import { followTranslation } from './translation.js';
import { causeOf } from './trouble.js';

const skeleton = document.querySelector('main .ghosts:last-child')?.outerHTML ?? '';

export function mount(Page) {
  const root = document.getElementById('app');
  root.textContent = '';
  followTranslation(root);
  render(html`<${Shell} Page=${Page} />`, root);
  started();
}

// The lab is open in a sandbox, whose pages are marked with data-lab, and for administrators.
const inSandbox = 'lab' in document.documentElement.dataset;

// What only a sandbox has; null in any other shop, and where it cannot be loaded.
export const sandbox = inSandbox ? await load(() => import('./sandbox/first.js')) : null;

export const STAFF = ['viewer', 'admin']; // the roles that see the shop's back office

// setTitle sets the title in the browser's tab.
export const setTitle = (...parts) => {
  document.title = [...parts.filter(Boolean), t('shop')].join(' · ');
};

// skip leads to the content and leaves the hash, which names the part of a page.
function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Shell({ Page }) {
  const lang = useLang();
  const user = useUser();
  return html`
    <a class="skip" href="#main" onClick=${skip}>${t('skip')}</a>
    <header class=${user && !user.unsure ? 'top known' : 'top'}>
      <div class="wide">
        <a class="mark" href="/"><span class="seal" aria-hidden="true" translate="no">秒</span><span class="name" translate="no">${t('shop')}</span></a>
        <nav>
          ${STAFF.includes(user?.role) && html`<a href="/admin.html" data-test="to-admin">${t('admin')}</a>`}
          <${Badge} user=${user} />
          ${user && html`<a href="/orders.html">${t('orders')}</a>`}
          <${Account} user=${user} />
          ${sandbox && html`<a class="to-lab" href="/lab.html" data-test="lab-top">${t('lab.top')}</a>`}
          <button class="plain lang" data-test="lang" lang=${lang === 'zh' ? 'en' : 'zh-CN'}
            onClick=${() => setLang(lang === 'zh' ? 'en' : 'zh')}>${lang === 'zh' ? 'English' : '中文'}</button>
        </nav>
      </div>
    </header>
    <main id="main" class="wide" tabindex="-1">${sandbox && html`<${sandbox.Start} user=${user} pages=${sandbox.ABOVE} />`}<${Changed} user=${user} />
      ${user?.ended && html`<p class="note changed ended" role="alert" data-test="ended">${t('ended')} <a href=${loginHref()} target="_blank">${t('login')}</a></p>`}
      ${user?.lost ? html`<${Failed} title=${t('trouble.' + causeOf(user.lost))} more=${t('trouble.more.' + causeOf(user.lost))} onRetry=${() => location.reload()} />`
        : html`<${Page} lang=${lang} user=${user} />`}</main>
    ${sandbox && html`<div class=${location.pathname === '/' ? 'dock' : 'dock below'}><${sandbox.Tour} /><${sandbox.Start} user=${user} pages=${sandbox.BELOW} /></div>`}
    <p class="doubt" role="status">${t('loading')}</p>
    <footer class="wide"><p>${t('foot.1')} ${t('foot.2')}</p>
      ${(inSandbox || user?.role === 'admin') && html`<p class="row"><a href="/lab.html" data-test="to-lab">${t('foot.lab')}</a>
        <a href="/courses.html" data-test="to-courses">${t('foot.courses')}</a>
        ${sandbox && html`<${sandbox.Again} />`}</p>`}</footer>`;
}

function Account({ user }) {
  const onLoginPage = location.pathname === '/login.html';
  if (user === null) return onLoginPage ? null : html`<a href=${loginHref()}>${t('login')}</a>`;
  if (!user || user.unsure) return null;
  return html`<a class="nick" href="/account.html" data-test="to-account"><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="8" r="4" /><path d="M4 21c.6-5 3.8-7 8-7s7.4 2 8 7" /></svg>
      <span class="wordy" translate="no">${user.nickname || user.phone}</span></a>
    <button class="plain" data-test="logout" onClick=${logOut}>${t('logout')}</button>`;
}

// Changed says who is logged in now, on a page that was loaded again because someone else was before.
function Changed({ user }) {
  const [seen, setSeen] = useState(!changed);
  if (seen || user === undefined || user?.unsure) return null;
  const see = () => {
    setSeen(true);
    document.getElementById('main').focus(); // the button that had it goes
  };
  return html`<p class="note changed" role="alert" data-test="changed">${user ? t('changed.now', { name: user.nickname || user.phone }) : t('changed.over')}
    ${' '}${user ? html`<button class="plain" data-test="changed-seen" onClick=${see}>${t('changed.seen')}</button>`
      : location.pathname !== '/login.html' && html`<a href=${loginHref()}>${t('login')}</a>`}</p>`;
}

// LoginFirst is shown in place of a page about orders to a visitor who is not logged in.
export const LoginFirst = () =>
  html`<div class="blank"><h1>${t('orders.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;

// Loading is shown in place of a page whose data is not there yet: the skeleton of the page, which is on the screen already.
export const Loading = () => html`<div aria-busy="true" dangerouslySetInnerHTML=${{ __html: skeleton }}></div>
  <p class="hidden" role="status">${t('loading')}</p>`;

// Failed is shown in place of a page whose data could not be read. Its button calls onRetry;
// without onRetry it leads to the list of sales.
export function Failed({ title, more, onRetry }) {
  return html`<div class="blank" role="status"><h1>${title}</h1>${more && html`<p>${more}</p>`}
    ${onRetry && html`<button class="button" onClick=${onRetry}>${t('again')}</button>`}
    ${!onRetry && html`<a class="button" href="/" data-test="to-list">${t('sale.back')}</a>`}</div>`;
}
