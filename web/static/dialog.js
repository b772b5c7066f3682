// A question with two answers, in the browser's own dialog. It keeps the focus, and Escape closes it.
import { html, useLayoutEffect, useRef } from './lib/preact.js';

export function Confirm({ title, text, yes, no, onYes, onNo, test }) {
  const dialog = useRef();
  useLayoutEffect(() => dialog.current.showModal(), []);
  return html`
    <dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${onNo}>
      <h2 id="dialog-title">${title}</h2>
      <p>${text}</p>
      <form method="dialog" class="row">
        <button class="button quiet" autofocus>${no}</button>
        <button class="button" data-test=${test} onClick=${(e) => { e.preventDefault(); onYes(); }}>${yes}</button>
      </form>
    </dialog>`;
}
