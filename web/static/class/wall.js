// All students of a class on one screen: who has solved which exercise, in how many tries and at what cost.
import { html, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { speedOf, sqlOf, titleOf } from './exercises.js';

const workAt = (student, exercise) => student.exercises.find((w) => w.exercise === exercise);
const solved = (student) => student.exercises.filter((w) => w.solved).length;
// solvedAt returns when a student has solved one exercise, or the last of all; '' if not.
const solvedAt = (student, one) => student.exercises.filter((w) => !one || w.exercise === one).map((w) => w.solved_at ?? '').reduce((a, b) => (a > b ? a : b), '');
const byName = (a, b) => a.nickname.localeCompare(b.nickname);

// What the wall is sorted by: of all exercises together, and of one. Students without a figure come last.
const ORDERS = {
  joined: (a, b) => a.id - b.id,
  name: byName,
  solved: (a, b, one) => (one ? (workAt(b, one)?.solved ?? false) - (workAt(a, one)?.solved ?? false) : solved(b) - solved(a)) || solvedAt(a, one).localeCompare(solvedAt(b, one)) || byName(a, b),
  tries: (a, b, one) => least(a, b, (s) => (one ? workAt(s, one)?.tries : s.exercises.reduce((n, w) => n + w.tries, 0) || undefined)),
  sql: (a, b, one) => least(a, b, (s) => workAt(s, one)?.cost?.sql_per_order),
  speed: (a, b, one) => least(a, b, (s) => { const cost = workAt(s, one)?.cost; return cost && -cost.per_second; }),
};
const least = (a, b, of) => (of(a) ?? Infinity) - (of(b) ?? Infinity) || byName(a, b);
const forAll = ['joined', 'name', 'solved', 'tries'];
const forOne = ['name', 'solved', 'tries', 'sql', 'speed'];

export function Wall({ board, onRemove, onCrowd }) {
  const [one, setOne] = useState('');  // the exercise whose figures are shown; '' for the marks of all
  const [order, setOrder] = useState('joined');
  const [removing, setRemoving] = useState(false);
  const { students, ladder } = board;
  const orders = one ? forOne : forAll;
  const by = orders.includes(order) ? order : 'name';
  const shown = [...students].sort((a, b) => ORDERS[by](a, b, one));
  const many = students.length > 60 ? 100 : students.length > 30 ? 60 : students.length > 12 ? 30 : 12;
  if (!students.length) return html`<p class="blank" data-test="wall-empty">${t('class.waiting')}</p>`;
  return html`<section class="wall-of" aria-label=${t('class.part.wall')}>
    <div class="row picks exercises" role="group" aria-label=${t('class.exercises')}>
      <button type="button" class="plain pick" aria-pressed=${one === ''} data-test="exercise-all" onClick=${() => setOne('')}>${t('class.allExercises')}</button>
      ${ladder.map((step, i) => html`<button key=${step.name} type="button" class="plain pick" aria-pressed=${one === step.name} data-test=${'exercise-' + step.name}
        onClick=${() => setOne(step.name)}><b>${i + 1}</b> ${titleOf(step)} <span class="share">${students.filter((s) => workAt(s, step.name)?.solved).length}/${students.length}</span></button>`)}
    </div>
    <div class="row picks orders" role="group" aria-label=${t('class.sort')}><span class="more">${t('class.sort')}</span>
      ${orders.map((name) => html`<button key=${name} type="button" class="plain pick" aria-pressed=${by === name} data-test=${'sort-' + name} onClick=${() => setOrder(name)}>${t('class.sort.' + name)}</button>`)}
      <button type="button" class="plain pick removing" aria-pressed=${removing} data-test="removing" onClick=${() => setRemoving(!removing)}>${t('class.removing')}</button></div>
    ${removing && board.crowd && html`<p class="row" data-test="crowd">${t('class.crowd', board.crowd)} <button type="button" class="button quiet" data-test="remove-crowd" onClick=${() => onCrowd(board.crowd)}>${t('class.crowdRemove')}</button></p>`}
    <ol class="wall" data-test="wall" data-many=${many} data-one=${one !== ''} data-removing=${removing} style=${{ '--exercises': ladder.length }}>${shown.map((s) => html`
      <li key=${s.id} data-test="student" data-name=${s.nickname}>
        ${removing && html`<button type="button" class="plain gone" aria-label=${t('class.remove', s)} data-test="remove" onClick=${() => onRemove(s)}>✕</button>`}
        <span class="who" translate="no" title=${s.nickname}>${s.nickname}</span>
        ${one ? html`<${Figures} work=${workAt(s, one)} />` : html`<${Marks} student=${s} ladder=${ladder} />`}
      </li>`)}</ol>
    <p class="more small legend">${one ? t('class.costLegend') : html`<i data-mark="solved"></i> ${t('class.solved')} <i data-mark="tried"></i> ${t('class.unsolved')} <i></i> ${t('class.untried')}`}</p>
  </section>`;
}

const markOf = (work) => (!work ? '' : work.solved ? 'solved' : 'tried');

const Marks = ({ student, ladder }) => html`
  <span class="marks" aria-hidden="true">${ladder.map((step) => html`<i key=${step.name} data-mark=${markOf(workAt(student, step.name))} title=${titleOf(step)}></i>`)}</span>
  <b class="sum" aria-hidden="true">${solved(student)}</b>
  <span class="hidden">${t('class.solvedOf', { n: solved(student), of: ladder.length, names: ladder.filter((step) => workAt(student, step.name)?.solved).map(titleOf).join(t('comma')) })}</span>`;

const Figures = ({ work }) => html`<span class="figures" data-solved=${work?.solved ?? false}>
  <span class="mark2" data-right=${work && (work.solved ? 'yes' : 'no')}><span aria-hidden="true">${work?.solved ? '✓' : work ? '…' : '·'}</span><span class="hidden">${t(work?.solved ? 'class.solved' : work ? 'class.unsolved' : 'class.untried')}</span></span>
  ${work && html`<span>${t('class.nTries', { n: work.tries })}</span>`}
  ${work?.cost && html`<span>${t('class.nSql', { n: sqlOf(work) })}</span><span>${t('class.nSpeed', { n: speedOf(work) })}</span>`}</span>`;
