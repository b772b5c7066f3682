// Two buttons that log a visitor in as one of the demo accounts, on the list and on the log-in page.
import { html, useEffect, useState } from '../lib/preact.js';
import { post } from '../api.js';
import { errorText, t } from '../i18n.js';
import { useNote } from '../note.js';
import { localPath } from '../session.js';
import { local } from './local.js';

// The pages that have the buttons above all else, and those at the lower edge, beside the tour, where they move nothing.
export const ABOVE = ['/login.html', '/teach.html'];
export const BELOW = ['/', '/index.html'];
const forStaff = ['/teach.html', '/admin.html'].includes(location.pathname); // shows nothing until the user is known

// The last user is remembered, so that the buttons stand there from the first moment, or never: nothing moves below them.
const KEY = 'miaosha.in';

// closed: the page is for the staff, and its user is a buyer.
export function Start({ user, pages, closed }) {
  const [sending, setSending] = useState(false);
  const [refused, setRefused] = useNote();
  useEffect(() => { if (user !== undefined) remember(user); }, [user]);
  const stranger = closed || user === null || (user === undefined && !forStaff && !remembered());
  if (!stranger || !pages.includes(location.pathname)) return null;

  const logIn = async (as) => {
    setSending(true);
    const reply = await post('/api/sandbox/login', { as });
    if (reply.ok && as === 'admin' && forStaff) return location.reload(); // its address may name a part of it
    if (reply.ok) return location.assign(localPath(new URLSearchParams(location.search).get('next') || '', as === 'admin' ? '/admin.html' : '/'));
    setSending(false);
    return setRefused(reply);
  };
  return html`
    <section class="start" aria-label=${t('start')} data-test="start">
      <p>${t('start.more')}</p>
      <div class="row">
        <button class="button quiet" data-test="as-buyer" disabled=${sending} onClick=${() => logIn('buyer')}>${t('start.buyer')}</button>
        ${local && html`<button class="button quiet" data-test="as-admin" disabled=${sending} onClick=${() => logIn('admin')}>${t('start.admin')}</button>`}
      </div>
      <p class="note" role="alert" hidden=${!refused}>${refused && (refused.code === 'wrong_password' ? t('start.changed') : errorText(refused))}</p>
    </section>`;
}

function remember(user) {
  try {
    if (user) localStorage.setItem(KEY, '1');
    else localStorage.removeItem(KEY);
  } catch {
    // the browser forbids storage
  }
}

function remembered() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return false;
  }
}
