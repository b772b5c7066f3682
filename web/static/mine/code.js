// A source to read, with the colours of the editor.
import { html } from '../lib/preact.js';
import { linesOf } from './highlight.js';

export const Source = ({ language, source }) => html`<pre class="reads" tabindex="0">${linesOf(language, source.replace(/\n$/, '')).map((parts, i) => html`
  <span class="line" key=${i}>${parts.map(([name, text]) => (name ? html`<span class=${'is-' + name}>${text}</span>` : text))}${'\n'}</span>`)}</pre>`;
