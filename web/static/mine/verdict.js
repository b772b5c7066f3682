// What a run of the student's program has shown: the figures, what kind of race it is and what usually repairs it, and the steps.
import { html, useLayoutEffect, useRef } from '../lib/preact.js';
import { t } from '../i18n.js';
import { SIGNS, count, number, shownAs, speed, verdictOf } from '../lab/result.js';
import { Picture } from '../lab/picture.js';
import { gotOf, sameRead, Schedule } from './schedule.js';

const COUNTS = ['sold', 'oversold', 'unsold', 'duplicates', 'lost'];

// lineOf returns the line that an error names, or 0.
export function lineOf(result) {
  if (!result || !result.error) return 0;
  const found = result.error.match(/\bline[: ]+(\d+)/i) || result.error.match(/:(\d+):/);
  return found ? Number(found[1]) : 0;
}

// Verdict shows a result. searched is false for the crowds of earlier exercises, for which no schedule was searched. It scrolls into
// view if it leads; if not, it is of an exercise, and what usually repairs it is opened like a hint.
export function Verdict({ result, cut = false, searched = true, leads = true, onLine, onStep }) {
  const { kind, schedule, steps = [], output } = result;
  const problem = /SQLSTATE JUDGE/.test(result.error) ? 'judge' : result.problem || 'runtime';
  const line = lineOf(result);
  const sumsUp = COUNTS.slice(1).every((c) => !result[c]) && !result.error;
  const late = sumsUp && result.after_end > 0; // each unit once, but not in time
  const denied = sumsUp && !late && result.denied > 0;
  const crowdRight = sumsUp && !late && !denied;
  const race = late && kind === 'check_then_act' ? 'after_end' : kind; // the shop's clock has changed what was checked
  const read = schedule && schedule.broken >= 0 ? sameRead(steps, schedule.broken) : null;
  const oneBuyer = schedule && schedule.users[0] === schedule.users[1]; // the first two clicks
  const outcome = kind === 'error' ? t('problem.' + problem)
    : result.right ? t('mine.right')
      : late ? t('mine.afterEnd', { n: result.after_end })
        : denied ? t('mine.denied', { n: result.denied })
          : crowdRight ? t('mine.searched') : verdictOf(result);
  const perOrder = (n) => (result.sold > 0 ? number(n, 1) : '–');
  const box = useRef();
  useLayoutEffect(() => { if (leads) box.current.scrollIntoView({ block: 'start' }); }, []);
  return html`<div class="judgement" ref=${box} data-test="verdict" data-right=${result.right ? 'yes' : 'no'} data-kind=${kind || ''}>
    <section class="sheet outcome" aria-labelledby="outcome">
      <div role="status"><h2 id="outcome" class="verdict" data-right=${shownAs(result)}><span aria-hidden="true">${SIGNS[shownAs(result)]} </span>${outcome}</h2></div>
      ${kind === 'error' && html`<div class="note" role="alert" data-test="problem"><p>${t('problem.' + problem + '.says')}</p>
        <pre class="said">${result.error}</pre>
        ${line > 0 && html`<p><button type="button" class="plain linked" data-test="to-error" onClick=${() => onLine(line)}>${t('problem.line', { line })}</button></p>`}</div>`}
      ${kind && kind !== 'error' && html`<div class="race-kind" data-test="kind"><h3>${t('wrong.' + race)}</h3><p>${t('wrong.' + race + '.says')}</p>
        ${read && html`<p data-test="same-read">${t(oneBuyer ? 'wrong.sameRead.one' : 'wrong.sameRead', { ...read, value: gotOf(read.value) })}</p>`}
        ${leads ? html`<p><b>${t('wrong.repair')}</b> ${t('wrong.' + race + '.repair')}</p>`
          : html`<details><summary data-test="repair">${t('wrong.repair')}</summary><p>${t('wrong.' + race + '.repair')}</p></details>`}</div>`}
      ${kind !== 'error' && result.error && html`<p class="note">${result.error}</p>`}
      ${result.buyers > 0 && (kind !== 'error' || result.sold > 0) && html`
        <dl class="tallies">${COUNTS.map((c) => html`<div key=${c} data-wrong=${c !== 'sold' && result[c] > 0 ? '' : undefined}><dt>${t('result.' + c)}</dt>
          <dd><b data-test=${'count-' + c}>${c !== 'sold' && result[c] > 0 ? '✗ ' : ''}${count(result[c])}</b></dd></div>`)}
          <div><dt>${t('mine.speed')}</dt><dd><b>${speed(result.per_second)}</b></dd></div>
          <div><dt>${t('mine.sql')}</dt><dd><b>${perOrder(result.sql_per_order)}</b></dd></div>
          <div><dt>${t('mine.redis')}</dt><dd><b>${perOrder(result.redis_per_order)}</b></dd></div></dl>
        <p class="more small">${t('mine.crowd', { buyers: count(result.buyers), stock: count(result.stock), seconds: number(result.seconds, 2), p99: number(result.p99_ms, 1) })}</p>
        <${Picture} key=${result.seconds} result=${result} />`}
      ${result.right && html`<p class="more small">${t('mine.rightMore')}</p>`}
      ${!result.right && kind !== 'error' && !steps.length && html`<p class="tip">${t(searched ? 'mine.noSchedule' : 'exercise.noSearch')}</p>`}
      ${output && html`<details class="about" open><summary>${t('mine.output')}</summary><pre class="said" data-test="output">${output}</pre></details>`}
      ${cut && html`<p class="tip" data-test="cut">${t('mine.cut')}</p>`}
    </section>
    ${schedule && steps.length > 0 && html`<${Schedule} schedule=${schedule} steps=${steps} onLine=${onLine} onStep=${onStep} />`}
  </div>`;
}
