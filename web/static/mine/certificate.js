// A page that prints: who has solved what, and when. It is kept by the student's own browser, so it proves nothing to a stranger; the class
// board has what the server has judged.
import { html } from '../lib/preact.js';
import { lang, t } from '../i18n.js';
import { Failed, Loading } from '../shell.js';
import { number } from '../lab/result.js';
import { ladderOf, textsOf } from './exercises.js';

const day = (ms) => new Date(ms).toLocaleDateString(lang() === 'zh' ? 'zh-CN' : 'en-GB', { year: 'numeric', month: 'long', day: 'numeric' });

export function Certificate({ exercises }) {
  const { all, failed, kept } = exercises;
  if (!all && failed) return html`<${Failed} title=${t('lab.failed')} more=${t('error.busy')} onRetry=${exercises.retry} />`;
  if (!all) return html`<${Loading} />`;
  const ladder = ladderOf(all), solved = ladder.filter((e) => kept.by[e.name]?.solved > 0);
  const last = Math.max(0, ...solved.map((e) => kept.by[e.name].solved));
  return html`<section class="diploma">
    <div class="naming no-print"><label class="field"><span>${t('certificate.name')}</span>
        <input type="text" maxlength="60" autocomplete="name" data-test="student" value=${kept.student} onInput=${(e) => exercises.setStudent(e.currentTarget.value)} /></label>
      <button type="button" class="button" data-test="print" disabled=${!solved.length} onClick=${() => print()}>${t('certificate.print')}</button></div>
    ${solved.length === 0 && html`<p class="tip">${t('certificate.none')} <a href="#exercises">${t('mine.exercises')}</a></p>`}
    ${solved.length > 0 && html`<article class="sheet paper" data-test="certificate">
      <p class="seal" aria-hidden="true">秒</p>
      <h2>${t('certificate.title')}</h2>
      <p class="student">${kept.student || '—'}</p>
      <p>${t('certificate.says', { n: solved.length, of: ladder.length })}</p>
      <ol>${solved.map((e) => html`<li key=${e.name}><b>${textsOf(e).title}</b>
        <span class="more small">${day(kept.by[e.name].solved)}${kept.by[e.name].cost?.sql_per_order ? t('comma') + t('certificate.cost', { sql: number(kept.by[e.name].cost.sql_per_order, 1) }) : ''}${kept.by[e.name].gaveUp ? t('comma') + t('certificate.seen') : kept.by[e.name].hints ? t('comma') + t('certificate.hints', { n: kept.by[e.name].hints }) : ''}</span></li>`)}</ol>
      <p class="dated">${day(last)} · ${t('shop')}</p>
    </article>`}
  </section>`;
}
