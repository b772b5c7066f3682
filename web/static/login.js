// Log in and register, on one page; both lead back to where the visitor came from.
import { html, useEffect, useState } from './lib/preact.js';
import { post } from './api.js';
import { Field, toFirstError } from './field.js';
import { t, why } from './i18n.js';
import { inside } from './session.js';
import { mount, title } from './shell.js';

const asked = new URLSearchParams(location.search);
const next = inside(asked.get('next'), '/');
const PHONE = /^1\d{10}$/;
const digits = (text) => text.replace(/\D/g, '');

function Login({ lang, user }) {
  const [tab, setTab] = useState(asked.has('register') ? 'register' : 'login');
  const [form, setForm] = useState({ phone: '', password: '', code: '', nickname: '' });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useState(null);
  const [sending, setSending] = useState(false);
  useEffect(() => title(t(tab + '.title')), [lang, tab]);

  const wanted = tab === 'login' ? ['phone', 'password'] : ['phone', 'code', 'password', 'nickname'];
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const missing = (name) => (name === 'phone' ? !PHONE.test(digits(form.phone)) : !form[name].trim());
  const complain = (names, box) => {
    setErrors(Object.fromEntries(names.map((name) => [name, t('need.' + name)])));
    toFirstError(box);
  };
  const show = (to) => { setTab(to); setErrors({}); setNote(null); };

  const submit = async (event) => {
    event.preventDefault();
    if (sending) return;
    const box = event.currentTarget;
    const lacking = wanted.filter(missing);
    if (lacking.length) return complain(lacking, box);
    setSending(true);
    setNote(null);
    const body = Object.fromEntries(wanted.map((name) => [name, form[name]]));
    const answer = await post('/api/' + tab, { ...body, phone: digits(form.phone) });
    if (answer.ok) return location.replace(next);
    setSending(false);
    if (answer.code === 'wrong_code') {
      setErrors({ code: why(answer) });
      return toFirstError(box);
    }
    setNote(answer);
  };

  if (user && !user.unsure) {
    return html`<div class="blank"><p>${t('already', { name: user.nickname || user.phone })}</p><a class="button" href=${next}>${t('goOn')}</a></div>`;
  }
  const field = (name, label, rest) => html`<${Field} id=${name} label=${label} value=${form[name]} error=${errors[name]} onValue=${put(name)} data-test=${name} ...${rest} />`;
  const tabFor = (name) => html`<button type="button" class="tab" data-test=${'tab-' + name} aria-pressed=${tab === name} onClick=${() => show(name)}>${t(name + '.title')}</button>`;
  return html`
    <div class="sheet narrow">
      <h1 class="hidden">${t(tab + '.title')}</h1>
      <div class="tabs">${tabFor('login')}${tabFor('register')}</div>
      ${next !== '/' && html`<p class="more">${t('login.next')}</p>`}
      <form novalidate onSubmit=${submit} key=${tab}>
        ${field('phone', t('phone'), { type: 'tel', inputmode: 'numeric', autocomplete: 'username', maxlength: 16 })}
        ${tab === 'register' && html`<${Code} phone=${digits(form.phone)} field=${field} put=${put('code')} complain=${(e) => complain(['phone'], e.target.form)} />`}
        ${field('password', t(tab === 'login' ? 'password' : 'password.new'), { type: 'password', autocomplete: tab === 'login' ? 'current-password' : 'new-password', maxlength: 72 })}
        ${tab === 'register' && field('nickname', t('nickname'), { autocomplete: 'nickname', maxlength: 32 })}
        <p class="note" role="alert" data-test="note" hidden=${!note}>${note && why(note)}</p>
        <button class="button big" data-test=${'submit-' + tab} disabled=${sending}>${t('submit.' + tab)}</button>
      </form>
    </div>`;
}

// Code asks for a one-time code. In the sandbox the shop tells it at once.
function Code({ phone, field, put, complain }) {
  const [rest, setRest] = useState(0); // seconds until it may be asked again
  const [note, setNote] = useState('');
  useEffect(() => {
    if (rest <= 0) return undefined;
    const timer = setTimeout(() => setRest(rest - 1), 1000);
    return () => clearTimeout(timer);
  }, [rest]);
  const send = async (event) => {
    if (!PHONE.test(phone)) return complain(event);
    setRest(60);
    const answer = await post('/api/otp', { phone });
    if (!answer.ok) {
      setRest(Math.ceil(answer.retryAfter / 1000));
      return setNote(why(answer));
    }
    const { dev_code: code, expires_in: seconds } = answer.data;
    if (code) put(code);
    setNote(code ? t('devCode', { code }) : t('codeSent', { n: Math.max(1, Math.round(seconds / 60)) }));
  };
  return html`
    ${field('code', t('code'), {
      inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 8,
      children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${rest > 0} onClick=${send}>${rest > 0 ? t('sendAgain', { n: rest }) : t('sendCode')}</button>`,
    })}
    <p class="tip" role="status" hidden=${!note}>${note}</p>`;
}

mount(Login);
