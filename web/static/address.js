// Where parcels go. Before the payment of an order the form sets the address of the account, which the order then copies; after it
// the order's own, until it is shipped.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { get, post } from './api.js';
import { Confirm } from './dialog.js';
import { Field, errorsOf, focusFirstError } from './field.js';
import { errorText, formatTime, t } from './i18n.js';
import { useNote } from './note.js';

const PARTS = { name: 'name', phone: 'tel', address: 'street-address' }; // and what a browser fills in
const KINDS = { name: 'line', phone: 'contact', address: 'line' };
const EMPTY = { name: '', phone: '', address: '' };
const SAVED = '/api/account/address';

export function Delivery({ order, at, reread }) {
  const [saved, setSaved] = useState(undefined); // null: the account has none
  const [editing, setEditing] = useState(false);
  const read = async () => {
    const reply = await get(SAVED);
    if (reply.ok) setSaved(reply.data);
  };
  useEffect(() => { read(); }, [order.id]);
  const pending = order.status === 'pending';
  const d = order.delivery;
  const known = pending ? saved : d?.address ? d : null;
  const open = pending || (order.status === 'paid' && !d?.shipped_at);
  const changed = () => { setEditing(false); read(); reread(); };
  if ((!open && !known && !d?.shipped_at) || (pending && saved === undefined)) return null;
  return html`
    <section class="delivery" aria-labelledby="delivery">
      <h2 id="delivery">${t('address')}</h2>
      ${d?.shipped_at && html`<p data-test="shipped">${t('address.shipped')} ${formatTime(d.shipped_at, at)} · ${d.carrier} <b class="number" translate="no">${d.tracking}</b></p>`}
      ${known && !editing && html`<p data-test="address" translate="no">${known.name} ${known.phone}<br />${known.address}</p>`}
      ${!known && html`<p class="more" data-test="no-address">${t(open ? 'address.needed' : 'address.none')}</p>`}
      ${open && (editing || !known) && html`<${Form} to=${pending ? SAVED : `/api/orders/${encodeURIComponent(order.id)}/address`} first=${known || saved || EMPTY}
        keep=${!pending && saved === null} onDone=${changed} />`}
      <p class="row">${open && known && !editing && html`<button class="plain" data-test="change-address" onClick=${() => setEditing(true)}>${t('address.change')}</button>`}
        ${(saved || known) && html`<${Erase} onDone=${changed} />`}</p>
      ${(saved || known) && html`<p class="rule">${t('address.eraseMore')}</p>`}
    </section>`;
}

// AccountAddress shows the address of the account, or its form. onEdit(whether) opens and closes the form, onRead() is called after
// each reply.
export function AccountAddress({ editing, onEdit, onRead }) {
  const [saved, setSaved] = useState(undefined); // null: the account has none
  const [failed, setFailed] = useState(null);
  const read = async () => {
    const reply = await get(SAVED);
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setSaved(reply.data);
    onRead();
  };
  useEffect(() => { read(); }, []);
  const changed = () => { onEdit(false); read(); };
  if (failed && saved === undefined) return html`<p class="note" role="alert">${errorText(failed)} <button class="plain" onClick=${read}>${t('again')}</button></p>`;
  if (saved === undefined) return html`<p class="more" role="status">${t('loading')}</p>`;
  if (editing) return html`<${Form} to=${SAVED} first=${saved || EMPTY} onDone=${changed} />`;
  return html`
    ${saved ? html`<p data-test="address" translate="no">${saved.name} ${saved.phone}<br />${saved.address}</p>` : html`<p class="more" data-test="no-address">${t('address.none')}</p>`}
    <p class="row"><button class="button quiet" data-test="change-address" onClick=${() => onEdit(true)}>${t(saved ? 'address.change' : 'address.add')}</button>
      ${saved && html`<${Erase} onDone=${changed} />`}</p>
    ${saved && html`<p class="rule">${t('address.eraseMore')}</p>`}`;
}

// Erase is the button that erases the address of the account and of its orders, after a question. It shows a refusal.
function Erase({ onDone }) {
  const [asking, setAsking] = useState(false);
  const [failed, setFailed] = useNote();
  const erase = async () => {
    setAsking(false);
    const reply = await post(SAVED + '/erase');
    setFailed(reply.ok ? null : reply);
    if (reply.ok) onDone();
  };
  return html`<button class="plain" data-test="erase-address" onClick=${() => setAsking(true)}>${t('address.erase')}</button>
    ${failed && html`<span class="note" role="alert">${errorText(failed)}</span>`}
    ${asking && html`<${Confirm} title=${t('address.eraseAsk')} text=${t('address.eraseMore')} yes=${t('address.eraseYes')} no=${t('address.eraseNo')}
      test="erase-yes" onYes=${erase} onNo=${() => setAsking(false)} />`}`;
}

// Form sends an address to a route; with keep it is also that of the account from now on.
function Form({ to, first, keep, onDone }) {
  const [address, setAddress] = useState({ name: first.name, phone: first.phone, address: first.address });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useNote();
  const [sending, setSending] = useState(false);
  const form = useRef();
  const save = async (e) => {
    e.preventDefault();
    setSending(true);
    const reply = await post(to, address);
    if (reply.ok && keep) await post(SAVED, address);
    setSending(false);
    const wrong = reply.ok ? {} : errorsOf(reply, Object.keys(PARTS)) || {};
    setErrors(wrong);
    setNote(reply.ok || Object.keys(wrong).length ? null : reply);
    if (reply.ok) onDone();
    else focusFirstError(form.current);
  };
  return html`
    <form ref=${form} onSubmit=${save} novalidate>
      ${Object.entries(PARTS).map(([part, fill]) => html`<${Field} key=${part} id=${part} label=${t('address.' + part)} value=${address[part]} autocomplete=${fill}
        type=${part === 'phone' ? 'tel' : 'text'} kind=${KINDS[part]} rule=${part === 'phone' && t('rule.contact')} error=${errors[part]} onValue=${(v) => { setAddress({ ...address, [part]: v }); setErrors({ ...errors, [part]: '' }); }} />`)}
      <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
      <button class="button quiet" data-test="save-address" disabled=${sending}>${t('address.save')}</button>
    </form>`;
}
