// Log in and register, on one page. Both lead back to the page that the visitor came from.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { get, getImage, post } from './api.js';
import { Captcha } from './captcha.js';
import { errorsOf, Field, focusFirstError } from './field.js';
import { errorText, t } from './i18n.js';
import { localPath } from './session.js';
import { mount, setTitle } from './shell.js';

const query = new URLSearchParams(location.search);
const next = localPath(query.get('next'), '/');
const digits = (text) => text.replace(/\D/g, '');
const FIELD_OF = { wrong_code: 'code', phone_taken: 'phone' }; // refusals of one field
const wantsSum = (reply) => reply.captcha || reply.code === 'wrong_captcha' || reply.code === 'stale_captcha';

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
  const showErrors = (found) => {
    setErrors((old) => ({ ...old, ...found })); // an old one goes when its field changes
    focusFirstError(element.current);
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
  // showsFields shows a refusal at every field that it names, and returns whether it names one of this form.
  const showsFields = (reply) => {
    const found = FIELD_OF[reply.code] ? { [FIELD_OF[reply.code]]: errorText(reply) } : errorsOf(reply, names);
    if (found) showErrors(found);
    return found !== null;
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
    if (!sending) send();
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
    return drawIfAsked(reply, 'form') || showsFields(reply) || setNote(reply);
  };
  const sendCode = async (captcha) => {
    setSending(true);
    setNote(null);
    const shown = element.current;
    const reply = await code.send(digits(form.phone), captcha);
    setSending(false);
    if (element.current !== shown) return; // the visitor has changed tabs
    if (drawIfAsked(reply, 'code') || showsFields(reply)) return;
    if (reply.ok && reply.data.dev_code) put('code')(reply.data.dev_code);
    if (captcha) shown.elements.code.focus(); // the sum, which had the cursor, is gone
  };

  if (user && !user.unsure) {
    return html`<div class="blank">${note && html`<p class="note" role="alert" data-test="note">${errorText(note)}</p>`}<p>${t('already', { name: user.nickname || user.phone })}</p><a class="button" href=${next}>${t('goOn')}</a></div>`;
  }
  const field = (name, label, rest) => html`<${Field} id=${name} label=${label} value=${form[name]} rule=${tab === 'register' && t('rule.' + name)} error=${errors[name]} onValue=${put(name)} data-test=${name} ...${rest} />`;
  const tabFor = (name) => html`<button type="button" class="tab" data-test=${'tab-' + name} aria-pressed=${tab === name} onClick=${() => show(name)}>${t(name + '.title')}</button>`;
  return html`
    <div class="sheet narrow">
      <h1 class="hidden">${t(tab + '.title')}</h1>
      <div class="tabs">${tabFor('login')}${tabFor('register')}</div>
      ${next !== '/' && html`<p class="more">${t('login.next')}</p>`}
      <form novalidate onSubmit=${submit} key=${tab} ref=${element}>
        ${field('phone', t('phone'), { type: 'tel', inputmode: 'numeric', autocomplete: 'username' })}
        ${tab === 'register' && html`
          ${field('code', t('code'), {
            inputmode: 'numeric', autocomplete: 'one-time-code',
            children: html`<button type="button" class="button quiet" data-test="send-code" disabled=${code.seconds > 0} onClick=${() => sendCode()}>
              ${code.seconds > 0 ? t('sendAgain', { n: code.seconds }) : t('sendCode')}</button>`,
          })}
          <p class="tip" role="status" hidden=${!code.note}>${code.note}</p>`}
        ${field('password', t(tab === 'login' ? 'password' : 'password.new'), { type: 'password', autocomplete: tab === 'login' ? 'current-password' : 'new-password' })}
        ${tab === 'register' && field('nickname', t('nickname'), { autocomplete: 'nickname' })}
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
      setNote(wantsSum(reply) || reply.fields ? '' : errorText(reply));
    }
    return reply;
  };
  return { seconds, note, send };
}

mount(Login);
