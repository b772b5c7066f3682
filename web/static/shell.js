// What surrounds every page: header, language, who is logged in, footer.
// mount(Page) gives Page the props {lang, user}.
import { html, render } from './lib/preact.js';
import { choose, t, useLang } from './i18n.js';
import { logOut, loginHref, useUser } from './session.js';

export function mount(Page) {
  const root = document.getElementById('app');
  root.textContent = '';
  render(html`<${Shell} Page=${Page} />`, root);
}

// The lab is for the sandbox, whose pages say what they are, and for administrators.
const inSandbox = 'lab' in document.documentElement.dataset;

// title names the page in the browser's tab.
export const title = (...parts) => {
  document.title = [...parts.filter(Boolean), t('shop')].join(' · ');
};

function Shell({ Page }) {
  const lang = useLang();
  const user = useUser();
  return html`
    <a class="skip" href="#main">${t('skip')}</a>
    <header class="top">
      <div class="wide">
        <a class="mark" href="/"><span class="seal" aria-hidden="true">秒</span>${t('shop')}</a>
        <nav>
          ${user && html`<a href="/orders.html">${t('orders')}</a>`}
          <${Who} user=${user} />
          <button class="plain" data-test="lang" lang=${lang === 'zh' ? 'en' : 'zh-CN'}
            onClick=${() => choose(lang === 'zh' ? 'en' : 'zh')}>${lang === 'zh' ? 'English' : '中文'}</button>
        </nav>
      </div>
    </header>
    <main id="main" class="wide" tabindex="-1"><${Page} lang=${lang} user=${user} /></main>
    <footer class="wide"><p>${t('foot.1')} ${t('foot.2')}</p>
      ${(inSandbox || user?.role === 'admin') && html`<p><a href="/lab.html" data-test="to-lab">${t('foot.lab')}</a></p>`}</footer>`;
}

function Who({ user }) {
  const away = location.pathname === '/login.html';
  if (user === null) return away ? null : html`<a href=${loginHref()}>${t('login')}</a>`;
  if (!user || user.unsure) return null;
  return html`<span class="nick">${user.nickname || user.phone}</span>
    <button class="plain" data-test="logout" onClick=${logOut}>${t('logout')}</button>`;
}

// Failed is the face of a page that could not be read; it tries again when asked.
export function Failed({ title: head, more, again }) {
  return html`<div class="blank" role="status"><h1>${head}</h1>${more && html`<p>${more}</p>`}
    ${again && html`<button class="button" onClick=${again}>${t('again')}</button>`}
    ${!again && html`<a class="button" href="/">${t('sale.back')}</a>`}</div>`;
}
