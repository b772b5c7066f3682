// The shopkeeper's side. Each section is a module with one component, which gets {arg, lang, user, may}: arg is the rest of the
// URL's hash behind the section's name (#sales/7), as it is there, and may is true for an administrator, false for a viewer.
import { html, useEffect, useLayoutEffect, useState } from '../lib/preact.js';
import { loadTexts, t } from '../i18n.js';
import { loginHref } from '../session.js';
import { lateStyle } from '../late_style.js';
import { load } from '../lost.js';
import { Loading, mount, sandbox, setTitle, STAFF } from '../shell.js';
import { NewPassword } from './password.js';
import { Sales } from './sales.js';

await loadTexts(
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('./words/sales_zh.js'), en: () => import('./words/sales_en.js') },
  { zh: () => import('./words/orders_zh.js'), en: () => import('./words/orders_en.js') },
  { zh: () => import('./words/payments_zh.js'), en: () => import('./words/payments_en.js') },
  { zh: () => import('./words/ticket_zh.js'), en: () => import('./words/ticket_en.js') },
);

// Sections are loaded when they are opened, except the first one.
const SECTIONS = {
  sales: async () => Sales,
  orders: async () => (await import('./orders.js')).Orders,
  payments: async () => (await import('./payments.js')).Payments,
  goods: async () => (await import('./goods.js')).Goods,
  users: async () => (await import('./people.js')).People,
  ticket: async () => (await import('./ticket.js')).Ticket,
  live: async () => (await Promise.all([import('./live.js'), lateStyle(new URL('live.css', import.meta.url).href)]))[0].Live,
  log: async () => (await import('./log.js')).Log,
};
const FIRST = Object.keys(SECTIONS)[0];
const loaded = { [FIRST]: Sales };

function Admin({ lang, user }) {
  const [section, arg] = useSection();
  useEffect(() => setTitle(t('admin.' + section), t('admin')), [lang, section]);
  if (user === undefined) return html`<${Loading} />`;
  if (user === null) return html`<div class="blank"><h1>${t('admin.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  const isStaff = user.unsure || STAFF.includes(user.role);
  if (!isStaff && section === 'ticket' && arg && 'lab' in document.documentElement.dataset) { // a buyer of the sandbox
    return html`<h1 class="hidden">${t('admin.ticket')}</h1><${Section} key=${section} name=${section} arg=${arg} lang=${lang} user=${user} />`;
  }
  if (!isStaff) {
    return html`<div class="blank" data-test="not-staff"><h1>${t('admin.closed')}</h1><a class="button" href="/">${t('sale.back')}</a></div>
      ${document.documentElement.dataset.lab === 'local' && sandbox && html`<${sandbox.Start} user=${user} pages=${['/admin.html']} closed />`}`;
  }
  if (user.password_due) return html`<${NewPassword} />`;
  return html`
    <h1 class="hidden">${t('admin')}</h1>
    <nav class="parts" aria-label=${t('admin.parts')}>${Object.keys(SECTIONS).map((s) => html`
      <a key=${s} href=${'#' + s} data-test=${'section-' + s} aria-current=${s === section ? 'page' : undefined}>${t('admin.' + s)}</a>`)}</nav>
    ${user.role === 'viewer' && html`<p class="tip">${t('admin.viewer')}</p>`}
    <${Section} key=${section} name=${section} arg=${arg} lang=${lang} user=${user} may=${user.role === 'admin'} />`;
}

// Section shows a section by its name.
function Section({ name, ...props }) {
  const [text, setText] = useState('loading');
  useEffect(() => {
    if (!loaded[name]) load(SECTIONS[name]).then((section) => { loaded[name] = section; setText(section ? '' : 'admin.failed'); });
  }, []);
  const Loaded = loaded[name];
  return Loaded ? html`<${Loaded} ...${props} />` : html`<p class="blank" role="status">${t(text)}</p>`;
}

// useSection returns the section that the URL names, and the rest of the hash.
function useSection() {
  const [hash, setHash] = useState(location.hash);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onHash = () => setHash(location.hash);
    addEventListener('hashchange', onHash);
    return () => removeEventListener('hashchange', onHash);
  }, []);
  const [, name, arg] = /^#([a-z]+)[/=]?(.*)$/.exec(hash) || [];
  return SECTIONS[name] ? [name, arg] : [FIRST, ''];
}

mount(Admin);
