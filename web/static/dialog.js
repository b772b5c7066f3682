// A question with two answers, in the browser's own dialog. It keeps the focus, and Escape closes it.
import { html, useLayoutEffect, useRef } from './lib/preact.js';

export function Confirm({ title, text, yes, no, onYes, onNo, test }) {
  const dialog = useRef();
  const answered = useRef(false);
  const say = (event) => {
    event.preventDefault();
    if (!answered.current) onYes();
    answered.current = true;
  };
  useLayoutEffect(() => dialog.current.showModal(), []);
  return html`
    <dialog ref=${dialog} aria-labelledby="dialog-title" onClose=${onNo}>
      <h2 id="dialog-title">${title}</h2>
      <p>${text}</p>
      <form method="dialog" class="row">
        <button class="button quiet" autofocus>${no}</button>
        <button class="button" data-test=${test} onClick=${say}>${yes}</button>
      </form>
    </dialog>`;
}
