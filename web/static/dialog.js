// A question with two answers, in the browser's own dialog: it keeps the focus and closes with Escape.
import { html, useLayoutEffect, useRef } from './lib/preact.js';

export function Ask({ head, more, yes, no, onYes, onNo, test }) {
  const box = useRef();
  useLayoutEffect(() => box.current.showModal(), []);
  return html`
    <dialog ref=${box} aria-labelledby="ask" onClose=${onNo}>
      <h2 id="ask">${head}</h2>
      <p>${more}</p>
      <form method="dialog" class="row">
        <button class="button quiet" autofocus>${no}</button>
        <button class="button" data-test=${test} onClick=${(e) => { e.preventDefault(); onYes(); }}>${yes}</button>
      </form>
    </dialog>`;
}
