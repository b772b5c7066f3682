// The editor is a plain text field, so undo, input methods and screen readers work as everywhere. The coloured text lies behind it and
// the line numbers beside it; both follow when the field scrolls.
import { html, useEffect, useLayoutEffect, useRef } from '../lib/preact.js';
import { t } from '../i18n.js';
import { linesOf } from './highlight.js';

const INDENT = '  ';

// insert replaces the selection as if it were typed, so that undo knows it.
function insert(field, text) {
  if (document.execCommand('insertText', false, text)) return;
  field.setRangeText(text, field.selectionStart, field.selectionEnd, 'end');
  field.dispatchEvent(new Event('input', { bubbles: true }));
}

const startOfLine = (text, at) => text.lastIndexOf('\n', at - 1) + 1;

// shift moves the selected lines to the right, or to the left if back.
function shift(field, back) {
  const { value, selectionStart, selectionEnd } = field;
  const from = startOfLine(value, selectionStart);
  const before = value.slice(from, selectionEnd);
  const after = before.replace(back ? /^ {1,2}/gm : /^/gm, back ? '' : INDENT);
  if (after === before) return;
  field.setSelectionRange(from, selectionEnd);
  insert(field, after);
  field.setSelectionRange(from, from + after.length);
}

// Editor shows a source. marks are kinds by line: 'now' or 'error'. goTo is {line}: each new one moves the cursor there.
export function Editor({ language, source, onInput, onRun, marks = {}, goTo, label }) {
  const field = useRef(), paint = useRef(), gutter = useRef();
  const leaving = useRef(false); // after Escape the tab key leaves the field
  const lines = linesOf(language, source);
  const follow = () => {
    paint.current.scrollTop = gutter.current.scrollTop = field.current.scrollTop;
    paint.current.scrollLeft = field.current.scrollLeft;
  };
  useLayoutEffect(follow);
  useEffect(() => {
    if (!goTo) return;
    const at = source.split('\n').slice(0, goTo.line - 1).join('\n').length + (goTo.line > 1 ? 1 : 0);
    const end = source.indexOf('\n', at);
    field.current.focus();
    field.current.setSelectionRange(at, end < 0 ? source.length : end);
    field.current.scrollTop = Math.max(0, (goTo.line - 4) * parseFloat(getComputedStyle(field.current).lineHeight));
    follow();
  }, [goTo]);
  const onKey = (event) => {
    const { key, ctrlKey, metaKey, shiftKey, altKey, isComposing } = event;
    const f = field.current;
    if (isComposing) return;
    if (key === 'Enter' && (ctrlKey || metaKey)) {
      event.preventDefault();
      onRun();
    } else if (key === 'Escape') {
      leaving.current = true;
    } else if (key === 'Tab' && !leaving.current && !ctrlKey && !altKey) {
      event.preventDefault();
      if (shiftKey || f.value.slice(f.selectionStart, f.selectionEnd).includes('\n')) shift(f, shiftKey);
      else insert(f, INDENT);
    } else if (key === 'Enter' && !shiftKey && !altKey) {
      event.preventDefault();
      const line = f.value.slice(startOfLine(f.value, f.selectionStart), f.selectionStart);
      insert(f, '\n' + line.match(/^ */)[0] + (language === 'lua' && /\b(then|do|else|repeat)\s*$|\bfunction\b.*\)\s*$/.test(line) ? INDENT : ''));
      f.scrollLeft = 0; // after a long line a browser scrolls back only as far as the cursor, and cuts the start of each line
    } else if (!['Shift', 'Tab', 'Control', 'Alt', 'Meta'].includes(key)) {
      leaving.current = false;
    }
  };
  return html`<div class="editor" data-test="editor" data-language=${language}>
    <div class="gutter" ref=${gutter} aria-hidden="true"><ol>${lines.map((_, i) => html`<li key=${i} data-mark=${marks[i + 1]}>${i + 1}</li>`)}</ol></div>
    <div class="writes">
      <pre class="paint" ref=${paint} aria-hidden="true">${lines.map((parts, i) => html`<span class="line" key=${i} data-mark=${marks[i + 1]}>${parts.map(([name, text]) => (name
        ? html`<span class=${'is-' + name}>${text}</span>` : text))}${'\n'}</span>`)}</pre>
      <textarea ref=${field} data-test="source" aria-label=${label} aria-describedby="editor-keys" wrap="off" spellcheck=${false} autocapitalize="off" autocomplete="off"
        value=${source} onInput=${(e) => onInput(e.currentTarget.value)} onScroll=${follow} onKeyDown=${onKey} onBlur=${() => { leaving.current = false; }}></textarea>
    </div>
    <p class="more small keys" id="editor-keys">${t('editor.keys')}</p>
  </div>`;
}
