// The shopkeeper's side. Each section is a module with one component, which gets {arg, lang, user, may}: arg is the rest of the
// URL's hash behind the section's name (#sales/7), as it is there, and may is true for an administrator, false for a viewer.
import { html, useEffect, useState } from '../lib/preact.js';
import { loadTexts, t } from '../i18n.js';
import { loginHref } from '../session.js';
import { Loading, mount, setTitle, STAFF } from '../shell.js';
import { Goods } from './goods.js';
import { Live } from './live.js';
import { Log } from './log.js';
import { NewPassword } from './password.js';
import { Orders } from './orders.js';
import { Payments } from './payments.js';
import { People } from './people.js';
import { Sales } from './sales.js';
import { Ticket } from './ticket.js';

await loadTexts(
  { zh: () => import('./words/zh.js'), en: () => import('./words/en.js') },
  { zh: () => import('./words/sales_zh.js'), en: () => import('./words/sales_en.js') },
  { zh: () => import('./words/orders_zh.js'), en: () => import('./words/orders_en.js') },
  { zh: () => import('./words/payments_zh.js'), en: () => import('./words/payments_en.js') },
  { zh: () => import('./words/ticket_zh.js'), en: () => import('./words/ticket_en.js') },
);

const SECTIONS = { sales: Sales, orders: Orders, payments: Payments, goods: Goods, users: People, ticket: Ticket, live: Live, log: Log };
const FIRST = Object.keys(SECTIONS)[0];

function Admin({ lang, user }) {
  const [section, arg] = useSection();
  useEffect(() => setTitle(t('admin.' + section), t('admin')), [lang, section]);
  if (user === undefined) return html`<${Loading} />`;
  if (user === null) return html`<div class="blank"><h1>${t('admin.login')}</h1><a class="button" href=${loginHref()}>${t('login')}</a></div>`;
  const isStaff = user.unsure || STAFF.includes(user.role);
  if (!isStaff && section === 'ticket' && arg && 'lab' in document.documentElement.dataset) { // a buyer of the sandbox
    return html`<h1 class="hidden">${t('admin.ticket')}</h1><${Ticket} arg=${arg} lang=${lang} user=${user} />`;
  }
  if (!isStaff) {
    return html`<div class="blank" data-test="not-staff"><h1>${t('admin.closed')}</h1><a class="button" href="/">${t('sale.back')}</a></div>`;
  }
  if (user.password_due) return html`<${NewPassword} />`;
  const Section = SECTIONS[section];
  return html`
    <h1 class="hidden">${t('admin')}</h1>
    <nav class="parts" aria-label=${t('admin.parts')}>${Object.keys(SECTIONS).map((s) => html`
      <a key=${s} href=${'#' + s} data-test=${'section-' + s} aria-current=${s === section ? 'page' : undefined}>${t('admin.' + s)}</a>`)}</nav>
    ${user.role === 'viewer' && html`<p class="tip">${t('admin.viewer')}</p>`}
    <${Section} key=${section} arg=${arg} lang=${lang} user=${user} may=${user.role === 'admin'} />`;
}

// useSection returns the section that the URL names, and the rest of the hash.
function useSection() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const onHash = () => setHash(location.hash);
    addEventListener('hashchange', onHash);
    return () => removeEventListener('hashchange', onHash);
  }, []);
  const [, name, arg] = /^#([a-z]+)[/=]?(.*)$/.exec(hash) || [];
  return SECTIONS[name] ? [name, arg] : [FIRST, ''];
}

mount(Admin);
