// The form in place of the back office, for a member of the staff whose password was made by a command.
import { html, useRef, useState } from '../lib/preact.js';
import { post } from '../api.js';
import { errorsOf, Field, focusFirstError } from '../field.js';
import { errorText, t } from '../i18n.js';
import { useNote } from '../note.js';
import { isLost } from '../retry.js';

const MAYBE = { code: 'maybe_done' };

export function NewPassword() {
  const [form, setForm] = useState({ old: '', new: '' });
  const [errors, setErrors] = useState({});
  const [note, setNote] = useNote();
  const element = useRef();
  const lost = useRef(false); // the answer to a former try: a password that it has changed is wrong then
  const put = (name) => (value) => { setForm((f) => ({ ...f, [name]: value })); setErrors((e) => ({ ...e, [name]: '' })); };
  const submit = async (event) => {
    event.preventDefault();
    const reply = await post('/api/password', form);
    if (reply.ok) return location.reload();
    const found = reply.code === 'wrong_password' ? { old: errorText(reply) } : errorsOf(reply, ['old', 'new']);
    setNote(!found ? { ...reply, after: isLost(reply) && MAYBE } : lost.current && found.old ? MAYBE : null);
    lost.current ||= isLost(reply);
    setErrors(found ?? {});
    return found && focusFirstError(element.current);
  };
  return html`
    <form class="sheet" ref=${element} onSubmit=${submit} novalidate data-test="new-password">
      <h1>${t('password.title')}</h1>
      <p>${t('password.why')}</p>
      ${note && html`<p class="note" role="status">${errorText(note)}</p>`}
      <${Field} id="old" label=${t('password.old')} type="password" autocomplete="current-password" error=${errors.old} onValue=${put('old')} />
      <${Field} id="new" label=${t('password.new')} type="password" autocomplete="new-password" rule=${t('rule.password')} error=${errors.new} onValue=${put('new')} />
      <div><button class="button" data-test="save-password">${t('password.save')}</button></div>
    </form>`;
}
