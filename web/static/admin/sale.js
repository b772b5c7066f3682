// One sale: its figures, what can be done with it now, and what is planned for it.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { now, useSecond } from '../clock.js';
import { Confirm } from '../dialog.js';
import { formatTime, t, yuan } from '../i18n.js';
import { useKeys } from '../keys.js';
import { Drawing, Taken } from '../parts.js';
import { poll } from '../poll.js';
import { Failed } from '../shell.js';
import { MONEY, TIME, UNITS, fen, isoTime, localTime, said, titleOf, useForm, whole, zone } from './form.js';
import { Plans } from './sale_plans.js';

// phaseOf returns what a sale is at a time: its state, or upcoming, open, sold_out, ended.
export function phaseOf(sale, at) {
  if (sale.state === 'draft' || sale.state === 'closed') return sale.state;
  if (Date.parse(sale.end_at) <= at) return 'ended';
  if (sale.state === 'paused') return 'paused';
  if (Date.parse(sale.start_at) > at) return 'upcoming';
  return sale.left > 0 ? 'open' : 'sold_out';
}

// What can be done with a sale in each phase.
const POSSIBLE = { draft: ['publish', 'close'], upcoming: ['pause', 'close'], open: ['pause', 'close'], sold_out: ['pause', 'close'], paused: ['resume', 'close'], ended: ['close'], closed: [] };

// StateButtons are the buttons for it. Each asks before it acts. onDone gets the sale as it is then.
export function StateButtons({ sale, phase, onDone }) {
  const [asking, setAsking] = useState('');
  const [failed, setFailed] = useState(null);
  const keys = useKeys();
  useEffect(() => { // what the sale has become says whether it was done
    setFailed((f) => (f?.unsure ? null : f));
    keys.forget();
  }, [sale.state]);
  const act = async () => {
    setAsking('');
    const reply = await keys.send(`/api/admin/sales/${sale.id}/${asking}`);
    setFailed(reply.ok ? null : reply);
    if (reply.ok) onDone(reply.data);
  };
  return html`
    <span class="row tight">${POSSIBLE[phase].map((action) => html`
      <button key=${action} class="button quiet small" data-test=${action} onClick=${() => setAsking(action)}>${t('sales.' + action)}</button>`)}</span>
    ${failed && html`<p class="error" role="alert">${said(failed)}</p>`}
    ${asking && html`<${Confirm} title=${t('sales.' + asking + '.title', { title: titleOf(sale) })} text=${t('sales.' + asking + '.text')} yes=${t('sales.' + asking)} no=${t('admin.no')}
      test="confirm" onYes=${act} onNo=${() => setAsking('')} />`}`;
}

export function Sale({ id, lang, may }) {
  const [sale, setSale] = useState(null);
  const [failed, setFailed] = useState(null);
  const polling = useRef();
  const at = useSecond();
  useEffect(() => {
    polling.current = poll('/api/admin/sales/' + encodeURIComponent(id), {
      onData: (data) => { setSale(data); setFailed(null); },
      onError: (reply) => { setFailed(reply); return reply.code !== 'no_sale'; },
      interval: (s) => (isReady(s) ? 3000 : 400),
    });
    return () => polling.current.stop();
  }, [id, lang]);
  if (!sale && failed) return html`<${Failed} title=${t('admin.failed')} more=${said(failed)} onRetry=${() => polling.current.read()} />`;
  if (!sale) return html`<p class="blank" role="status">${t('loading')}</p>`;
  const phase = phaseOf(sale, at);
  const done = (data) => { if (data) setSale(data); polling.current.read(); };
  const over = phase === 'ended' || phase === 'closed';
  return html`
    <article class="one" data-test="sale" data-state=${sale.state} data-phase=${phase}>
      <header class="sheet">
        <div class="thing"><span class="picture"><${Drawing} src=${sale.picture} /></span><div><h2>${titleOf(sale)}</h2>
          <p class="more">#${sale.id} · <a href=${'#goods/' + sale.goods_id}>${t('sales.goods')}</a></p>
          <p><span class="badge" data-phase=${phase}>${t('sales.phase.' + phase)}</span></p></div></div>
        ${!over && html`<${Gate} sale=${sale} />`}
        ${failed && html`<p class="note" role="status">${t('admin.stale')}</p>`}
        <${Figures} sale=${sale} />
        ${may && html`<div class="row"><${StateButtons} sale=${sale} phase=${phase} onDone=${done} />
          <a class="button quiet small" href=${'#sales/copy/' + sale.id} data-test="copy">${t('sales.copy')}</a></div>`}
      </header>
      ${may && phase === 'draft' && html`<${Terms} sale=${sale} onDone=${done} />`}
      ${may && !over && phase !== 'draft' && html`<div class="cards">
        <${Units} sale=${sale} onDone=${done} /><${Window} sale=${sale} onDone=${done} />
        ${Date.parse(sale.start_at) - at > 60_000 && html`<${Price} sale=${sale} onDone=${done} />`}</div>`}
      <${Plans} sale=${sale} may=${may && !over} onDone=${() => polling.current.read()} />
      <p><a href="#sales">${t('sales.all')}</a></p>
    </article>`;
}

// isReady reports whether gate and catalogue have followed the sale's last change.
const isReady = (sale) => sale.gate.state !== 'following' && sale.shown;

function Gate({ sale }) {
  const { state, units, from } = sale.gate;
  const key = state === 'following' || sale.shown ? state : 'following';
  return html`<p class="tip" role="status" data-test="gate" data-gate=${key}>${t('sales.gate.' + key, { units, from: from && formatTime(from, now()) })}</p>`;
}

function Figures({ sale }) {
  const rows = [['window', `${formatTime(sale.start_at, now())} – ${formatTime(sale.end_at, now())}`], ['price', '¥' + yuan(sale.price)],
    ...['total', 'left', 'pending', 'paid'].map((c) => [c, sale[c]])];
  return html`<dl class="figures">${rows.map(([key, value]) => html`<div key=${key}><dt>${t('sales.' + key)}</dt><dd data-test=${'sale-' + key}>${value}</dd></div>`)}</dl>
    <${Taken} left=${sale.left} total=${sale.total} />`;
}

const Card = ({ f, title, rule, yes, test, onSubmit, children }) => html`
  <form class="sheet" ref=${f.form} onSubmit=${onSubmit} data-test=${test}>
    <h3>${title}</h3>${children}${rule && html`<p class="rule">${rule}</p>`}${f.note}
    <p><button class="button small" disabled=${f.sending}>${yes ?? t('admin.save')}</button></p>
  </form>`;

function Units({ sale, onDone }) {
  const f = useForm('units', { delta: '' }, onDone);
  const send = async (e) => {
    const reply = await f.send(e, `/api/admin/sales/${sale.id}/units`, { delta: whole(f.values.delta) });
    if (reply.ok) { f.set({ delta: '' }); onDone(reply.data); }
  };
  return html`<${Card} f=${f} title=${t('sales.units')} rule=${t('sales.units.rule')} test="units-form" onSubmit=${send}>
    ${f.field('delta', t('sales.delta'), { ...UNITS, inputmode: 'text' })}<//>`;
}

function Window({ sale, onDone }) {
  const shown = { start_at: localTime(sale.start_at), end_at: localTime(sale.end_at) };
  const f = useForm('window', shown, onDone);
  useEffect(() => f.show(shown), [sale.start_at, sale.end_at]); // so that no change of another administrator is undone
  // A start that stays is sent as it is: the field has no milliseconds.
  const start = f.values.start_at === localTime(sale.start_at) ? sale.start_at : isoTime(f.values.start_at);
  const send = async (e) => {
    const reply = await f.send(e, `/api/admin/sales/${sale.id}/window`, { start_at: start, end_at: isoTime(f.values.end_at) });
    if (reply.ok) onDone(reply.data);
  };
  return html`<${Card} f=${f} title=${t('sales.window')} rule=${zone()} test="window-form" onSubmit=${send}>
    ${f.field('start_at', t('sales.start'), TIME)}${f.field('end_at', t('sales.end'), TIME)}<//>`;
}

function Price({ sale, onDone }) {
  const f = useForm('price', { price: yuan(sale.price) }, onDone);
  useEffect(() => f.show({ price: yuan(sale.price) }), [sale.price]);
  const send = async (e) => {
    const reply = await f.send(e, `/api/admin/sales/${sale.id}/price`, { price: fen(f.values.price) });
    if (reply.ok) onDone(reply.data);
  };
  return html`<${Card} f=${f} title=${t('sales.price')} rule=${t('sales.price.rule')} test="price-form" onSubmit=${send}>
    ${f.field('price', t('sales.yuan'), MONEY)}<//>`;
}

// termsOf are the values of the fields of a sale's terms, and termsBody is what the shop takes of them.
export const termsOf = (sale) => ({ price: yuan(sale.price), stock: String(sale.total), start_at: localTime(sale.start_at), end_at: localTime(sale.end_at) });
export const termsBody = (v) => ({ price: fen(v.price), stock: whole(v.stock), start_at: isoTime(v.start_at), end_at: isoTime(v.end_at) });

export const TermsFields = ({ f }) => html`
  ${f.field('price', t('sales.yuan'), MONEY)}${f.field('stock', t('sales.total'), UNITS)}
  ${f.field('start_at', t('sales.start'), TIME)}${f.field('end_at', t('sales.end'), TIME)}<p class="rule">${zone()}</p>`;

function Terms({ sale, onDone }) {
  const f = useForm('terms', termsOf(sale), onDone);
  useEffect(() => f.show(termsOf(sale)), [sale.price, sale.total, sale.start_at, sale.end_at]);
  const send = async (e) => {
    const reply = await f.send(e, '/api/admin/sales/' + sale.id, termsBody(f.values));
    if (reply.ok) onDone(reply.data);
  };
  return html`<${Card} f=${f} title=${t('sales.terms')} test="terms-form" onSubmit=${send}><${TermsFields} f=${f} /><//>`;
}
