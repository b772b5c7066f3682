// One lesson: a text, a question, a run, and the answer that the run shows.
import { html, useEffect, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { answerOf, lessons } from './lessons.js';
import { Experiment, ExperimentSource } from './experiment.js';
import { Run } from './live.js';
import { nameOf, withCode } from './result.js';
import { Strategy } from './strategy.js';

const guesses = {}; // by lesson, kept until the page is closed
const seeds = {};

export function Lesson({ n, lab, runs, begin }) {
  const lesson = lessons[n - 1];
  const [guess, setGuess] = useState(guesses[n]);
  const run = runs.byOwner[n];
  const answer = answerOf(lesson, run);
  const start = () => {
    const seed = seeds[n] = (seeds[n] || 0) + 1;
    if (lesson.experiment) runs.call(n, '/api/lab/try', { experiment: lesson.experiment, seed });
    else runs.start(n, { ...lesson.plan, seed });
  };
  useEffect(() => {
    if (!begin) return;
    history.replaceState(null, '', '#' + lesson.name); // a reload begins nothing
    start();
  }, []);
  return html`<section class="split">
    <nav class="list lessons" aria-label=${t('lesson.list', { of: lessons.length })}><ol>${lessons.map((l, i) => html`
      <li key=${i}><a href=${`#${i + 1}`} data-test=${`lesson-${i + 1}`} aria-current=${i + 1 === n ? 'true' : undefined}>
        <b>${i + 1}</b> <span class="name">${t(`lesson.${l.name}.title`)}</span>
        ${Number.isInteger(answerOf(l, runs.byOwner[i + 1])?.right) && html`<span class="done"><span aria-hidden="true">✓</span><span class="hidden"> ${t('lesson.done')}</span></span>`}</a></li>`)}</ol></nav>
    <article class="lesson" data-test="lesson" data-lesson=${n}>
      <p class="more small">${t('lesson.nth', { n, of: lessons.length })}</p>
      <h2>${t(`lesson.${lesson.name}.title`)}</h2>
      ${t(`lesson.${lesson.name}.text`).map((p, i) => html`<p key=${i}>${withCode(p)}</p>`)}
      <p class="small"><b>${t('lesson.taught')}</b>${t(`lesson.${lesson.name}.taught`).join(t('comma'))}</p>
      <p class="where small"><b>${t('lesson.where')}</b>${lesson.places.map(([file, name], i) => html`
        <span key=${i}><code>${file}</code> <code class="soft">${name}</code></span>`)}</p>
      <div class="sheet asks">
        <fieldset><legend>${t(`lesson.${lesson.name}.ask`)}</legend>
          ${t(`lesson.${lesson.name}.choices`).map((choice, i) => html`<${Choice} key=${i} i=${i} text=${choice} guess=${guess} answer=${answer}
            onChoose=${() => setGuess(guesses[n] = i)} />`)}</fieldset>
        ${answer && html`<p class="tip" role="status" data-test="lesson-answer" data-right=${answer.right}>
          ${answer.right === null ? t(answer.busy ? 'experiment.busy' : 'lesson.unclear') : t(`lesson.${lesson.name}.shown`, answer)}</p>`}
        <p class="more small">${lesson.experiment ? t('lesson.experiment') : preset(lesson.plan)} ${!answer && t('lesson.guess')}</p>
        <p class="row"><button class="button" data-test="lesson-run" disabled=${runs.busy} onClick=${start}>
          ${t(run && run.state === 'waiting' ? 'run.waiting' : runs.busy ? 'run.running' : run ? 'lesson.again' : 'lesson.go')}</button></p>
      </div>
      <${Run} run=${run} stop=${runs.stop} />
      ${run && run.data && html`<${Experiment} outcome=${run.data} />`}
      ${lesson.experiment ? html`<${ExperimentSource} name=${lesson.experiment} />` : html`<${Lines} lesson=${lesson} lab=${lab} />`}
      <p class="onward">${n < lessons.length
        ? html`<a class="button quiet" href=${`#${n + 1}`}>${t('lesson.next', { title: t(`lesson.${lessons[n].name}.title`) })}</a>`
        : html`<a class="button quiet" href="#bench">${t('lesson.toBench')}</a>`}</p>
    </article>
  </section>`;
}

// Choice is one answer to the question. After the run it says in words whether it is right.
function Choice({ i, text, guess, answer, onChoose }) {
  const judged = answer && answer.right !== null;
  const right = judged && answer.right === i, guessed = guess === i;
  const mark = right ? (guessed ? 'lesson.yourRight' : 'lesson.right') : judged && guessed ? 'lesson.yourWrong' : '';
  return html`<label class="choice" data-test=${`choice-${i}`} data-right=${right ? 'yes' : judged && guessed ? 'no' : undefined}>
    <input type="radio" name="guess" checked=${guessed} onChange=${onChoose} />
    <span>${text}${mark && html` <strong class="judgement"><span aria-hidden="true">${right ? '✓' : '✗'}</span> ${t(mark)}</strong>`}</span></label>`;
}

// Lines shows the source of one of the lesson's strategies.
function Lines({ lesson, lab }) {
  const [name, setName] = useState(lesson.read);
  const strategy = lab.ways.find((s) => s.name === name);
  if (!strategy) return null;
  return html`<section class="sheet lines"><h3>${t('lesson.lines')}</h3>
    ${lesson.plan.strategies.length > 1 && html`<p class="row picks">${lesson.plan.strategies.map((s) => html`
      <button key=${s} type="button" class="plain pick" aria-pressed=${s === name} onClick=${() => setName(s)}>${nameOf(s)}</button>`)}</p>`}
    <${Strategy} strategy=${strategy} /></section>`;
}

const preset = (plan) => t('lesson.preset', { buyers: plan.buyers, stock: plan.stock, double: plan.double_clicks, strategies: plan.strategies.length,
  faults: plan.faults.map((f) => t('fault.' + f)).join(t('and')) });
