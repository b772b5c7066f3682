// The defences of the shop as switches: one is left out, the visitor predicts what breaks, and the audit says it.
import { html, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Trouble } from '../trouble.js';
import { Waiting, refusal, withCode } from './result.js';

const INVARIANTS = ['I1', 'I2', 'I5', 'I7', 'I8', 'I9', 'none'];
const ROWS = 3; // of a finding

export function Without({ lab, runs }) {
  const [without, setWithout] = useState(lab.defences[0]);
  const [guess, setGuess] = useState('');
  const run = runs.byOwner.without;
  const outcome = run && run.state === 'done' && run.data.without === without ? run.data : null;
  const choose = (name) => { setWithout(name); setGuess(''); };
  const start = (event) => {
    event.preventDefault();
    runs.call('without', '/api/lab/without', { without });
  };
  return html`<section>
    <h2>${t('lab.without')}</h2>${t('without.intro').map((p, i) => html`<p key=${i} class="more lead">${withCode(p)}</p>`)}
    <form class="sheet asks" onSubmit=${start}>
      <fieldset><legend>${t('without.which')}</legend>${[...lab.defences, ''].map((name) => html`
        <label key=${name} class="choice" data-test=${'without-' + (name || 'nothing')}>
          <input type="radio" name="without" checked=${without === name} onChange=${() => choose(name)} />
          <span>${withCode(t('without.' + (name || 'nothing')))}</span></label>`)}</fieldset>
      <fieldset><legend>${t('without.predict')}</legend>${INVARIANTS.map((name) => html`
        <${Choice} key=${without + name} name=${name} guess=${guess} broken=${outcome && brokenBy(outcome)} onChoose=${() => setGuess(name)} />`)}</fieldset>
      <p class="more small">${t('without.guess')}</p>
      <p class="row"><button class="button" data-test="without-run" disabled=${runs.busy || !guess}>${t(runs.busy ? 'run.running' : 'without.go')}</button></p>
    </form>
    ${run && run.state === 'waiting' && html`<${Waiting} ahead=${run.ahead || 0} stop=${runs.stop} />`}
    <${Trouble} trouble=${run?.trouble} />
    ${run && ['refused', 'failed'].includes(run.state) && html`<p class="note" role="alert">${refusal(run.reply || run)}</p>`}
    ${outcome && html`<${Outcome} outcome=${outcome} guess=${guess} />`}
  </section>`;
}

// brokenBy returns the invariants that the audit found broken, ['none'] if there is none.
function brokenBy(outcome) {
  const all = [...new Set(outcome.broken.map((b) => b.invariant))];
  return all.length ? all : ['none'];
}

function Choice({ name, guess, broken, onChoose }) {
  const guessed = guess === name, right = broken && broken.includes(name);
  const mark = right ? (guessed ? 'lesson.yourRight' : 'lesson.right') : broken && guessed ? 'lesson.yourWrong' : '';
  return html`<label class="choice" data-test=${'predict-' + name} data-right=${right ? 'yes' : broken && guessed ? 'no' : undefined}>
    <input type="radio" name="predict" checked=${guessed} onChange=${onChoose} />
    <span>${name !== 'none' && html`<b>${name}</b> `}${t('without.' + name)}${mark && html` <strong class="judgement">
      <span aria-hidden="true">${right ? '✓' : '✗'}</span> ${t(mark)}</strong>`}</span></label>`;
}

function Outcome({ outcome, guess }) {
  const broken = brokenBy(outcome);
  return html`<div class="results" data-test="without-outcome">
    <p class="tip" role="status" data-test="without-answer" data-right=${broken.includes(guess) ? 'yes' : 'no'}>
      ${broken[0] === 'none' ? t('without.holds', { orders: outcome.orders }) : t('without.broken', { orders: outcome.orders, broken: broken.join(t('comma')) })}</p>
    <section class="sheet"><h3>${t('without.happened')}</h3><ul class="happened">${outcome.happenings.map((h) => html`
      <li key=${h.name}>${t('without.' + h.name)} <b>${h.refused ? withCode(t('without.refused', { by: h.refused })) : t('without.done')}</b></li>`)}</ul></section>
    ${outcome.broken.length > 0 && html`<section class="sheet"><h3>${t('without.audit')}</h3>${outcome.broken.map((b, i) => html`
      <div key=${i}><p lang="en"><b>BROKEN ${b.invariant}</b> ${b.meaning}</p>
        <div class="code" tabindex="0" role="region" aria-label=${b.invariant}><ol>${b.rows.slice(0, ROWS).map((row) => html`<li key=${row}><code>${row}</code></li>`)}</ol></div></div>`)}</section>`}
  </div>`;
}
