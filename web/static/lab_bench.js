// The bench: any ways, any crowd.
import { html, useState } from './lib/preact.js';
import { t } from './i18n.js';
import { Run, nameOf } from './lab_result.js';

let kept = { strategies: ['read-then-write', 'guard'], buyers: 200, stock: 20, double_clicks: 0, faults: [], seed: 1, seconds: 10 };

export function Bench({ lab, runs }) {
  const [plan, setPlan] = useState(kept);
  const change = (more) => setPlan((was) => (kept = { ...was, ...more }));
  const toggle = (list, name, on) => (on ? [...list, name] : list.filter((n) => n !== name));
  // in the ladder's order, whatever the order they were ticked in
  const choose = (want) => change({ strategies: lab.ways.filter(want).map((w) => w.name) });
  const go = (event) => {
    event.preventDefault();
    runs.start('bench', plan);
  };
  return html`<section>
    <h2>${t('lab.bench')}</h2><p class="more lead">${t('bench.intro')}</p>
    <form class="sheet bench" onSubmit=${go}>
      <fieldset><legend>${t('bench.ways')}</legend>
        <p class="row picks">
          ${[['all', () => true], ['right', (w) => w.right], ['wrong', (w) => !w.right], ['none', () => false]].map(([key, want]) => html`
            <button key=${key} type="button" class="plain pick" onClick=${() => choose(want)}>${t('bench.' + key)}</button>`)}</p>
        <div class="checks">${lab.ways.map((w) => html`<label key=${w.name}>
          <input type="checkbox" data-test=${'way-' + w.name} checked=${plan.strategies.includes(w.name)}
            onChange=${(e) => { const on = e.currentTarget.checked; choose((x) => (x.name === w.name ? on : plan.strategies.includes(x.name))); }} />
          <span>${nameOf(w.name)}</span></label>`)}</div></fieldset>
      <fieldset class="numbers"><legend>${t('bench.crowd')}</legend>
        <${Amount} label=${t('bench.buyers')} name="buyers" min=${1} max=${lab.max.buyers} plan=${plan} change=${change} />
        <${Amount} label=${t('bench.stock')} name="stock" min=${1} max=${lab.max.stock} plan=${plan} change=${change} />
        <${Amount} label=${t('bench.double')} name="double_clicks" min=${0} max=${100} plan=${plan} change=${change} />
        <${Amount} label=${t('bench.seed')} name="seed" min=${0} max=${1_000_000_000} plan=${plan} change=${change} />
        <${Amount} label=${t('bench.seconds')} name="seconds" min=${1} max=${lab.max.seconds} plan=${plan} change=${change} />
      </fieldset>
      <fieldset><legend>${t('bench.faults')}</legend>
        <div class="checks">${lab.faults.map((f) => html`<label key=${f}>
          <input type="checkbox" data-test=${'fault-' + f} checked=${plan.faults.includes(f)} onChange=${(e) => change({ faults: toggle(plan.faults, f, e.currentTarget.checked) })} />
          <span>${t('fault.' + f)}</span></label>`)}</div></fieldset>
      <button class="button" data-test="bench-run" disabled=${runs.busy || !plan.strategies.length}>${t(runs.busy ? 'run.running' : 'run.go')}</button>
    </form>
    <${Run} run=${runs.of.bench} stop=${runs.stop} />
  </section>`;
}

function Amount({ label, name, min, max, plan, change }) {
  return html`<label class="field"><span>${label}</span>
    <input type="number" inputmode="numeric" required min=${min} max=${max} step="1" value=${plan[name]} data-test=${'bench-' + name}
      onInput=${(e) => e.currentTarget.validity.valid && change({ [name]: e.currentTarget.valueAsNumber })} /></label>`;
}
