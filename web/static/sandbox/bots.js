// Bots beside a sale: one click sends a crowd to it, so that one person sees a rush. The numbers are those of the last crowd.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { get, post } from '../api.js';
import { errorText, t } from '../i18n.js';
import { local } from './local.js';
import { useNote } from '../note.js';

const EVERY = 250; // ms between two looks at a crowd under way

// Bots is for a sale, {id, state}, as the list and the details have it.
// Each look at a crowd under way calls onLook.
export function Bots({ sale, user, onLook }) {
  const [run, setRun] = useState(null);
  const [refused, setRefused] = useNote();
  const may = local || user?.role === 'admin';
  const head = useRef();
  useEffect(() => {
    if (!may) return undefined;
    let timer;
    let stopped = false;
    const look = async () => {
      const reply = await get('/api/sandbox/bots');
      if (stopped) return;
      if (reply.ok) setRun(reply.data);
      if (reply.ok && reply.data.state === 'running') onLook?.();
      if (!reply.ok || reply.data.state === 'running') timer = setTimeout(look, EVERY);
    };
    look();
    return () => { stopped = true; clearTimeout(timer); };
  }, [may, run?.state === 'running']);
  if (!may) return null;

  const mine = run && run.sale === Number(sale.id) && run.state !== 'idle' ? run : null;
  const running = run?.state === 'running';
  if (!mine && sale.state !== 'open') return null;
  const send = async () => {
    const reply = await post('/api/sandbox/bots', { sale: Number(sale.id) });
    setRefused(reply.ok ? null : reply);
    if (!reply.ok) return;
    setRun(reply.data);
    head.current?.focus(); // the button is gone
  };
  return html`
    <section class="bots" aria-label=${t('bots')} data-test="bots" data-state=${mine?.state ?? 'idle'}>
      <h2 ref=${head} tabindex="-1">${t('bots')}</h2>
      ${!mine && html`<p class="more">${t('bots.more', { n: run?.bots ?? 500 })}</p>`}
      ${mine && html`<${Numbers} run=${mine} />`}
      ${!running && sale.state === 'open' && html`<button class="button quiet" data-test="send-bots" onClick=${send}>
        ${t('bots.send', { n: run?.bots ?? 500 })}</button>`}
      ${running && !mine && html`<p class="more">${t('bots.elsewhere')}</p>`}
      <p class="note" role="alert" hidden=${!refused}>${refused && errorText(refused)}</p>
      <p class="hidden" role="status">${mine ? t('bots.' + mine.state, mine) : ''}</p>
    </section>`;
}

function Numbers({ run }) {
  const over = run.state === 'done';
  const row = (name, value) => html`<div><dt>${t('bots.' + name)}</dt><dd class="number" data-test=${'bots-' + name}>${value}</dd></div>`;
  return html`
    <p class="more" aria-hidden="true">${t('bots.' + run.state, run)}</p>
    <dl class="counts">
      ${row('clicked', run.clicked)}
      ${row('bought', run.bought)}
      ${over && row('soldOut', run.sold_out)}
      ${over && run.others > 0 && row('others', run.others)}
    </dl>
    ${over && html`<p class="more">${t('bots.after', { ms: Math.max(1, Math.round(run.median_ms ?? 0)), slow: Math.max(1, Math.round(run.p99_ms ?? 0)) })}</p>`}`;
}
