// Forms of the staff: labelled fields with the errors that the shop names, prices in yuan, and times of the browser's zone.
import { html, useRef, useState } from '../lib/preact.js';
import { Field, errorsOf, focusFirstError } from '../field.js';
import { errorText, lang, t } from '../i18n.js';
import { useKeys } from '../keys.js';
import { useNote } from '../note.js';
import { refusal, tidy } from '../typed.js';

// said returns the sentence for a refused request: the shop's, which knows what was refused.
export const said = (reply) => (!reply.unsure && reply.msg) || errorText(reply);

// Look leads to what the first request of a form has made or changed, when a changed second one was refused for that.
const PLACES = { sale: '#sales/', goods: '#goods/', order: '#orders/' };
export const Look = ({ reply: { code, subject = '' } }) => {
  const [kind, id] = subject.split(' ');
  return code === 'done_otherwise' && PLACES[kind] && location.hash !== PLACES[kind] + id && html` <a href=${PLACES[kind] + id}>${t('admin.look')}</a>`;
};

// useForm keeps the values of a form. name is the beginning of its fields' ids. field(name, label, more) returns a
// field of it. send(event, path, body) sends the form, and returns the reply; the form shows what the shop refuses.
// reread is called when the shop has done what the form believed undone. show(values) is set(values) with what the shop has by now.
export function useForm(name, first, reread = () => {}) {
  const [values, setValues] = useState(first);
  const [errors, setErrors] = useState({});
  const [note, setNote] = useNote();
  const keys = useKeys();
  const form = useRef();
  const kinds = useRef({}); // of the fields whose text is read here (typed.js)
  const set = (more) => setValues((v) => ({ ...v, ...more }));
  const show = (stored) => { set(stored); keys.forget(); };
  const field = (key, label, { area, options, ...more } = {}) => {
    const props = { id: `${name}-${key}`, label, value: values[key] ?? '', error: errors[key], onValue: (v) => { set({ [key]: v }); setErrors((old) => ({ ...old, [key]: '' })); }, ...more };
    if (more.kind) kinds.current[key] = more.kind;
    if (options) return html`<${Choice} ...${props} options=${options} />`;
    return area ? html`<${Area} ...${props} />` : html`<${Field} autocomplete="off" ...${props} />`;
  };
  const send = async (event, path, body) => {
    event.preventDefault();
    const unread = Object.entries(kinds.current).map(([key, kind]) => [key, refusal(kind, values[key] ?? '')]).filter(([, why]) => why);
    if (unread.length) {
      setErrors(Object.fromEntries(unread));
      setNote(null);
      focusFirstError(form.current);
      return { ok: false };
    }
    const reply = await keys.send(path, body);
    if (reply.code === 'done_otherwise') reread();
    const wrong = reply.ok ? {} : errorsOf(reply, (reply.fields ?? []).map((f) => f.field)) ?? {};
    const unseen = Object.keys(wrong).filter((key) => !form.current?.querySelector(`[id="${name}-${key}"]`));
    setErrors(wrong);
    setNote(reply.ok || (reply.fields && !unseen.length) ? null : { ...reply, text: unseen.map((key) => wrong[key]).join(' ') });
    if (!reply.ok && form.current) focusFirstError(form.current);
    return reply;
  };
  return { values, set, show, field, send, sending: keys.sending, form, note: note && html`<p class="note" role="alert">${note.text || html`${said(note)}<${Look} reply=${note} />`}</p>` };
}

const Area = ({ id, label, error, onValue, ...rest }) => html`
  <div class="field"><label for=${id}>${label}</label>
    <textarea id=${id} rows="3" aria-invalid=${error ? 'true' : undefined} aria-describedby=${error ? id + '-error' : undefined}
      onInput=${(e) => onValue(e.target.value)} ...${rest}></textarea>
    ${error && html`<p class="error" id=${id + '-error'}>${error}</p>`}</div>`;

const Choice = ({ id, label, error, onValue, value, options, ...rest }) => html`
  <div class="field"><label for=${id}>${label}</label>
    <select id=${id} aria-invalid=${error ? 'true' : undefined} aria-describedby=${error ? id + '-error' : undefined}
      onInput=${(e) => onValue(e.target.value)} ...${rest}>${options.map(([v, text]) => html`<option key=${v} value=${v} selected=${v === value}>${text}</option>`)}</select>
    ${error && html`<p class="error" id=${id + '-error'}>${error}</p>`}</div>`;

// No fields of the type number: these drop what is pasted with a currency, a comma or wide digits.
export const MONEY = { kind: 'price', inputmode: 'decimal' };
export const UNITS = { kind: 'units', inputmode: 'numeric' };
export const TIME = { type: 'datetime-local', step: '1' };

// fen and whole return a number, or undefined for no text: the shop then says that the field is required.
const number = (kind, text) => (tidy(kind, text) === '' ? undefined : Number(tidy(kind, text)));
export const fen = (text) => { const yuan = number('price', text); return yuan === undefined ? yuan : Math.round(yuan * 100); };
export const whole = (text) => number('units', text);

// localTime writes a time as <input type="datetime-local"> has it, and isoTime reads it.
export function localTime(value) {
  const at = new Date(value);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
export function isoTime(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toISOString(); // the shop says what is wrong with a year of six digits
}

// titleOf returns the title of goods in the page's language.
export const titleOf = ({ title, title_en: en }) => (lang() === 'en' && en) || title;

export const zone = () => t('admin.zone', { zone: Intl.DateTimeFormat().resolvedOptions().timeZone });
