// The live view for the staff, and links to it for the wall or the class.
import { html, useState } from '../lib/preact.js';
import { errorText, formatTime, t } from '../i18n.js';
import { now } from '../clock.js';
import { useKeys } from '../keys.js';
import { LiveView } from './live_view.js';

export function Live({ arg, may }) {
  const sale = /^\d+$/.test(arg) ? arg : '';
  return html`<${LiveView} sale=${sale} href=${(id) => '#live' + (id ? '/' + id : '')} />${may && html`<${Share} sale=${sale} />`}`;
}

// Share makes a link. It is shown once: the shop keeps none.
function Share({ sale }) {
  const [hours, setHours] = useState('4');
  const [reply, setReply] = useState(null);
  const keys = useKeys();
  const make = async (event) => {
    event.preventDefault();
    setReply(await keys.send('/api/admin/live/link', { hours: Number(hours) }));
  };
  return html`<form class="filters share" onSubmit=${make} noValidate>
    <label>${t('live.hours')}<input type="number" min="1" max="720" data-test="hours" value=${hours} onInput=${(e) => setHours(e.target.value)} /></label>
    <button class="button quiet small" data-test="share">${t('live.share')}</button>
    ${reply && !reply.ok && html`<p class="note" role="alert">${reply.fields?.[0].msg ?? errorText(reply)}</p>`}
    ${reply?.ok && html`<p class="note" role="status">${t('live.shared', { at: formatTime(reply.data.expires_at, now()) })}
      <br /><a data-test="link" href=${reply.data.url + (sale ? '/' + sale : '')}>${location.origin + reply.data.url + (sale ? '/' + sale : '')}</a></p>`}
  </form>`;
}
