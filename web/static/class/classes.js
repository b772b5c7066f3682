// The teacher's classes, and the form that opens one.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { Field, errorsOf } from '../field.js';
import { errorText, formatTime, lang, t } from '../i18n.js';
import { useKeys } from '../keys.js';
import { useNote } from '../note.js';
import { Failed, Loading } from '../shell.js';

export function Classes() {
  const [all, setAll] = useState(null);
  const [failed, setFailed] = useState(null);
  const [tries, setTries] = useState(0);
  const [title, setTitle] = useState('');
  const [refused, setRefused] = useNote();
  useEffect(() => {
    get('/api/sandbox/classes').then((reply) => (reply.ok ? (setAll(reply.data), setFailed(null)) : setFailed(reply)));
  }, [tries]);
  const keys = useKeys();
  const open = async (event) => {
    event.preventDefault();
    const reply = await keys.send('/api/sandbox/classes', { title });
    if (reply.ok) location.hash = reply.data.code;
    else setRefused(reply);
  };
  if (failed && !all) return html`<${Failed} title=${errorText(failed)} onRetry=${() => setTries(tries + 1)} />`;
  if (!all) return html`<${Loading} />`;
  const errors = refused && errorsOf(refused, ['title']);
  return html`<section class="classes">
    <h1>${t('class.title')}</h1><p class="lead more">${t('class.intro')}</p>
    <form class="sheet" onSubmit=${open}>
      <${Field} id="title" label=${t('class.of')} data-test="class-title" value=${title} onValue=${setTitle} error=${errors?.title} maxlength="60" placeholder=${t('class.example')} />
      ${refused && !errors && html`<p class="note" role="alert">${errorText(refused)}</p>`}
      <button class="button" data-test="class-open" disabled=${keys.sending}>${t('class.open')}</button>
    </form>
    ${all.length > 0 && html`<h2>${t('class.all')}</h2>
      <ul class="sheet list-of-classes">${all.map((one) => html`<li key=${one.code}><a href=${'#' + one.code} data-test="class-link">${one.title}</a>
        <span class="more">${one.code} · ${formatTime(one.opened_at, Date.now())}${one.closed_at && ` · ${t('class.isClosed')}`}</span></li>`)}</ul>`}
    <h2>${t('class.plan')}</h2>
    <p>${t('class.planMore')} <code>${lang() === 'zh' ? 'seckill/lab/TEACHING.zh-CN.md' : 'seckill/lab/TEACHING.md'}</code></p>
    <p><a href="/handout.html" data-test="to-handouts">${t('class.handouts')}</a></p>
    <p class="more small">${t('class.restart')}</p>
  </section>`;
}
