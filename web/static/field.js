// One labelled field of a form. Its error stands under it and is read out with it.
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

// toFirstError puts the cursor where the trouble is.
export function toFirstError(form) {
  setTimeout(() => form.querySelector('[aria-invalid="true"]')?.focus());
}
