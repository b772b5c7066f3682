// The devices on which the user is logged in, and how to log out of one or of all.
import { html, useEffect, useState } from './lib/preact.js';
import { get, post } from './api.js';
import { now } from './clock.js';
import { Confirm } from './dialog.js';
import { errorText, formatTime, t } from './i18n.js';
import { useNote } from './note.js';
import { hasLoggedOut, logOut } from './session.js';

const LIST = '/api/account/sessions';

export function Sessions({ hidden }) {
  const [list, setList] = useState(null);
  const [failed, setFailed] = useState(null); // the last read
  const [note, setNote] = useNote();
  const [asking, setAsking] = useState(false);
  const read = async () => {
    const reply = await get(LIST);
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setList(reply.data);
  };
  useEffect(() => { read(); }, []);
  const end = async (session) => {
    const reply = await post(`${LIST}/${encodeURIComponent(session.id)}/end`);
    if (reply.ok && session.current) return hasLoggedOut('/');
    setNote(reply.ok || reply.code === 'not_found' ? null : reply); // one that is gone has ended
    await read();
  };
  const own = list?.find((s) => s.current);
  return html`
    <section aria-labelledby="head-sessions" hidden=${hidden}>
      <h2 id="head-sessions">${t('sessions')}</h2>
      <p class="more">${t('sessions.more')}</p>
      <p class="note" role="alert" hidden=${!note}>${note && errorText(note)}</p>
      ${failed && html`<p class="note" role="alert" data-test="sessions-failed">${errorText(failed)} <button class="plain" onClick=${read}>${t('again')}</button></p>`}
      ${!list && !failed && html`<p class="more" role="status">${t('loading')}</p>`}
      <ul class="devices">${(list || []).map((s) => html`<${Row} key=${s.id} session=${s} onEnd=${() => end(s)} />`)}</ul>
      <p class="row" hidden=${!list && !failed}>${own && html`<button class="button quiet" data-test="logout-here" onClick=${() => end(own)}>${t('sessions.here')}</button>`}
        <button class="button quiet" data-test="logout-everywhere" onClick=${() => setAsking(true)}>${t('sessions.everywhere')}</button></p>
      ${asking && html`<${Confirm} title=${t('sessions.ask')} text=${t('sessions.askMore')} yes=${t('sessions.everywhere')} no=${t('account.cancel')}
        test="logout-everywhere-yes" onYes=${logOut} onNo=${() => setAsking(false)} />`}
    </section>`;
}

function Row({ session: s, onEnd }) {
  const at = now();
  const name = t('sessions.device', { browser: t('browser.' + s.browser), system: t('system.' + s.system) });
  const used = s.current ? t('sessions.now') : s.used_at ? t('sessions.used', { at: formatTime(s.used_at, at) }) : t('sessions.recent');
  return html`
    <li data-test="session" data-current=${!!s.current}>
      <div><b>${name}</b> ${s.current && html`<span class="this">${t('sessions.this')}</span>`}
        <p class="more">${t('sessions.begun', { at: formatTime(s.begun_at, at) })} · ${used}</p></div>
      ${!s.current && html`<button class="button quiet" data-test="end-session" aria-label=${t('sessions.endOne', { name })} onClick=${onEnd}>${t('sessions.end')}</button>`}
    </li>`;
}
