// A crowd run drawn: a dot for each unit, which fills when it is sold, and the buyers who held a unit, each from the reply on. It is
// replayed from the times that the run has recorded.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { SIGNS, count, nameOf, number, shownAs } from './result.js';

const REPLAY = [16_000, 8_000, 4_000]; // ms for the whole sale
const CROSSES = 40, ROWS = 24;
const KEPT = 150; // a run keeps the times of so many buyers: maxHolds of the lab

// dotsOf returns how often each unit is sold after n orders: 0, 1, or more.
export const dotsOf = (stock, orders) => Array.from({ length: stock }, (_, i) => Math.floor(orders / stock) + (i < orders % stock ? 1 : 0));

// Pictures draws the results of a run one at a time, the first that is wrong before the others.
export function Pictures({ results }) {
  const [name, setName] = useState('');
  const drawn = results.filter((r) => !r.error);
  const shown = drawn.find((r) => r.strategy === name) || drawn.find((r) => !r.right) || drawn[0];
  if (!shown) return null;
  return html`<section class="sheet" data-test="pictures"><h3>${t('picture.which')}</h3>
    ${drawn.length > 1 && html`<p class="row picks">${drawn.map((r) => html`<button key=${r.strategy} type="button" class="plain pick" aria-pressed=${r === shown} onClick=${() => setName(r.strategy)}>
      <span class="mark2" data-right=${shownAs(r)} aria-hidden="true">${SIGNS[shownAs(r)]}</span> ${nameOf(r.strategy)}</button>`)}</p>`}
    <${Picture} key=${shown.strategy} result=${shown} /></section>`;
}

// Picture shows a result: {stock, sold, oversold, unsold, duplicates, lost, holds: [[buyer, clicked ms, told ms], ...]}.
export function Picture({ result }) {
  const holds = result.holds || [];
  const end = Math.max(0, ...holds.map(([, , told]) => told)) * 1.03; // the last bar is seen, too
  const kept = holds.length === KEPT && result.sold > KEPT ? KEPT : 0; // 0: the times of all are there
  const [now, setNow] = useState(end);
  const [playing, setPlaying] = useState(false);
  const [pace, setPace] = useState(1);
  const frame = useRef();
  useEffect(() => {
    if (!playing) return undefined;
    let before = performance.now(), time = now;
    const step = (at) => {
      time = Math.min(end, time + (at - before) / REPLAY[pace] * end);
      before = at;
      setNow(time);
      if (time >= end) setPlaying(false);
      else frame.current = requestAnimationFrame(step);
    };
    frame.current = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame.current);
  }, [playing, pace]);
  const over = now >= end;
  const told = holds.filter(([, , at]) => at <= now).length;
  const sold = over ? result.sold : Math.min(told, result.sold);
  const dots = dotsOf(result.stock, sold);
  const free = dots.filter((n) => n === 0).length, twice = dots.filter((n) => n > 1).length;
  const says = t('picture.says', { stock: count(result.stock), sold: count(sold), once: count(result.stock - free - twice), twice: count(twice), free: count(free) });
  return html`<figure class="picture" data-test="picture">
    <figcaption><b>${t('picture.title')}</b> <span class="more digits" data-test="picture-says">${says}</span></figcaption>
    <div class="dots" role="img" aria-label=${says}>${dots.map((n, i) => html`<i key=${i} data-sold=${n > 1 ? 'over' : n ? 'once' : 'free'}>${n > 1 ? n : ''}</i>`)}</div>
    ${over && result.lost > 0 && html`<p class="crosses"><span class="bad" aria-hidden="true">${'✗ '.repeat(Math.min(result.lost, CROSSES))}</span> ${t('picture.lost', { n: result.lost })}</p>`}
    ${over && result.duplicates > 0 && html`<p class="small">${t('picture.duplicates', { n: result.duplicates })}</p>`}
    <p class="legend small more"><span><i data-sold="once"></i>${t('picture.once')}</span> <span><i data-sold="over">2</i>${t('picture.over')}</span> <span><i data-sold="free"></i>${t('picture.free')}</span></p>
    ${end > 0 && html`<div class="row controls">
        <button type="button" class="button quiet" data-test="picture-play" aria-pressed=${playing} onClick=${() => { if (over) setNow(0); setPlaying(!playing); }}>${playing ? t('race.pause') : t('picture.play', { kept })}</button>
        <label class="time"><span class="small">${t('picture.time', { ms: number(Math.min(now, end / 1.03), 1) })}</span>
          <input type="range" data-test="picture-time" min="0" max=${end} step="any" value=${now} onInput=${(e) => { setPlaying(false); setNow(Number(e.currentTarget.value)); }} /></label>
        <label class="pace"><span class="hidden">${t('schedule.pace')}</span><select value=${pace} onChange=${(e) => setPace(Number(e.currentTarget.value))}>${REPLAY.map((_, i) => html`
          <option key=${i} value=${i}>${t('schedule.pace.' + i)}</option>`)}</select></label></div>
      <${Timeline} holds=${holds} kept=${kept} stock=${result.stock} duplicates=${result.duplicates} end=${end} now=${now} />`}
  </figure>`;
}

// Timeline has a line for each of the first buyers who were promised a unit: waiting, then holding it. A second promise to one buyer is a second
// unit only if the run has counted duplicates; otherwise it repeats the first answer.
function Timeline({ holds, kept, stock, duplicates, end, now }) {
  const seen = new Set();
  const rows = holds.map(([buyer, clicked, told]) => {
    const again = seen.has(buyer);
    seen.add(buyer);
    return { buyer, clicked, told, kind: again ? (duplicates > 0 ? 'again' : 'holds') : seen.size > stock ? 'over' : 'holds' };
  });
  const wrong = rows.findIndex((row) => row.kind !== 'holds');
  // The first rows, or those around the first that is wrong.
  const from = wrong >= ROWS ? Math.min(wrong - ROWS / 2, Math.max(0, rows.length - ROWS)) : 0;
  const shown = rows.slice(from, from + ROWS);
  const at = (ms) => `${ms / end * 100}%`;
  return html`<div class="held" data-test="timeline"><p class="small"><b>${t('held.title')}</b> <span class="more">${t('held.of', { from: from + 1, to: from + shown.length, of: rows.length, kept })}</span></p>
    <ol>${shown.map(({ buyer, clicked, told, kind }, i) => html`<li key=${i} data-kind=${kind} data-held=${told <= now ? '' : undefined}>
      <span class="who digits">${t('held.buyer', { n: buyer })}</span>
      <span class="line"><i class="waits" style=${{ left: at(clicked), right: `calc(100% - ${at(Math.max(clicked, Math.min(told, now)))})` }}></i>
        ${told <= now && html`<i class="has" style=${{ left: at(told) }}></i>`}</span>
      <span class="hidden">${t('held.row', { clicked: number(clicked, 1), told: number(told, 1) })}${kind !== 'holds' ? ' ' + t('held.' + kind) : ''}</span></li>`)}</ol>
    <p class="legend small more"><span><i class="waits"></i>${t('held.waits')}</span> <span><i class="has"></i>${t('held.holds')}</span>
      ${rows.some((row) => row.kind === 'over') && html` <span><i class="has over"></i>${t('held.over')}</span>`}${rows.some((row) => row.kind === 'again') && html` <span><i class="has again"></i>${t('held.again')}</span>`}</p>
  </div>`;
}
