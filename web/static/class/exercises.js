// A student's exercises as a table, and the names of exercises.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';
import { count, number, speed, textOr } from '../lab/result.js';

export const nameOfExercise = (name) => textOr('exercise.', name);

// costOf writes what a run cost, or a dash.
export const sqlOf = (work) => (work?.cost ? number(work.cost.sql_per_order, 1) : '–');
export const speedOf = (work) => (work?.cost ? speed(work.cost.per_second) : '–');

export const Exercises = ({ exercises }) => html`<div class="sheet"><table role="table" data-test="own-exercises" style=${{ '--columns': 3 }}>
  <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">${t('class.exercise')}</th>
    <th role="columnheader" scope="col" class="figure">${t('class.tries')}</th><th role="columnheader" scope="col" class="figure">${t('class.sql')}</th>
    <th role="columnheader" scope="col" class="figure">${t('class.speed')}</th></tr></thead>
  <tbody role="rowgroup">${exercises.map((work) => html`<tr key=${work.exercise} role="row" data-solved=${work.solved}>
    <th role="rowheader" scope="row">${nameOfExercise(work.exercise)} <span class="verdict" data-right=${work.solved ? 'yes' : 'no'}>
      <span aria-hidden="true">${work.solved ? '✓' : '…'}</span> ${t(work.solved ? 'class.solved' : 'class.unsolved')}</span></th>
    <td role="cell" class="figure">${count(work.tries)}</td><td role="cell" class="figure">${sqlOf(work)}</td><td role="cell" class="figure">${speedOf(work)}</td></tr>`)}</tbody>
</table></div>`;
