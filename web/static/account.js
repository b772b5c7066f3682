// The user's account: nickname, phone, password, delivery address, and the devices on which they are logged in.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { AccountAddress } from './address.js';
import { post } from './api.js';
import { Captcha } from './captcha.js';
import { noCodes, useCode, useSum } from './code.js';
import { Field, errorsOf, focusFirstError } from './field.js';
import { errorText, t } from './i18n.js';
import { useNote } from './note.js';
import { isLost } from './retry.js';
import { Sessions } from './sessions.js';
import { readUser } from './session.js';
import { Loading, LoginFirst, mount, setTitle } from './shell.js';
import { tidy } from './typed.js';

function Account({ lang, user }) {
  const [open, setOpen] = useState(location.hash.slice(1)); // the form that is open, one at a time
  const [done, setDone] = useState('');
  const [ready, setReady] = useState(false); // the address is here, or late: what is below it stays where it is
  useEffect(() => { const timer = setTimeout(() => setReady(true), 1000); return () => clearTimeout(timer); }, []);
  useEffect(() => setTitle(t('account.title')), [lang]);
  if (user === null) return html`<${LoginFirst} />`;
  if (!user) return html`<${Loading} />`;
  const show = (name) => { setOpen(name); setDone(''); };
  const finish = (name) => { setOpen(''); setDone(name); readUser(); };
  const part = (name, value, Form) => html`
    <section aria-labelledby=${'head-' + name}>
      <div class="line"><h2 id=${'head-' + name}>${t(name)}</h2>${value && html`<span data-test=${'my-' + name} translate="no">${value}</span>`}
        ${open !== name && html`<button class="button quiet" data-test=${'change-' + name} aria-label=${t('account.' + name)} onClick=${() => show(name)}>${t('account.change')}</button>`}</div>
      ${done === name && html`<p class="tip" role="status" data-test="done">${t('account.done.' + name)}</p>`}
      ${open === name && html`<${Form} user=${user} onDone=${() => finish(name)} onCancel=${() => show('')} />`}
    </section>`;
  return html`
    <article class="sheet account">
      <h1>${t('account.title')}</h1>
      ${part('nickname', user.nickname, Nickname)}
      ${part('phone', user.phone, Phone)}
      ${part('password', '', Password)}
      <section aria-labelledby="head-address" id="parcels"><h2 id="head-address">${t('address.mine')}</h2>
        <${AccountAddress} editing=${open === 'parcels'} onEdit=${(on) => show(on ? 'parcels' : '')} onRead=${() => setReady(true)} /></section>
      <${Sessions} hidden=${!ready} />
    </article>`;
}

// useForm keeps the fields of a form and sends them. fieldOf has the refusals of one field.
const MAYBE = { code: 'maybe_done' };
const FIELD_OF = { wrong_code: 'code', phone_taken: 'phone', wrong_password: 'password' };
function useForm(route, empty, onDone, fieldOf = FIELD_OF) {
  const [form, setForm] = useState(empty);
  const [errors, setErrors] = useState({});
  const [note, setNote] = useNote();
  const [sending, setSending] = useState(false);
  const element = useRef();
  const isOnce = Object.values(fieldOf).some((name) => name in empty); // what is sent is wrong the second time
  const lost = useRef(false); // the answer to a former try: a password or a code that it has used up is wrong then
  useEffect(() => element.current.querySelector('input').focus(), []);
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const showsFields = (reply) => {
    const name = fieldOf[reply.code];
    const found = name in empty ? { [name]: t('account.' + reply.code) } : errorsOf(reply, Object.keys(empty));
    if (found) setErrors((old) => ({ ...old, ...found }));
    if (found) focusFirstError(element.current);
    return found !== null;
  };
  const send = async (more, drawIfAsked = () => false) => {
    if (sending) return;
    setSending(true);
    setNote(null);
    const reply = await post(route, { ...form, ...more });
    setSending(false);
    if (reply.ok) return onDone();
    if (!drawIfAsked(reply, 'form')) setNote(!showsFields(reply) ? { ...reply, after: isOnce && isLost(reply) && MAYBE } : lost.current && fieldOf[reply.code] ? MAYBE : null);
    lost.current ||= isLost(reply);
  };
  const field = (name, label, rest) => html`<${Field} id=${name} label=${label} value=${form[name]} error=${errors[name]} onValue=${put(name)} data-test=${name} ...${rest} />`;
  return { form, put, note, setNote, sending, setSending, element, showsFields, send, field };
}

const Buttons = ({ name, sending, onCancel }) => html`
  <p class="row"><button class="button" data-test=${'save-' + name} disabled=${sending}>${t('account.save')}</button>
    <button type="button" class="plain" onClick=${onCancel}>${t('account.cancel')}</button></p>`;
const Note = ({ note }) => html`<p class="note" role="alert" data-test="note" hidden=${!note}>${note && errorText(note)}</p>`;
const submits = (send) => (event) => { event.preventDefault(); send(); };

function Nickname({ user, onDone, onCancel }) {
  const { element, field, note, send, sending } = useForm('/api/account/nickname', { nickname: user.nickname }, onDone);
  return html`
    <form novalidate ref=${element} onSubmit=${submits(send)}>
      ${field('nickname', t('nickname'), { autocomplete: 'nickname', rule: t('rule.nickname') })}
      <${Note} note=${note} /><${Buttons} name="nickname" sending=${sending} onCancel=${onCancel} />
    </form>`;
}

function Password({ onDone, onCancel }) {
  const { element, field, note, send, sending } = useForm('/api/password', { old: '', new: '' }, onDone, { wrong_password: 'old' });
  return html`
    <form novalidate ref=${element} onSubmit=${submits(send)}>
      ${field('old', t('account.old'), { type: 'password', autocomplete: 'current-password' })}
      ${field('new', t('account.new'), { type: 'password', autocomplete: 'new-password', rule: t('rule.password') })}
      <p class="more">${t('account.passwordMore')}</p>
      <${Note} note=${note} /><${Buttons} name="password" sending=${sending} onCancel=${onCancel} />
    </form>`;
}

function Phone({ onDone, onCancel }) {
  const { element, field, form, note, put, send, sending, setNote, setSending, showsFields } =
    useForm('/api/account/phone', { phone: '', code: '', password: '' }, onDone);
  const { sum, drawing, draw, drawIfAsked } = useSum(setNote);
  const code = useCode();
  const sendCode = async (captcha) => {
    setSending(true);
    setNote(null);
    const reply = await code.send(tidy('phone', form.phone), captcha);
    setSending(false);
    if (drawIfAsked(reply, 'code') || showsFields(reply)) return;
    if (reply.ok && reply.data.dev_code) put('code')(reply.data.dev_code);
  };
  const save = (captcha) => send({ phone: tidy('phone', form.phone), captcha }, drawIfAsked);
  return html`
    ${noCodes && html`<p class="tip">${t('account.noCodes')}</p>`}
    <form novalidate ref=${element} onSubmit=${submits(() => save())} hidden=${noCodes}>
      ${field('phone', t('account.newPhone'), { kind: 'phone', type: 'tel', inputmode: 'numeric', autocomplete: 'tel', rule: t('rule.phone') })}
      ${field('code', t('code'), {
        kind: 'code', inputmode: 'numeric', autocomplete: 'one-time-code',
        children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${code.seconds > 0} onClick=${() => sendCode()}>
          ${code.seconds > 0 ? t('sendAgain', { n: code.seconds }) : t('sendCode')}</button>`,
      })}
      <p class="tip" role="status" hidden=${!code.note}>${code.note}</p>
      ${field('password', t('password'), { type: 'password', autocomplete: 'current-password' })}
      <${Note} note=${note} /><${Buttons} name="phone" sending=${sending || drawing || !!sum} onCancel=${onCancel} />
    </form>
    ${sum && html`<${Captcha} ...${sum} sending=${sending || drawing} onDraw=${(asText) => draw(asText, sum.of)} onSubmit=${sum.of === 'code' ? sendCode : save} />`}`;
}

mount(Account);
