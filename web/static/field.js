// One labelled field of a form, with its rule and its error below it. A screen reader reads both together with the field.
import { html } from './lib/preact.js';
import { tidy } from './typed.js';

// putter returns the handlers of a field of a kind (typed.js): what is pasted or filled in at once, and what is in the field when it
// is left, is shown as the shop will store it. A text that is being typed stays as it is, and so does a line until it is left: words
// are put into it one by one, by a keyboard that suggests them, and at the cursor.
export function putter(kind, onValue) {
  if (!kind) return { onInput: (e) => onValue(e.target.value) };
  const put = (e) => {
    const value = tidy(kind, e.target.value);
    if (value !== e.target.value) {
      const at = Math.max(0, value.length - (e.target.value.length - e.target.selectionEnd));
      e.target.value = value;
      if (e.target === document.activeElement) e.target.setSelectionRange(at, at); // the cursor stays where it was in the text
    }
    onValue(value);
  };
  const typing = ({ inputType }) => kind === 'line' || (inputType && !/^insert(FromPaste|FromDrop|ReplacementText)/.test(inputType));
  return { onInput: (e) => (typing(e) ? onValue(e.target.value) : put(e)), onBlur: (e) => tidy(kind, e.target.value) !== e.target.value && put(e) };
}

export function Field({ id, label, rule, error, kind, onValue, children, ...rest }) {
  const described = [rule && id + '-rule', error && id + '-error'].filter(Boolean).join(' ');
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <div class="row"><input id=${id} name=${id} aria-invalid=${error ? 'true' : undefined} aria-describedby=${described || undefined}
        ...${putter(kind, onValue)} ...${rest} />${children}</div>
      ${error && html`<p class="error" id=${id + '-error'}>${error}</p>`}
      ${rule && html`<p class="rule" id=${id + '-rule'}>${rule}</p>`}
    </div>`;
}

// errorsOf returns the errors of a refused form by field, as the shop says them: the rules are the shop's alone. It is null if
// the reply names none of these fields.
export function errorsOf(reply, names) {
  const wrong = (reply.fields ?? []).filter(({ field }) => names.includes(field));
  return wrong.length ? Object.fromEntries(wrong.map(({ field, msg }) => [field, msg])) : null;
}

// focusFirstError puts the cursor into the first field that has an error.
export function focusFirstError(form) {
  setTimeout(() => form.querySelector('[aria-invalid="true"]')?.focus());
}
