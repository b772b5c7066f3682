// Log in and register, on one page. Both lead back to the page that the visitor came from.
import { html, useEffect, useState } from './lib/preact.js';
import { get, getImage, post } from './api.js';
import { Captcha } from './captcha.js';
import { Field, focusFirstError } from './field.js';
import { errorText, t } from './i18n.js';
import { localPath } from './session.js';
import { mount, setTitle } from './shell.js';

const query = new URLSearchParams(location.search);
const next = localPath(query.get('next'), '/');
const PHONE = /^1\d{10}$/;
const digits = (text) => text.replace(/\D/g, '');

function Login({ lang, user }) {
  const [tab, setTab] = useState(query.has('register') ? 'register' : 'login');
  const [form, setForm] = useState({ phone: '', password: '', code: '', nickname: '' });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useState(null);
  const [sending, setSending] = useState(false);
  const [sum, setSum] = useState(null); // {captcha, asText} to solve before the log-in, when its door is full
  useEffect(() => setTitle(t(tab + '.title')), [lang, tab]);

  const names = tab === 'login' ? ['phone', 'password'] : ['phone', 'code', 'password', 'nickname'];
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const isMissing = (name) => (name === 'phone' ? !PHONE.test(digits(form.phone)) : !form[name].trim());
  const showMissing = (missing, element) => {
    setErrors(Object.fromEntries(missing.map((name) => [name, t('need.' + name)])));
    focusFirstError(element);
  };
  const show = (to) => { setTab(to); setErrors({}); setNote(null); setSum(null); };

  const drawSum = async (asText) => {
    setSending(true);
    setSum({ captcha: null, asText });
    const reply = asText ? await get('/api/login/captcha?kind=words') : await getImage('/api/login/captcha?t=' + Date.now());
    setSending(false);
    if (reply.ok) return setSum({ captcha: asText ? reply.data.question : reply.data, asText });
    setSum(null);
    setNote(reply);
  };
  useEffect(() => () => sum?.captcha && !sum.asText && URL.revokeObjectURL(sum.captcha), [sum]);

  const submit = (event) => {
    event.preventDefault();
    if (sending) return undefined;
    const element = event.currentTarget;
    const missing = names.filter(isMissing);
    return missing.length ? showMissing(missing, element) : send(element);
  };
  const send = async (element, captcha) => {
    setSending(true);
    setNote(null);
    const body = Object.fromEntries(names.map((name) => [name, form[name]]));
    const reply = await post('/api/' + tab, { ...body, phone: digits(form.phone), captcha });
    if (reply.ok) return location.replace(next);
    setSending(false);
    if (reply.code === 'wrong_code') {
      setErrors({ code: errorText(reply) });
      return focusFirstError(element);
    }
    if (reply.field === 'nickname') {
      setErrors({ nickname: t('need.otherNickname') });
      return focusFirstError(element);
    }
    setNote(reply.captcha ? { code: 'solve_first' } : reply);
    if (reply.captcha || (reply.code === 'wrong_captcha' && sum)) return drawSum(sum?.asText ?? false);
    return setSum(null); // a sum has one try
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
        ${tab === 'register' && html`<${Code} phone=${digits(form.phone)} field=${field} put=${put('code')} onMissingPhone=${(e) => showMissing(['phone'], e.target.form)} />`}
        ${field('password', t(tab === 'login' ? 'password' : 'password.new'), { type: 'password', autocomplete: tab === 'login' ? 'current-password' : 'new-password', maxlength: 72 })}
        ${tab === 'register' && field('nickname', t('nickname'), { autocomplete: 'nickname', maxlength: 32 })}
        <p class="note" role="alert" data-test="note" hidden=${!note}>${note && errorText(note)}</p>
        <button class="button big" data-test=${'submit-' + tab} disabled=${sending} hidden=${!!sum}>${t('submit.' + tab)}</button>
      </form>
      ${sum && html`<${Captcha} ...${sum} sending=${sending} onDraw=${drawSum} onSubmit=${(answer) => send(null, answer)} />`}
    </div>`;
}

// Code requests a one-time code. In the sandbox the reply contains the code.
function Code({ phone, field, put, onMissingPhone }) {
  const [seconds, setSeconds] = useState(0); // seconds until the next request
  const [note, setNote] = useState('');
  useEffect(() => {
    if (seconds <= 0) return undefined;
    const timer = setTimeout(() => setSeconds(seconds - 1), 1000);
    return () => clearTimeout(timer);
  }, [seconds]);
  const send = async (event) => {
    if (!PHONE.test(phone)) return onMissingPhone(event);
    setSeconds(60);
    const reply = await post('/api/otp', { phone });
    if (!reply.ok) {
      setSeconds(Math.ceil(reply.retryAfter / 1000));
      return setNote(errorText(reply));
    }
    const { dev_code: code, expires_in: validFor } = reply.data;
    if (code) put(code);
    setNote(code ? t('devCode', { code }) : t('codeSent', { n: Math.max(1, Math.round(validFor / 60)) }));
  };
  return html`
    ${field('code', t('code'), {
      inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 8,
      children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${seconds > 0} onClick=${send}>${seconds > 0 ? t('sendAgain', { n: seconds }) : t('sendCode')}</button>`,
    })}
    <p class="tip" role="status" hidden=${!note}>${note}</p>`;
}

mount(Login);
