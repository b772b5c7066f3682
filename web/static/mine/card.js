// The reference card: all that a program may call, beside the editor.
import { html, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { withCode } from '../lab/result.js';

const LUA = ['buy(user)', 'prepare()', 'start()', 'cancel(user)', 'sql(text, ...)', 'tx(f)', 'tx("serializable", f)', 'redis("DECR", key)', 'eval(script, {keys}, {args})',
  'key("name")', 'think()', 'promise()', 'lock("name", f)', 'later(f)', 'print(...)', 'pcall(f), error(text)'];
const SQL = ['-- prepare', '-- buy', '-- think', ':user', 'begin; … commit;', 'yes, no'];

// Card is open where it stands beside the editor.
export function Card({ language, beside }) {
  const [open] = useState(() => beside && matchMedia('(min-width: 1000px)').matches);
  const rows = language === 'sql' ? SQL : LUA;
  return html`<details class="card-of" open=${open} data-test="card"><summary>${t('card.title.' + language)}</summary>
    <dl>${rows.map((row, i) => html`<div key=${row}><dt><code>${row}</code></dt><dd>${withCode(t('card.' + language)[i])}</dd></div>`)}</dl>
    <h3>${t('card.tables')}</h3><dl>${['item(stock, version, starts_at, ends_at)', 'units(id, owner)', 'orders(id, user_id)'].map((row, i) => html`
      <div key=${row}><dt><code>${row}</code></dt><dd>${t('card.table')[i]}</dd></div>`)}</dl>
    <p class="more small">${withCode(t('card.errors'))}</p></details>`;
}
