// One lesson: what there is to know, a question, a run, and the answer the run gives.
import { html, useState } from './lib/preact.js';
import { t } from './i18n.js';
import { answerOf, lessons } from './lab_lessons.js';
import { Run, Tried, nameOf } from './lab_result.js';
import { Way } from './lab_way.js';

const guesses = {}; // by lesson, as long as the page is open
const seeds = {};

export function Lesson({ n, lab, runs }) {
  const lesson = lessons[n - 1];
  const [guess, setGuess] = useState(guesses[n]);
  const run = runs.of[n];
  const answer = answerOf(lesson, run);
  const go = () => {
    const seed = seeds[n] = (seeds[n] || 0) + 1;
    if (lesson.experiment) runs.once(n, '/api/lab/try', { experiment: lesson.experiment, seed });
    else runs.start(n, { ...lesson.plan, seed });
  };
  return html`<section class="split">
    <nav class="list twelve" aria-label=${t('lesson.list')}><ol>${lessons.map((l, i) => html`
      <li key=${i}><a href=${`#${i + 1}`} data-test=${`lesson-${i + 1}`} aria-current=${i + 1 === n ? 'true' : undefined}>
        <b>${i + 1}</b> <span class="name">${t(`lesson.${i + 1}.title`)}</span>
        ${answerOf(l, runs.of[i + 1]) && html`<span class="done"><span aria-hidden="true">✓</span><span class="hidden"> ${t('lesson.done')}</span></span>`}</a></li>`)}</ol></nav>
    <article class="lesson" data-test="lesson" data-lesson=${n}>
      <p class="more small">${t('lesson.nth', { n })}</p>
      <h2>${t(`lesson.${n}.title`)}</h2>
      ${t(`lesson.${n}.text`).map((p, i) => html`<p key=${i}>${withCode(p)}</p>`)}
      <p class="where small"><b>${t('lesson.where')}</b>${lesson.places.map(([file, name], i) => html`
        <span key=${i}><code>${file}</code> <code class="soft">${name}</code></span>`)}</p>
      <div class="sheet asks">
        <fieldset><legend>${t(`lesson.${n}.ask`)}</legend>
          ${t(`lesson.${n}.choices`).map((choice, i) => html`<${Choice} key=${i} i=${i} words=${choice} guess=${guess} answer=${answer}
            choose=${() => setGuess(guesses[n] = i)} />`)}</fieldset>
        ${answer && html`<p class="tip" role="status" data-test="lesson-answer" data-right=${answer.right}>
          ${answer.right === null ? t('lesson.unclear') : t(`lesson.${n}.shown`, answer)}</p>`}
        <p class="more small">${lesson.experiment ? t('lesson.experiment') : preset(lesson.plan)} ${!answer && t('lesson.guess')}</p>
        <p class="row"><button class="button" data-test="lesson-run" disabled=${runs.busy} onClick=${go}>
          ${t(runs.busy ? 'run.running' : run ? 'lesson.again' : 'lesson.go')}</button></p>
      </div>
      <${Run} run=${run} stop=${runs.stop} />
      ${run && run.data && html`<${Tried} tried=${run.data} />`}
      ${!lesson.experiment && html`<${Lines} lesson=${lesson} lab=${lab} />`}
      <p class="onward">${n < lessons.length
        ? html`<a class="button quiet" href=${`#${n + 1}`}>${t('lesson.next', { title: t(`lesson.${n + 1}.title`) })}</a>`
        : html`<a class="button quiet" href="#bench">${t('lesson.toBench')}</a>`}</p>
    </article>
  </section>`;
}

// Choice is one answer to the question. When the run has told, it says in words which one is right.
function Choice({ i, words, guess, answer, choose }) {
  const told = answer && answer.right !== null;
  const right = told && answer.right === i, guessed = guess === i;
  const mark = right ? (guessed ? 'lesson.yourRight' : 'lesson.right') : told && guessed ? 'lesson.yourWrong' : '';
  return html`<label class="choice" data-test=${`choice-${i}`} data-right=${right ? 'yes' : told && guessed ? 'no' : undefined}>
    <input type="radio" name="guess" checked=${guessed} onChange=${choose} />
    <span>${words}${mark && html` <strong class="told"><span aria-hidden="true">${right ? '✓' : '✗'}</span> ${t(mark)}</strong>`}</span></label>`;
}

// Lines shows the source of one of the lesson's ways.
function Lines({ lesson, lab }) {
  const [name, setName] = useState(lesson.read);
  const way = lab.ways.find((w) => w.name === name);
  if (!way) return null;
  return html`<section class="sheet lines"><h3>${t('lesson.lines')}</h3>
    ${lesson.plan.strategies.length > 1 && html`<p class="row picks">${lesson.plan.strategies.map((s) => html`
      <button key=${s} type="button" class="plain pick" aria-pressed=${s === name} onClick=${() => setName(s)}>${nameOf(s)}</button>`)}</p>`}
    <${Way} way=${way} /></section>`;
}

const preset = (plan) => t('lesson.preset', { buyers: plan.buyers, stock: plan.stock, double: plan.double_clicks, ways: plan.strategies.length,
  faults: plan.faults.map((f) => t('fault.' + f)).join(t('and')) });

// withCode sets what stands between backticks as code.
const withCode = (text) => text.split('`').map((part, i) => (i % 2 ? html`<code>${part}</code>` : part));
