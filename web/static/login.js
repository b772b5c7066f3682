// Log in and register, on one page. Both lead back to the page that the visitor came from.
import { html, useEffect, useRef, useState } from './lib/preact.js';
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
const FIELDS = { phone: 'need.phone', password: 'need.otherPassword', nickname: 'need.otherNickname' }; // what a refused one needs
const wantsSum = (reply) => reply.captcha || reply.code === 'wrong_captcha';

function Login({ lang, user }) {
  const [tab, setTab] = useState(query.has('register') ? 'register' : 'login');
  const [form, setForm] = useState({ phone: '', password: '', code: '', nickname: '' });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useState(query.has('logout') ? { code: 'logout_unfinished' } : null);
  const [sending, setSending] = useState(false);
  const [sum, setSum] = useState(null); // {captcha, asText, of} to solve before the form (of 'form') or a code (of 'code') is sent
  const code = useCode();
  const element = useRef();
  useEffect(() => setTitle(t(tab + '.title')), [lang, tab]);

  const names = tab === 'login' ? ['phone', 'password'] : ['phone', 'code', 'password', 'nickname'];
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const isMissing = (name) => (name === 'phone' ? !PHONE.test(digits(form.phone)) : !form[name].trim());
  const showErrors = (found) => {
    setErrors(found);
    focusFirstError(element.current);
  };
  const findsMissing = (among) => {
    const missing = among.filter(isMissing);
    if (missing.length) showErrors(Object.fromEntries(missing.map((name) => [name, t('need.' + name)])));
    return missing.length > 0;
  };
  const show = (to) => { setTab(to); setErrors({}); setNote(null); setSum(null); };

  const drawSum = async (asText, of) => {
    setSending(true);
    setSum({ captcha: null, asText, of });
    const reply = asText ? await get('/api/login/captcha?kind=words') : await getImage('/api/login/captcha?t=' + Date.now());
    setSending(false);
    if (reply.ok) return setSum((old) => old && { captcha: asText ? reply.data.question : reply.data, asText, of }); // null after a change of tabs
    setSum(null);
    setNote(reply);
  };
  // showsField shows a refusal at the field that it names, and returns whether it names one of this page.
  const showsField = ({ field }) => {
    if (FIELDS[field]) showErrors({ [field]: t(FIELDS[field]) });
    return field in FIELDS;
  };

  // drawIfAsked shows a sum if the reply asks for one, and none otherwise: a sum has one try. It returns whether it does.
  const drawIfAsked = (reply, of) => {
    if (!wantsSum(reply)) {
      setSum(null);
      return false;
    }
    setNote(reply.captcha ? { code: 'solve_first' } : reply);
    drawSum(sum?.asText ?? false, of);
    return true;
  };
  useEffect(() => () => sum?.captcha && !sum.asText && URL.revokeObjectURL(sum.captcha), [sum]);

  const submit = (event) => {
    event.preventDefault();
    if (!sending && !findsMissing(names)) send();
  };
  const send = async (captcha) => {
    setSending(true);
    setNote(null);
    const body = Object.fromEntries(names.map((name) => [name, form[name]]));
    const shown = element.current;
    const reply = await post('/api/' + tab, { ...body, phone: digits(form.phone), captcha });
    if (reply.ok) return location.replace(next);
    setSending(false);
    if (element.current !== shown) return undefined; // the visitor has changed tabs
    if (drawIfAsked(reply, 'form')) return undefined;
    if (reply.code === 'wrong_code') return showErrors({ code: errorText(reply) });
    return showsField(reply) || setNote(reply);
  };
  const sendCode = async (captcha) => {
    if (findsMissing(['phone'])) return;
    setSending(true);
    setNote(null);
    const shown = element.current;
    const reply = await code.send(digits(form.phone), captcha);
    setSending(false);
    if (element.current !== shown) return; // the visitor has changed tabs
    if (drawIfAsked(reply, 'code') || showsField(reply)) return;
    if (reply.ok && reply.data.dev_code) put('code')(reply.data.dev_code);
    if (captcha) shown.elements.code.focus(); // the sum, which had the cursor, is gone
  };

  if (user && !user.unsure) {
    return html`<div class="blank">${note && html`<p class="note" role="alert" data-test="note">${errorText(note)}</p>`}<p>${t('already', { name: user.nickname || user.phone })}</p><a class="button" href=${next}>${t('goOn')}</a></div>`;
  }
  const field = (name, label, rest) => html`<${Field} id=${name} label=${label} value=${form[name]} error=${errors[name]} onValue=${put(name)} data-test=${name} ...${rest} />`;
  const tabFor = (name) => html`<button type="button" class="tab" data-test=${'tab-' + name} aria-pressed=${tab === name} onClick=${() => show(name)}>${t(name + '.title')}</button>`;
  return html`
    <div class="sheet narrow">
      <h1 class="hidden">${t(tab + '.title')}</h1>
      <div class="tabs">${tabFor('login')}${tabFor('register')}</div>
      ${next !== '/' && html`<p class="more">${t('login.next')}</p>`}
      <form novalidate onSubmit=${submit} key=${tab} ref=${element}>
        ${field('phone', t('phone'), { type: 'tel', inputmode: 'numeric', autocomplete: 'username', maxlength: 16 })}
        ${tab === 'register' && html`
          ${field('code', t('code'), {
            inputmode: 'numeric', autocomplete: 'one-time-code', maxlength: 8,
            children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${code.seconds > 0} onClick=${() => sendCode()}>
              ${code.seconds > 0 ? t('sendAgain', { n: code.seconds }) : t('sendCode')}</button>`,
          })}
          <p class="tip" role="status" hidden=${!code.note}>${code.note}</p>`}
        ${field('password', t(tab === 'login' ? 'password' : 'password.new'), { type: 'password', autocomplete: tab === 'login' ? 'current-password' : 'new-password', maxlength: 72 })}
        ${tab === 'register' && field('nickname', t('nickname'), { autocomplete: 'nickname', maxlength: 32 })}
        <p class="note" role="alert" data-test="note" hidden=${!note}>${note && errorText(note)}</p>
        <button class="button big" data-test=${'submit-' + tab} disabled=${sending} hidden=${!!sum}>${t('submit.' + tab)}</button>
      </form>
      ${sum && html`<${Captcha} ...${sum} sending=${sending} onDraw=${(asText) => drawSum(asText, sum.of)} onSubmit=${sum.of === 'code' ? sendCode : send} />`}
    </div>`;
}

// useCode sends one-time codes: {seconds until the next one may be sent, note, send(phone, captcha)}. In the sandbox the reply
// has the code.
function useCode() {
  const [seconds, setSeconds] = useState(0);
  const [note, setNote] = useState('');
  useEffect(() => {
    if (seconds <= 0) return undefined;
    const timer = setTimeout(() => setSeconds(seconds - 1), 1000);
    return () => clearTimeout(timer);
  }, [seconds]);
  const send = async (phone, captcha) => {
    setSeconds(60);
    const reply = await post('/api/otp', { phone, captcha });
    if (reply.ok) {
      const { dev_code: code, expires_in: validFor } = reply.data;
      setNote(code ? t('devCode', { code }) : t('codeSent', { n: Math.max(1, Math.round(validFor / 60)) }));
    } else {
      setSeconds(Math.ceil(reply.retryAfter / 1000));
      setNote(wantsSum(reply) || reply.field ? '' : errorText(reply));
    }
    return reply;
  };
  return { seconds, note, send };
}

mount(Login);
