// A race: two clicks for the last unit. The shop records each step with its time, and the page
// plays them slowly.
import { html, useEffect, useLayoutEffect, useRef, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Trouble } from '../trouble.js';
import { Waiting, nameOf, refusal, shownAs, textOr } from './result.js';

const BEAT = 1400;       // ms for one event when it plays

export function Race({ lab, name, begin, runs }) {
  const [strategy, setStrategy] = useState(lab.ways.some((s) => s.name === name) ? name : lab.ways[0].name);
  const [seed, setSeed] = useState(1);
  const run = runs.byOwner.race;
  const record = () => runs.call('race', '/api/lab/race', { strategy, seed });
  useEffect(() => {
    if (!begin) return;
    history.replaceState(null, '', '#race/' + strategy); // a reload begins nothing
    record();
  }, []);
  const recording = run && run.state === 'done' && run.data.strategy === strategy && run.data;
  return html`<section>
    <h2>${t('lab.race')}</h2><p class="more lead">${t('race.intro')}</p>
    <form class="sheet racing" onSubmit=${(event) => { event.preventDefault(); record(); }}>
      <label class="field"><span>${t('result.strategy')}</span>
        <select data-test="race-strategy" value=${strategy} onChange=${(e) => setStrategy(e.currentTarget.value)}>${lab.ways.map((s) => html`
          <option key=${s.name} value=${s.name}>${nameOf(s.name)}</option>`)}</select></label>
      <label class="field"><span>${t('bench.seed')}</span>
        <input type="number" inputmode="numeric" min="0" max="1000000000" step="1" required value=${seed}
          onInput=${(e) => e.currentTarget.validity.valid && setSeed(e.currentTarget.valueAsNumber)} /></label>
      <button class="button" data-test="race-go" disabled=${runs.busy}>${t(run && run.state === 'running' ? 'race.recording' : 'race.record')}</button>
    </form>
    ${run && run.state === 'waiting' && html`<${Waiting} ahead=${run.ahead || 0} stop=${runs.stop} />`}
    <${Trouble} trouble=${run?.trouble} />
    ${run && ['refused', 'failed'].includes(run.state) && html`<p class="note" role="alert">${refusal(run.reply || run)}</p>`}
    ${recording && html`<${Player} key=${run.run} recording=${recording} from=${recording.seed - recording.tries + 1} />`}
  </section>`;
}

// rows puts the steps on a grid. Each beginning and each end of a step is a row, so a step that
// waits for the other click is tall.
function rows(steps) {
  const events = steps.flatMap((s, i) => [{ at: s.at_ms, step: i, ends: false }, { at: s.at_ms + s.took_ms, step: i, ends: true }]);
  events.sort((a, b) => a.at - b.at || a.step - b.step || a.ends - b.ends);
  const placed = steps.map(() => ({}));
  const beats = []; // one row each: one step begins or ends
  for (const e of events) {
    const last = beats.at(-1); // a step that ends before another begins has one row, not two
    if (!last || !e.ends || last.ends || last.step !== e.step) beats.push(e);
    placed[e.step][e.ends ? 'to' : 'from'] = beats.length;
  }
  return { placed, beats };
}

function Player({ recording, from }) {
  const { steps } = recording;
  const { placed, beats } = rows(steps);
  const one = recording.clicks === 'one buyer';
  const label = (n) => t(one ? 'race.click' : 'race.buyer', { n });
  const [beat, setBeat] = useState(1);
  const [playing, setPlaying] = useState(() => !matchMedia('(prefers-reduced-motion: reduce)').matches);
  const play = useRef(), track = useRef();
  const last = beats.length;
  const move = (to) => { setPlaying(false); setBeat(Math.max(1, Math.min(last, to))); };
  useEffect(() => {
    if (!playing) return undefined;
    if (beat >= last) { setPlaying(false); return undefined; }
    const timer = setTimeout(() => setBeat(beat + 1), BEAT);
    return () => clearTimeout(timer);
  }, [playing, beat, last]);
  useEffect(() => {
    track.current.querySelector('[data-now]')?.scrollIntoView({ block: 'nearest', behavior: playing ? 'smooth' : 'auto' });
  }, [beat]);
  useLayoutEffect(() => { // before the first key: the user has waited for the recording, unless they went to another field meanwhile
    const at = document.activeElement;
    if (!at || at === document.body || at.dataset.test === 'race-go') play.current.focus();
  }, []);
  const onKey = (event) => {
    const keys = { ArrowRight: beat + 1, ArrowLeft: beat - 1, Home: 1, End: last };
    if (!(event.key in keys) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    move(keys[event.key]);
  };
  const over = beat >= last;
  const now = beats[beat - 1];
  return html`<div class="player" data-test="player" onKeyDown=${onKey}>
    <div class="row controls">
      <button type="button" class="button" data-test="race-play" ref=${play} aria-pressed=${playing}
        onClick=${() => { if (over) setBeat(1); setPlaying(!playing); }}>${t(playing ? 'race.pause' : over ? 'race.replay' : 'race.play')}</button>
      <button type="button" class="button quiet" data-test="race-back" aria-disabled=${beat <= 1} onClick=${() => move(beat - 1)}>${t('race.back')}</button>
      <button type="button" class="button quiet" data-test="race-next" aria-disabled=${over} onClick=${() => move(beat + 1)}>${t('race.next')}</button>
      <span class="more digits">${t('race.at', { n: beat, of: last })}</span>
      <span class="more keys">${t('race.keys')}</span>
    </div>
    <p class="hidden" aria-live="polite">${now && spoken(label, steps[now.step], now.ends || placed[now.step].to === beat)}</p>
    <div class="track" ref=${track}>
      <div class="runner" data-buyer="1">${label(1)}</div><div class="runner" data-buyer="2">${label(2)}</div>
      <ol class="steps2">${steps.map((s, i) => {
        const { from, to } = placed[i];
        const state = beat < from ? 'ahead' : beat < to ? 'runs' : 'done';
        return html`<li key=${i} data-buyer=${s.buyer} data-kind=${s.kind} data-state=${state} data-now=${now && now.step === i ? '' : undefined}
            style=${{ gridRow: `${from} / ${to + 1}`, gridColumn: s.buyer }} aria-hidden=${state === 'ahead' ? 'true' : undefined}>
          <span class="clock digits"><span class="hidden">${label(s.buyer)} </span>${t('race.ms', { at: s.at_ms.toFixed(1), took: s.took_ms.toFixed(1) })} <em>${t('kind.' + s.kind)}</em></span>
          <code>${textOf(s)}</code>
          ${state === 'runs' && html`<span class="waits">${t('race.waits')}</span>`}
          ${state === 'done' && s.result && html`<span class="got">→ <code>${s.result}</code>${s.times > 1 && t('race.times', { n: s.times })}</span>`}</li>`;
      })}</ol>
    </div>
    ${over && html`<p class="end" data-test="race-end" data-right=${shownAs(recording)} role="status">
      <strong class="verdict" data-right=${shownAs(recording)}><span aria-hidden="true">${recording.right ? '✓ ' : '✗ '}</span>
      ${recording.lucky && t('race.lucky') + ' '}${t('race.end', { sold: recording.sold, stock: recording.stock, left: recording.left, one })}</strong> ${t('strategy.' + recording.strategy + '.says')}${' '}
      <a href=${'#strategies/' + recording.strategy}>${t('race.source')}</a></p>
      ${recording.tries > 1 && html`<p class="more small" data-test="race-tries">${t('race.tries', { n: recording.tries, from, seed: recording.seed, right: recording.right })}</p>`}`}
  </div>`;
}

// textOf returns a statement or a call as it was sent, and what else happened in the user's language.
const textOf = (step) => (step.kind === 'code' || step.kind === 'answer' ? textOr('step.', step.text) : step.text);
const spoken = (label, step, done) => `${label(step.buyer)}: ${textOf(step)}${done && step.result ? ` → ${step.result}` : ''}`;
