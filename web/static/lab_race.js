// Two clicks want the last unit: what each did when, as it was recorded, played slowly.
import { html, useEffect, useRef, useState } from './lib/preact.js';
import { post } from './api.js';
import { t } from './i18n.js';
import { nameOf, refusal } from './lab_result.js';

const BEAT = 1400; // ms between two events when it plays
const LIMIT = 25_000;

export function Race({ lab, name }) {
  const [way, setWay] = useState(lab.ways.some((w) => w.name === name) ? name : lab.ways[0].name);
  const [seed, setSeed] = useState(1);
  const [race, setRace] = useState({}); // {recording, answer, waits}
  const go = async (event) => {
    event.preventDefault();
    setRace({ waits: true });
    const answer = await post('/api/lab/race', { strategy: way, seed }, LIMIT);
    setRace(answer.ok ? { recording: answer.data } : { answer });
  };
  return html`<section>
    <h2>${t('lab.race')}</h2><p class="more lead">${t('race.intro')}</p>
    <form class="sheet racing" onSubmit=${go}>
      <label class="field"><span>${t('result.way')}</span>
        <select data-test="race-way" value=${way} onChange=${(e) => { setWay(e.currentTarget.value); setRace({}); }}>${lab.ways.map((w) => html`
          <option key=${w.name} value=${w.name}>${nameOf(w.name)}</option>`)}</select></label>
      <label class="field"><span>${t('bench.seed')}</span>
        <input type="number" inputmode="numeric" min="0" max="1000000000" step="1" required value=${seed}
          onInput=${(e) => e.currentTarget.validity.valid && setSeed(e.currentTarget.valueAsNumber)} /></label>
      <button class="button" data-test="race-go" disabled=${race.waits}>${t(race.waits ? 'race.recording' : 'race.record')}</button>
    </form>
    ${race.answer && html`<p class="note" role="alert">${refusal(race.answer)}</p>`}
    ${race.recording && html`<${Player} recording=${race.recording} />`}
  </section>`;
}

// rows puts the recording on a grid: every moment at which a step begins or ends is a row, so a step that waits for the
// other buyer is seen to be long.
function rows(steps) {
  const events = steps.flatMap((s, i) => [{ at: s.at_ms, step: i, ends: false }, { at: s.at_ms + s.took_ms, step: i, ends: true }]);
  events.sort((a, b) => a.at - b.at || a.step - b.step || a.ends - b.ends);
  const placed = steps.map(() => ({}));
  const beats = []; // what is new at each: one step begins, and those end that ended before it
  for (const e of events) {
    if (!e.ends) beats.push(e);
    else if (beats.length && !beats.at(-1).ends && beats.at(-1).step === e.step) { /* ended before anything else began: no row of its own */ }
    else beats.push(e);
    placed[e.step][e.ends ? 'to' : 'from'] = beats.length;
  }
  return { placed, beats };
}

function Player({ recording }) {
  const { steps } = recording;
  const { placed, beats } = rows(steps);
  const one = recording.clicks === 'one buyer';
  const who = (n) => t(one ? 'race.click' : 'race.buyer', { n });
  const [beat, setBeat] = useState(1);
  const [plays, play] = useState(() => !matchMedia('(prefers-reduced-motion: reduce)').matches);
  const box = useRef();
  const last = beats.length;
  const move = (to) => { play(false); setBeat(Math.max(1, Math.min(last, to))); };
  useEffect(() => {
    if (!plays) return undefined;
    if (beat >= last) { play(false); return undefined; }
    const timer = setTimeout(() => setBeat(beat + 1), BEAT);
    return () => clearTimeout(timer);
  }, [plays, beat, last]);
  useEffect(() => {
    box.current.querySelector('[data-now]')?.scrollIntoView({ block: 'nearest', behavior: plays ? 'smooth' : 'auto' });
  }, [beat]);
  const keys = (event) => {
    if (event.key === 'ArrowRight') move(beat + 1);
    else if (event.key === 'ArrowLeft') move(beat - 1);
    else if (event.key === 'Home') move(1);
    else if (event.key === 'End') move(last);
    else return;
    event.preventDefault();
  };
  const over = beat >= last;
  const now = beats[beat - 1];
  return html`<div class="player" data-test="player" onKeyDown=${keys}>
    <div class="row controls">
      <button type="button" class="button" data-test="race-play" aria-pressed=${plays}
        onClick=${() => { if (over) setBeat(1); play(!plays); }}>${t(plays ? 'race.pause' : over ? 'race.replay' : 'race.play')}</button>
      <button type="button" class="button quiet" data-test="race-back" disabled=${beat <= 1} onClick=${() => move(beat - 1)}>${t('race.back')}</button>
      <button type="button" class="button quiet" data-test="race-next" disabled=${over} onClick=${() => move(beat + 1)}>${t('race.next')}</button>
      <span class="more digits">${t('race.at', { n: beat, of: last })}</span>
      <span class="more keys">${t('race.keys')}</span>
    </div>
    <p class="hidden" aria-live="polite">${now && spoken(who, steps[now.step], now.ends || placed[now.step].to === beat)}</p>
    <div class="track" ref=${box}>
      <div class="runner" data-buyer="1">${who(1)}</div><div class="runner" data-buyer="2">${who(2)}</div>
      <ol class="steps2">${steps.map((s, i) => {
        const { from, to } = placed[i];
        const state = beat < from ? 'ahead' : beat < to ? 'runs' : 'done';
        return html`<li key=${i} data-buyer=${s.buyer} data-kind=${s.kind} data-state=${state} data-now=${now && now.step === i ? '' : undefined}
            style=${{ gridRow: `${from} / ${to + 1}`, gridColumn: s.buyer }} aria-hidden=${state === 'ahead' ? 'true' : undefined}>
          <span class="clock digits"><span class="hidden">${who(s.buyer)} </span>${t('race.ms', { at: s.at_ms.toFixed(1), took: s.took_ms.toFixed(1) })} <em>${t('kind.' + s.kind)}</em></span>
          <code>${s.text}</code>
          ${state === 'runs' && html`<span class="waits">${t('race.waits')}</span>`}
          ${state === 'done' && s.result && html`<span class="got">→ <code>${s.result}</code></span>`}</li>`;
      })}</ol>
    </div>
    ${over && html`<p class="note end" data-test="race-end" data-right=${recording.right ? 'yes' : 'no'} role="status">
      <strong class="verdict" data-right=${recording.right ? 'yes' : 'no'}><span aria-hidden="true">${recording.right ? '✓ ' : '✗ '}</span>
      ${t('race.end', { sold: recording.sold, stock: recording.stock, left: recording.left, one })}</strong> ${t('way.' + recording.strategy + '.says')}${' '}
      <a href=${'#ways/' + recording.strategy}>${t('race.source')}</a></p>`}
  </div>`;
}

const spoken = (who, step, done) => `${who(step.buyer)}: ${step.text}${done && step.result ? ` → ${step.result}` : ''}`;
