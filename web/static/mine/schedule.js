// The shortest schedule that goes wrong: a column for each buyer, and between them the row that they share. It is read at once or step
// by step, and a table has the same content.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { textOr } from '../lab/result.js';
import { Holders } from './holders.js';

const PACES = [2600, 1400, 700]; // ms for a step when it plays

// partsOf returns what the buyers share after a step: [{key, name, value}].
function partsOf(state) {
  if (!state) return [];
  const list = (text) => (text ? String(text).split(' ').join(', ') : '–');
  return [
    ...(state.stock !== undefined && state.stock !== '' ? [{ key: 'stock', name: t('shared.stock'), value: String(state.stock) }] : []),
    { key: 'orders', name: t('shared.orders'), value: list(state.orders) },
    ...(state.units ? [{ key: 'units', name: t('shared.units'), value: list(state.units) }] : []),
    ...Object.entries(state.keys || {}).map(([key, value]) => ({ key: 'key ' + key, name: key, redis: true, value: String(value) })),
  ];
}

// changes returns the parts after step i, each with its value before if the step has changed it. first is what was before the first step.
function changes(steps, i, first) {
  const before = partsOf(i > 0 ? steps[i - 1].state : first);
  return partsOf(steps[i].state).map((part) => {
    const old = before.find((other) => other.key === part.key);
    return { ...part, was: (!old || old.value !== part.value) ? (old ? old.value : '–') : undefined };
  });
}

const textOf = (step) => (step.kind === 'answer' || step.kind === 'code' || step.kind === 'fault' ? textOr('step.', step.text) : step.text);

// gotOf returns the result of a step. A number of rows is in the language that is shown.
export const gotOf = (result) => { const rows = result.match(/^(\d+) rows?$/); return rows ? t('schedule.rows', { n: Number(rows[1]) }) : result; };

// A step that waits for a lock is shown twice: when it begins to wait, and when it is done.
const isWaiting = (step) => step.waited && step.result === 'waits';
const waitOf = (step) => t(isWaiting(step) ? 'schedule.waiting' : 'schedule.waited');

// sameRead returns {value, line} of the last read of both buyers before step i, if both have read the same at the same line while what
// they share was the same: it is what both believed. Otherwise it returns null.
export function sameRead(steps, i) {
  const last = {};
  for (const step of steps.slice(0, i + 1)) {
    const isRead = /^\s*(select|get|hget|exists|sismember|scard|llen)\b/i.test(step.text);
    if ((step.kind === 'sql' || step.kind === 'redis') && isRead && step.result) last[step.buyer] = { value: step.result, line: step.line, state: JSON.stringify(step.state) };
  }
  const [one, two] = [last[1], last[2]];
  return one && two && one.value === two.value && one.line === two.line && one.state === two.state ? { value: one.value, line: one.line } : null;
}

// whoOf names the buyer of a click, from 1, and which click of that buyer it is if there are several.
function whoOf({ users, clicks }, n) {
  const buyer = users[n - 1];
  const of = (some) => some.filter((user) => user === buyer).length;
  if (of(users) === 1) return t('race.buyer', { n: buyer });
  return t(clicks === 'one buyer' ? 'race.click' : 'race.clickOf', { n: of(users.slice(0, n)), buyer });
}

// Schedule shows the steps. onLine(line) leads to a line of the source; onStep(step) is called with the step that is shown, or null.
export function Schedule({ schedule, steps, onLine, onStep }) {
  const last = steps.length;
  const broken = schedule.broken ?? -1;
  const [at, setAt] = useState(last);
  const [playing, setPlaying] = useState(false);
  const [pace, setPace] = useState(1);
  const list = useRef();
  const label = (n) => whoOf(schedule, n);
  const show = (to) => { setAt(Math.max(1, Math.min(last, to))); };
  const move = (to) => { setPlaying(false); show(to); };
  useEffect(() => {
    if (!playing) return undefined;
    if (at >= last) { setPlaying(false); return undefined; }
    const timer = setTimeout(() => show(at + 1), PACES[pace]);
    return () => clearTimeout(timer);
  }, [playing, at, pace]);
  const moved = useRef(false);
  useEffect(() => {
    if (!moved.current) { moved.current = true; return; }
    onStep(steps[at - 1]);
    const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    list.current.querySelector('[data-now]')?.scrollIntoView({ block: 'nearest', behavior: playing && !calm ? 'smooth' : 'auto' });
  }, [at]);
  const onKey = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest('select, textarea, input, .scrolls')) return;
    if (event.key === 'ArrowRight') move(at + 1);
    else if (event.key === 'ArrowLeft') move(at - 1);
    else if (event.key === 'Home') move(1);
    else if (event.key === 'End') move(last);
    else return;
    event.preventDefault();
  };
  const stands = (i) => (i + 1 > at ? 'ahead' : i + 1 === at ? 'now' : 'done');
  return html`<section class="sheet schedule" data-test="schedule" data-buyers=${schedule.users.length} aria-labelledby="schedule-title" onKeyDown=${onKey}>
    <h3 id="schedule-title">${t('schedule.title')}</h3>
    <p class="more">${t('schedule.of', { ...schedule, buyers: schedule.users.length, fault: schedule.fault && t('stage.' + schedule.fault) })}</p>
    <div class="row controls">
      <button type="button" class="button" data-test="step-play" aria-pressed=${playing}
        onClick=${() => { if (at >= last) setAt(1); setPlaying(!playing); }}>${t(playing ? 'race.pause' : at >= last ? 'race.replay' : 'race.play')}</button>
      <button type="button" class="button quiet" data-test="step-back" aria-disabled=${at <= 1} onClick=${() => move(at - 1)}>${t('race.back')}</button>
      <button type="button" class="button quiet" data-test="step-next" aria-disabled=${at >= last} onClick=${() => move(at + 1)}>${t('race.next')}</button>
      <label class="pace"><span class="hidden">${t('schedule.pace')}</span><select data-test="step-pace" value=${pace} onChange=${(e) => setPace(Number(e.currentTarget.value))}>${PACES.map((_, i) => html`
        <option key=${i} value=${i}>${t('schedule.pace.' + i)}</option>`)}</select></label>
      <span class="more digits" data-test="step-at">${t('race.at', { n: at, of: last })}</span>
      <span class="more keys">${t('race.keys')}</span>
    </div>
    <p class="hidden" aria-live="polite">${at < last || playing ? `${label(steps[at - 1].buyer)}: ${textOf(steps[at - 1])}${steps[at - 1].result ? ` → ${gotOf(steps[at - 1].result)}` : ''}` : ''}</p>
    <div class="lanes" aria-hidden="true"><b data-col="1">${label(1)}</b><b data-col="shared">${t('shared.title')}</b>
      ${schedule.users.slice(1).map((_, i) => html`<b key=${i} data-col=${i + 2}>${label(i + 2)}</b>`)}</div>
    <ol class="beats" ref=${list}>${steps.map((step, i) => html`
      <li key=${i} data-buyer=${step.buyer} data-state=${stands(i)} data-now=${stands(i) === 'now' ? '' : undefined}
          data-broken=${i === broken ? '' : undefined} data-test=${i === broken ? 'broken-step' : undefined} aria-hidden=${stands(i) === 'ahead' ? 'true' : undefined}>
        <div class="beat" data-kind=${step.kind}>
          <span class="clock"><span class="who">${label(step.buyer)}</span> <em>${t('kind.' + step.kind)}</em>
            ${step.line > 0 && html` <button type="button" class="plain line" data-test="to-line" tabindex=${stands(i) === 'ahead' ? -1 : 0} onClick=${() => onLine(step.line)}>${t('strategy.line', { lines: step.line })}</button>`}</span>
          ${step.switched && html`<span class="switched">⇄ ${t('schedule.switched', { who: label(step.buyer) })}</span>`}
          ${step.waited && html`<span class="waited">${waitOf(step)}</span>`}
          <code>${textOf(step)}</code>
          ${step.result && !isWaiting(step) && html`<span class="got">→ <code>${gotOf(step.result)}</code></span>`}
        </div>
        <div class="shared"><dl>${changes(steps, i, schedule.before).map((part) => html`<div key=${part.key} data-changed=${part.was !== undefined ? '' : undefined}>
          <dt>${part.redis ? html`<code>${part.name}</code>` : part.name}</dt><dd>${part.was !== undefined && html`<span class="was">${part.was} →</span> `}<b>${part.value}</b></dd></div>`)}</dl>
          ${i === broken && html`<p class="broke" data-test="broke"><span aria-hidden="true">✗ </span>${t('schedule.broke')}</p>`}</div>
      </li>`)}</ol>
    <${Holders} steps=${steps} schedule=${schedule} at=${at} label=${label} />
    <details class="about"><summary>${t('schedule.table')}</summary><div class="scrolls" tabindex="0" role="region" aria-label=${t('schedule.table')}>
      <table class="plainly" data-test="step-table"><thead><tr>${['n', 'buyer', 'step', 'result', 'line', 'shared'].map((c) => html`<th key=${c} scope="col">${t('schedule.col.' + c)}</th>`)}</tr></thead>
        <tbody>${steps.map((step, i) => html`<tr key=${i}><th scope="row">${i + 1}</th><td>${label(step.buyer)}</td>
          <td>${step.switched && '⇄ '}<code>${textOf(step)}</code>${step.waited && ` (${waitOf(step)})`}</td><td><code>${!isWaiting(step) && gotOf(step.result)}</code></td><td>${step.line || ''}</td>
          <td>${partsOf(step.state).map((part) => `${part.name} ${part.value}`).join('; ')}${i === broken && html` <strong class="bad">✗ ${t('schedule.broke')}</strong>`}</td></tr>`)}</tbody></table></div></details>
  </section>`;
}
