// The log of the staff: who did what, when, from where, as it was before and is after.
import { html } from '../lib/preact.js';
import { forUser } from '../api.js';
import { now } from '../clock.js';
import { formatTime, t } from '../i18n.js';
import { Failed } from '../shell.js';
import { isoTime } from './form.js';
import { Filters, More, useList, why } from './list.js';

// The actions of which the filter has the names; one without a point stands for all that begin with it.
const ACTIONS = ['sale', 'plan', 'goods', 'picture', 'order', 'payment', 'user', 'staff', 'live', 'lab', 'class', 'sandbox', 'shop'];

export function Log({ arg }) {
  const params = new URLSearchParams(arg), asked = new URLSearchParams(arg);
  for (const name of ['from', 'to']) if (asked.has(name)) asked.set(name, isoTime(asked.get(name)));
  const list = useList('/api/admin/log', 'lines', asked);
  const value = (name) => params.get(name) ?? '';
  return html`
    <${Filters} section="log" params=${params}>
      <label>${t('log.by')}<input name="by" inputmode="numeric" size="8" defaultValue=${value('by')} /></label>
      <label>${t('log.what')}<select name="action"><option value="">${t('list.all')}</option>${ACTIONS.map((a) => html`
        <option value=${a} selected=${a === value('action')}>${t('actions.' + a)}</option>`)}</select></label>
      <label>${t('log.subject')}<input name="subject" size="14" placeholder=${t('log.example')} defaultValue=${value('subject')} /></label>
      <label>${t('log.since')}<input name="from" type="datetime-local" defaultValue=${value('from')} /></label>
      <label>${t('log.until')}<input name="to" type="datetime-local" defaultValue=${value('to')} /></label>
    <//>
    <p><a href=${forUser('/api/admin/log.csv?' + asked)} data-test="log-csv">${t('log.csv')}</a></p>
    <${Lines} list=${list} />`;
}

function Lines({ list }) {
  if (list.failed && !list.rows) return html`<${Failed} title=${t('admin.failed')} more=${why(list.failed)} onRetry=${list.again} />`;
  if (!list.rows) return html`<p class="blank" role="status">${t('loading')}</p>`;
  const until = list.last.archived_until;
  const archived = until && html`<p class="tip" data-test="archived">${t('log.archived', { time: formatTime(until, now()) })}</p>`;
  if (!list.rows.length) return html`${archived}<p class="blank">${t('log.none')}</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${t('admin.log')}><table data-test="log">
      <thead><tr>${['at', 'who', 'from', 'what', 'before', 'after'].map((c) => html`<th scope="col">${t('log.' + c)}</th>`)}</tr></thead>
      <tbody>${list.rows.map((l) => html`<tr key=${l.id} data-action=${l.action}>
        <td>${formatTime(l.at, now())}</td><td>${l.by_user ? `${l.name} (${l.by_user})` : l.by_login}</td><td>${l.origin}</td>
        <td>${t('action.' + l.action)} · ${t('log.about', { subject: l.subject })}</td><td><${Document} value=${l.before} /></td><td><${Document} value=${l.after} /></td></tr>`)}</tbody>
    </table></div>
    <${More} list=${list} />${archived}`;
}

const Document = ({ value }) => (value === null ? null
  : html`<code>${Object.entries(value).map(([k, v]) => `${k}: ${v}`).join('\n')}</code>`);
