// The bench runs any strategies with any crowd.
import { html, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { Run } from './live.js';
import { nameOf } from './result.js';

let lastPlan = { strategies: ['read-then-write', 'guard'], buyers: 200, stock: 20, double_clicks: 0, faults: [], seed: 1, seconds: 10 };

export function Bench({ lab, runs }) {
  const [plan, setPlan] = useState(lastPlan);
  const change = (patch) => setPlan((old) => (lastPlan = { ...old, ...patch }));
  const toggle = (list, name, on) => (on ? [...list, name] : list.filter((n) => n !== name));
  // select keeps the lab's order of the strategies, whatever the order of the clicks
  const select = (wanted) => change({ strategies: lab.ways.filter(wanted).map((s) => s.name) });
  const start = (event) => {
    event.preventDefault();
    runs.start('bench', plan);
  };
  return html`<section>
    <h2>${t('lab.bench')}</h2><p class="more lead">${t('bench.intro')}</p>
    <form class="sheet bench" onSubmit=${start}>
      <fieldset><legend>${t('bench.strategies')}</legend>
        <p class="row picks">
          ${[['all', () => true], ['right', (s) => s.right], ['wrong', (s) => !s.right], ['none', () => false]].map(([key, wanted]) => html`
            <button key=${key} type="button" class="plain pick" onClick=${() => select(wanted)}>${t('bench.' + key)}</button>`)}</p>
        <div class="checks">${lab.ways.map((s) => html`<label key=${s.name}>
          <input type="checkbox" data-test=${'strategy-' + s.name} checked=${plan.strategies.includes(s.name)}
            onChange=${(e) => { const on = e.currentTarget.checked; select((x) => (x.name === s.name ? on : plan.strategies.includes(x.name))); }} />
          <span>${nameOf(s.name)}</span></label>`)}</div></fieldset>
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
    <${Run} run=${runs.byOwner.bench} stop=${runs.stop} />
  </section>`;
}

function Amount({ label, name, min, max, plan, change }) {
  return html`<label class="field"><span>${label}</span>
    <input type="number" inputmode="numeric" required min=${min} max=${max} step="1" value=${plan[name]} data-test=${'bench-' + name}
      onInput=${(e) => e.currentTarget.validity.valid && change({ [name]: e.currentTarget.valueAsNumber })} /></label>`;
}
