// Log in, register and set a forgotten password by code, on one page. All lead back to the page that the visitor came from.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { post } from './api.js';
import { Captcha } from './captcha.js';
import { noCodes, useCode, useSum } from './code.js';
import { errorsOf, Field, focusFirstError } from './field.js';
import { errorText, t } from './i18n.js';
import { useNote } from './note.js';
import { isLost } from './retry.js';
import { localPath } from './session.js';
import { mount, setTitle } from './shell.js';
import { tidy } from './typed.js';

const query = new URLSearchParams(location.search);
const next = localPath(query.get('next'), '/');
const FIELD_OF = { wrong_code: 'code', phone_taken: 'phone', no_account: 'phone' }; // refusals of one field
const FIELDS = { login: ['phone', 'password'], register: ['phone', 'code', 'password', 'nickname'], forgot: ['phone', 'code', 'password'] };
const ROUTE = { login: '/api/login', register: '/api/register', forgot: '/api/password/reset' };
const MAYBE = { code: 'maybe_done' };

function Login({ lang, user }) {
  const [tab, setTab] = useState(['register', 'forgot'].find((name) => query.has(name)) ?? 'login');
  const [form, setForm] = useState({ phone: '', password: '', code: '', nickname: '' });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useNote(query.has('logout') ? { code: 'logout_unfinished' } : null);
  const [sending, setSending] = useState(false);
  const { sum, drawing, draw, drawIfAsked, drop } = useSum(setNote);
  const code = useCode();
  const element = useRef();
  const lost = useRef(false); // the answer to a former try: a code that it has used up is wrong then
  useEffect(() => setTitle(t(tab + '.title')), [lang, tab]);

  const names = FIELDS[tab];
  const choosing = tab !== 'login'; // a new password
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const showErrors = (found) => {
    setErrors((old) => ({ ...old, ...found })); // an old one goes when its field changes
    focusFirstError(element.current);
  };
  const show = (to) => { setTab(to); setErrors({}); setNote(null); drop(); setForm((f) => ({ ...f, password: '' })); };

  // showsFields shows a refusal at every field that it names, and returns whether it names one of this form.
  const showsFields = (reply) => {
    const found = FIELD_OF[reply.code] ? { [FIELD_OF[reply.code]]: errorText(reply) } : errorsOf(reply, names);
    if (found) showErrors(found);
    return found !== null;
  };

  const submit = (event) => {
    event.preventDefault();
    if (!sending && !drawing) send();
  };
  const send = async (captcha) => {
    setSending(true);
    setNote(null);
    const body = Object.fromEntries(names.map((name) => [name, form[name]]));
    const shown = element.current;
    const reply = await post(ROUTE[tab], { ...body, phone: tidy('phone', form.phone), captcha });
    if (reply.ok) return location.replace(next);
    setSending(false);
    if (element.current !== shown) return undefined; // the visitor has changed tabs
    if (reply.code === 'wrong_password' && /^\s|\s$/.test(form.password)) reply.code = 'blank_password'; // it may be pasted with it
    if (!drawIfAsked(reply, 'form')) setNote(!showsFields(reply) ? { ...reply, after: choosing && isLost(reply) && MAYBE } : lost.current && choosing && FIELD_OF[reply.code] ? MAYBE : null);
    lost.current ||= isLost(reply);
    return undefined;
  };
  const sendCode = async (captcha) => {
    setSending(true);
    setNote(null);
    const shown = element.current;
    const reply = await code.send(tidy('phone', form.phone), captcha);
    setSending(false);
    if (element.current !== shown) return; // the visitor has changed tabs
    if (drawIfAsked(reply, 'code') || showsFields(reply)) return;
    if (reply.ok && reply.data.dev_code) put('code')(reply.data.dev_code);
    if (captcha) shown.elements.code.focus(); // the sum, which had the cursor, is gone
  };

  if (user && !user.unsure) {
    return html`<div class="blank" key="in">${note && html`<p class="note" role="alert" data-test="note">${errorText(note)}</p>`}<p>${t('already', { name: user.nickname || user.phone })}</p><a class="button" href=${next}>${t('goOn')}</a></div>`;
  }
  const field = (name, label, rest) => html`<${Field} id=${name} label=${label} value=${form[name]} rule=${choosing && t('rule.' + name)} error=${errors[name]} onValue=${put(name)} data-test=${name} ...${rest} />`;
  const tabFor = (name) => html`<button type="button" class="tab" data-test=${'tab-' + name} aria-pressed=${tab === name} onClick=${() => show(name)}>${t(name + '.title')}</button>`;
  const codeField = () => html`
    ${field('code', t('code'), {
      kind: 'code', inputmode: 'numeric', autocomplete: 'one-time-code',
      children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${code.seconds > 0} onClick=${() => sendCode()}>
        ${code.seconds > 0 ? t('sendAgain', { n: code.seconds }) : t('sendCode')}</button>`,
    })}
    <p class="tip" role="status" hidden=${!code.note}>${code.note}</p>`;
  return html`
    <div class="sheet narrow">
      <h1 class=${tab === 'forgot' ? '' : 'hidden'}>${t(tab + '.title')}</h1>
      ${tab !== 'forgot' && html`<div class="tabs">${tabFor('login')}${tabFor('register')}</div>`}
      ${choosing && noCodes && html`<p class="tip" data-test="no-codes">${t(tab + '.noCodes')}</p>`}
      ${next !== '/' && html`<p class="more">${t('login.next')}</p>`}
      <form novalidate onSubmit=${submit} key=${tab} ref=${element} hidden=${choosing && noCodes}>
        ${field('phone', t('phone'), { kind: 'phone', type: 'tel', inputmode: 'numeric', autocomplete: 'username' })}
        ${choosing && codeField()}
        ${field('password', t(choosing ? 'password.new' : 'password'), { type: 'password', autocomplete: choosing ? 'new-password' : 'current-password' })}
        ${tab === 'register' && field('nickname', t('nickname'), { autocomplete: 'nickname' })}
        ${tab === 'forgot' && html`<p class="more">${t('forgot.more')}</p>`}
        <p class="note" role="alert" data-test="note" hidden=${!note}>${note && errorText(note)}</p>
        <button class="button big" data-test=${'submit-' + tab} disabled=${sending || drawing} hidden=${!!sum}>${t('submit.' + tab)}</button>
      </form>
      ${sum && html`<${Captcha} ...${sum} sending=${sending || drawing} onDraw=${(asText) => draw(asText, sum.of)} onSubmit=${sum.of === 'code' ? sendCode : send} />`}
      ${tab === 'login' && html`<button type="button" class="plain" data-test="to-forgot" onClick=${() => show('forgot')}>${t('forgot')}</button>`}
      ${tab === 'forgot' && html`<button type="button" class="plain" data-test="tab-login" onClick=${() => show('login')}>${t('forgot.back')}</button>`}
    </div>`;
}

// What was typed here does not come back with the page.
addEventListener('pageshow', (event) => event.persisted && location.reload());

mount(Login);
