// The crowd and the faults of a run.
import { html } from '../lib/preact.js';
import { t } from '../i18n.js';

export const FIRST_PLAN = { buyers: 200, stock: 20, double_clicks: 20, nodes: 2, seed: 1, seconds: 10, faults: [], closes: false };

export function Crowd({ plan, max, faults, onChange }) {
  const amount = (name, min, most) => html`<label class="field"><span>${t('crowd.' + name)}</span>
    <input type="number" inputmode="numeric" required min=${min} max=${most} step="1" value=${plan[name]} data-test=${'crowd-' + name}
      onInput=${(e) => e.currentTarget.validity.valid && onChange({ ...plan, [name]: e.currentTarget.valueAsNumber })}
      onChange=${(e) => e.currentTarget.reportValidity()} /></label>`;
  const toggle = (fault, on) => onChange({ ...plan, faults: faults.filter((f) => (f === fault ? on : plan.faults.includes(f))) });
  return html`<details class="crowd" data-test="crowd"><summary>${t('crowd.summary', { ...plan, named: [...plan.faults.map((f) => t('fault.' + f)), ...(plan.closes ? [t('target.closes')] : [])].join(t('comma')) })}</summary>
    <div class="numbers">${amount('buyers', 1, max.buyers)}${amount('stock', 1, max.stock)}${amount('double_clicks', 0, 100)}
      ${amount('nodes', 1, max.nodes)}${amount('seed', 0, 1_000_000_000)}${amount('seconds', 1, max.seconds)}</div>
    <fieldset><legend>${t('bench.faults')}</legend><div class="checks">${faults.map((f) => html`<label key=${f}>
      <input type="checkbox" data-test=${'crowd-' + f} checked=${plan.faults.includes(f)} onChange=${(e) => toggle(f, e.currentTarget.checked)} /><span>${t('fault.' + f)}</span></label>`)}
      <label><input type="checkbox" data-test="crowd-closes" checked=${plan.closes} onChange=${(e) => onChange({ ...plan, closes: e.currentTarget.checked })} /><span>${t('crowd.closes')}</span></label></div></fieldset>
  </details>`;
}
