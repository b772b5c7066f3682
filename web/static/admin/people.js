// The people of the shop: find an account, change its role, disable it.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { now } from '../clock.js';
import { Confirm } from '../dialog.js';
import { errorText, formatTime, t } from '../i18n.js';
import { useKeys } from '../keys.js';
import { useNote } from '../note.js';
import { Failed } from '../shell.js';
import { Filters, More, useList, why } from './list.js';

const ROLES = ['buyer', 'viewer', 'admin'];

export function People({ arg, ...rest }) {
  return /^\d+$/.test(arg) ? html`<${Person} key=${arg} id=${arg} ...${rest} />` : html`<${Found} arg=${arg} may=${rest.may} />`;
}

function Found({ arg, may }) {
  const params = new URLSearchParams(arg);
  const list = useList('/api/admin/users', 'users', params);
  const value = (name) => params.get(name) ?? '';
  const option = (name, v, text) => html`<option value=${v} selected=${v === value(name)}>${text}</option>`;
  return html`
    <${Filters} section="users" params=${params}>
      <label>${t('people.find')}<input name="q" type="search" defaultValue=${value('q')} aria-describedby="people-rule" data-test="people-q" /></label>
      <label>${t('people.role')}<select name="role">${option('role', '', t('list.all'))}${ROLES.map((r) => option('role', r, t('role.' + r)))}</select></label>
      <label>${t('people.state')}<select name="disabled">${option('disabled', '', t('list.all'))}
        ${option('disabled', 'false', t('people.enabled'))}${option('disabled', 'true', t('people.disabled'))}</select></label>
    <//>
    <p class="rule" id="people-rule">${t(may ? 'people.rule' : 'people.ruleViewer')}</p>
    <${Rows} list=${list} />`;
}

function Rows({ list }) {
  if (list.failed && !list.rows) return html`<${Failed} title=${t('admin.failed')} more=${why(list.failed)} onRetry=${list.again} />`;
  if (!list.rows) return html`<p class="blank" role="status">${t('loading')}</p>`;
  if (!list.rows.length) return html`<p class="blank">${t('people.none')}</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${t('admin.users')}><table data-test="people">
      <thead><tr>${['id', 'nickname', 'phone', 'role', 'state', 'since'].map((c) => html`<th scope="col">${t('people.' + c)}</th>`)}</tr></thead>
      <tbody>${list.rows.map((u) => html`<tr key=${u.user_id} data-user=${u.user_id}>
        <td><a href=${'#users/' + u.user_id}>${u.user_id}</a></td><td translate="no">${u.nickname}</td><td>${u.phone}</td><td>${t('role.' + u.role)}</td>
        <td>${t(u.disabled_at ? 'people.disabled' : 'people.enabled')}</td><td>${formatTime(u.created_at, now())}</td></tr>`)}</tbody>
    </table></div>
    <${More} list=${list} />`;
}

function Person({ id, may, user }) {
  const [person, setPerson] = useState(null);
  const [failed, setFailed] = useState(null); // the last read
  const [note, setNote] = useNote();
  const [asked, setAsked] = useState(null); // {path, body, text} of an action that is to be confirmed
  const read = async () => {
    const reply = await get('/api/admin/users/' + id);
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setPerson(reply.data);
  };
  useEffect(() => { read(); }, []);
  const keys = useKeys();
  useEffect(() => { // what they are says whether it was done
    setNote((n) => (n?.unsure ? null : n));
    keys.forget();
  }, [person?.role, person?.disabled_at]);
  const act = async ({ path, body }) => {
    setAsked(null);
    const reply = await keys.send(`/api/admin/users/${id}/${path}`, body);
    setNote(reply.ok ? { code: 'done', msg: t('people.done') } : reply);
    read();
  };
  if (!person) return failed ? html`<${Failed} title=${t('admin.failed')} more=${errorText(failed)} onRetry=${read} />` : html`<p class="blank" role="status">${t('loading')}</p>`;
  const off = person.disabled_at !== null;
  const own = person.user_id === user.user_id;
  const name = person.nickname || person.phone;
  return html`
    <p><a href="#users">${t('people.back')}</a></p>
    <section class="sheet" data-test="person" data-role=${person.role} data-disabled=${String(off)}>
      <h2><span translate="no">${name}</span> <small>(${person.user_id})</small></h2>
      ${failed && html`<p class="note" role="alert">${errorText(failed)} <button class="plain" onClick=${read}>${t('again')}</button></p>`}
      <p role="status">${note && html`<span class="note" data-test="note">${errorText(note)}</span>`}</p>
      <dl class="facts">
        <dt>${t('people.phone')}</dt><dd>${person.phone}</dd>
        <dt>${t('people.role')}</dt><dd>${t('role.' + person.role)}</dd>
        <dt>${t('people.state')}</dt><dd>${off ? t('people.disabledAt', { at: formatTime(person.disabled_at, now()) }) : t('people.enabled')}</dd>
        <dt>${t('people.since')}</dt><dd>${formatTime(person.created_at, now())}</dd>
        <dt>${t('people.orders')}</dt><dd>${Object.entries(person.orders).map(([status, n]) => `${t('status.' + status)} ${n}`).join(' · ') || '0'}</dd>
      </dl>
      ${own && html`<p class="tip">${t('people.own')}</p>`}
      ${may && !own && html`<div class="row">
        ${ROLES.filter((r) => r !== person.role).map((r) => html`<button class="button quiet small" data-test=${'role-' + r}
          onClick=${() => setAsked({ path: 'role', body: { role: r }, text: t('people.askRole', { name, role: t('role.' + r) }) })}>${t('people.make', { role: t('role.' + r) })}</button>`)}
        <button class="button quiet small" data-test="toggle"
          onClick=${() => setAsked({ path: off ? 'enable' : 'disable', text: t(off ? 'people.askEnable' : 'people.askDisable', { name }) })}>${t(off ? 'people.enable' : 'people.disable')}</button>
      </div>`}
      ${person.roles.length > 0 && html`<h3>${t('people.history')}</h3>
        <ul>${person.roles.map((c) => html`<li>${formatTime(c.at, now())}${t('colon')}${t('role.' + c.from)} → ${t('role.' + c.to)}${c.by_user && ` (${c.by_user})`}</li>`)}</ul>`}
      <p><a href=${'#log/subject=user+' + person.user_id}>${t('people.log')}</a></p>
    </section>
    ${asked && html`<${Confirm} title=${t('people.sure')} text=${asked.text} yes=${t('people.yes')} no=${t('people.no')} test="confirm"
      onYes=${() => act(asked)} onNo=${() => setAsked(null)} />`}`;
}
