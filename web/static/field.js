// One labelled field of a form. A screen reader reads the error below the field together with it.
import { html } from './lib/preact.js';

export function Field({ id, label, error, onValue, children, ...rest }) {
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <div class="row"><input id=${id} name=${id} aria-invalid=${error ? 'true' : undefined} aria-describedby=${error ? id + '-error' : undefined}
        onInput=${(e) => onValue(e.target.value)} ...${rest} />${children}</div>
      ${error && html`<p class="error" id=${id + '-error'}>${error}</p>`}
    </div>`;
}

// focusFirstError puts the cursor into the first field that has an error.
export function focusFirstError(form) {
  setTimeout(() => form.querySelector('[aria-invalid="true"]')?.focus());
}
