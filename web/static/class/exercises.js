// A student's exercises as a table, and the titles of exercises.
import { html } from '../lib/preact.js';
import { lang, t } from '../i18n.js';
import { count, number, speed } from '../lab/result.js';

// titleOf returns the title of an exercise of the ladder, in the language that is shown.
export const titleOf = (step) => step.title[lang()];

// sqlOf and speedOf write what a solved exercise cost, or a dash.
export const sqlOf = (work) => (work?.cost ? number(work.cost.sql_per_order, 1) : '–');
export const speedOf = (work) => (work?.cost ? speed(work.cost.per_second) : '–');

export const Exercises = ({ ladder, exercises, closed }) => html`<div class="sheet"><table role="table" data-test="own-exercises" style=${{ '--columns': 3 }}>
  <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${t('class.exercise')}</th>
    <th role="columnheader" scope="col" class="figure">${t('class.tries')}</th><th role="columnheader" scope="col" class="figure">${t('class.sql')}</th>
    <th role="columnheader" scope="col" class="figure">${t('class.speed')}</th></tr></thead>
  <tbody role="rowgroup">${ladder.map((step, i) => {
    const work = exercises.find((w) => w.exercise === step.name);
    const name = html`${i + 1}. ${titleOf(step)}`;
    return html`<tr key=${step.name} role="row" data-exercise=${step.name} data-tried=${!!work} data-solved=${work?.solved ?? false}>
      <th role="rowheader" scope="row">${closed ? name : html`<a href=${'/mine.html#exercises/' + step.name}>${name}</a>`}
        ${work && html`<span class="verdict" data-right=${work.solved ? 'yes' : 'no'}><span aria-hidden="true">${work.solved ? '✓' : '…'}</span> ${t(work.solved ? 'class.solved' : 'class.unsolved')}</span>`}</th>
      <td role="cell" class="figure">${work ? count(work.tries) : '–'}</td><td role="cell" class="figure">${sqlOf(work)}</td><td role="cell" class="figure">${speedOf(work)}</td></tr>`;
  })}</tbody>
</table></div>`;
