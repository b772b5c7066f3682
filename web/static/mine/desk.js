// The desk: the editor with its crowd, the run, and the verdict. A program of the student and an exercise use it.
import { html, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Trouble } from '../trouble.js';
import { count, refusal, Stop, Waiting } from '../lab/result.js';
import { dotsOf } from '../lab/picture.js';
import { Card } from './card.js';
import { Editor } from './editor.js';
import { lineOf } from './verdict.js';

// Desk shows a program {language, source}. result is a verdict whose error is marked in the source; shown is the step whose line is
// marked. children stand between the editor and the run.
export function Desk({ program, onInput, onRun, run, busy, stop, stock, result, shown, goTo, label, bar, beside = true, children }) {
  const marks = {};
  if (lineOf(result)) marks[lineOf(result)] = 'error';
  if (shown?.line) marks[shown.line] = 'now';
  return html`<div class="desk">
    <div class="work">
      ${bar}
      <${Editor} language=${program.language} source=${program.source} onInput=${onInput} onRun=${() => busy || onRun()} marks=${marks} goTo=${goTo} label=${label} />
      ${children}
      <p class="row"><button type="button" class="button" data-test="run-mine" disabled=${busy} onClick=${onRun}>${t(busy ? 'run.running' : 'mine.run')}</button></p>
      <${Working} run=${run} stop=${stop} stock=${stock} />
      <${Trouble} trouble=${run?.trouble} />
    </div>
    <aside><${Card} key=${program.language} language=${program.language} beside=${beside} /></aside>
  </div>`;
}

// Working shows a job until its result is there, or why there is none.
function Working({ run, stop, stock }) {
  if (!run) return null;
  if (run.state === 'waiting') return html`<${Waiting} ahead=${run.ahead || 0} stop=${stop} />`;
  if (run.state === 'refused' || run.state === 'failed') {
    const wrong = (run.reply?.fields || []).map((f) => f.msg).join(' ');
    return html`<p class="note" role="alert" data-test="run-note">${wrong || refusal(run.reply || run)}</p>`;
  }
  if (run.state !== 'running') return null;
  const { sold = 0, asked = 0, buyers = 0 } = run.now || {};
  return html`<section class="live" aria-label=${t('run.live')} data-test="working">
    <div class="livehead"><h3>${t('mine.working')}</h3><${Stop} stop=${run.yours ? stop : null} /></div>
    ${stock > 0 && html`<div class="dots small-dots" aria-hidden="true">${dotsOf(stock, sold).map((n, i) => html`<i key=${i} data-sold=${n > 1 ? 'over' : n ? 'once' : 'free'}></i>`)}</div>`}
    <p class="more small">${buyers > 0 ? t('mine.progress', { sold: count(sold), asked: count(asked), buyers: count(buyers) }) : t('mine.starting')}</p>
  </section>`;
}

// useShown keeps which step is shown and where the cursor is to go.
export function useShown() {
  const [shown, onStep] = useState(null);
  const [goTo, setGoTo] = useState(null);
  return { shown, onStep, goTo, onLine: (line) => setGoTo({ line }) };
}
