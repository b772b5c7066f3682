// Pulse shows how the shop answers a buyer: one question to each store, twice a second, as a row of marks. Each mark has a word and
// a form of its own, besides its colour.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { t } from '../i18n.js';

const EVERY = 500; // ms
const KEPT = 40;
const ASKS = { redis: (sale) => `/api/sales/${sale}/result`, postgres: () => '/api/orders' };

export function Pulse({ sale }) {
  const [beats, setBeats] = useState({ redis: [], postgres: [] });
  useEffect(() => {
    let stopped = false;
    const timers = {};
    const ask = async (name) => {
      const began = performance.now();
      const reply = await get(ASKS[name](sale));
      if (stopped) return;
      const ms = Math.round(performance.now() - began);
      const state = reply.ok ? (ms > 300 ? 'slow' : 'ok') : reply.code === 'too_many' ? '' : 'busy';
      if (state) setBeats((old) => ({ ...old, [name]: [...old[name], { state, ms }].slice(-KEPT) }));
      timers[name] = setTimeout(() => ask(name), Math.max(0, EVERY - ms));
    };
    Object.keys(ASKS).forEach(ask);
    return () => { stopped = true; Object.values(timers).forEach(clearTimeout); };
  }, [sale]);
  return html`<dl class="pulse">${Object.keys(ASKS).map((name) => {
    const last = beats[name].at(-1);
    return html`<div key=${name}><dt>${t('pulse.' + name)}</dt>
      <dd data-test=${'pulse-' + name} data-state=${last?.state}><span class="beats" aria-hidden="true">${beats[name].map((beat) => html`<i class=${beat.state}></i>`)}</span>
        ${last ? t('pulse.' + last.state, last) : ''}</dd></div>`;
  })}</dl>`;
}
