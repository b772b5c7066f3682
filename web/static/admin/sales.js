// The sales of the shop, also drafts: a list, newest first.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { now, useSecond } from '../clock.js';
import { formatTime, t, yuan } from '../i18n.js';
import { Drawing } from '../parts.js';
import { Failed } from '../shell.js';
import { said, titleOf } from './form.js';
import { Sale, StateButtons, phaseOf } from './sale.js';
import { NewSale } from './sale_new.js';

export function Sales({ arg, lang, may }) {
  const [, from, id] = /^(new|copy|goods)\/?(\d*)$/.exec(arg) ?? [];
  if (from) return html`<${NewSale} key=${arg} copy=${from === 'copy' ? id : ''} goods=${from === 'goods' ? id : ''} may=${may} />`;
  return arg ? html`<${Sale} key=${arg} id=${arg} lang=${lang} may=${may} />` : html`<${List} may=${may} />`;
}

const COLUMNS = ['sale', 'state', 'window', 'price', 'total', 'left', 'pending', 'paid'];
const NUMBERS = new Set(['price', 'total', 'left', 'pending', 'paid']);

function List({ may }) {
  const [sales, setSales] = useState(null);
  const [next, setNext] = useState(0);
  const [state, setState] = useState('');
  const [failed, setFailed] = useState(null);
  const at = useSecond();
  const read = async (cursor) => {
    const reply = await get('/api/admin/sales?state=' + state + (cursor ? '&cursor=' + cursor : ''));
    setFailed(reply.ok ? null : reply);
    if (!reply.ok) return;
    setSales(cursor ? [...sales, ...reply.data.sales] : reply.data.sales);
    setNext(reply.data.next);
  };
  useEffect(() => { read(); }, [state]);
  const put = (sale) => setSales(sales.map((s) => (s.id === sale.id ? sale : s)));
  if (failed && !sales) return html`<${Failed} title=${t('admin.failed')} more=${said(failed)} onRetry=${() => read()} />`;
  if (!sales) return html`<p class="blank" role="status">${t('loading')}</p>`;
  return html`
    <div class="filters">
      <label>${t('sales.filter')}<select value=${state} data-test="state" onInput=${(e) => setState(e.target.value)}>
        ${['', 'draft', 'published', 'paused', 'closed'].map((s) => html`<option key=${s} value=${s}>${t('sales.state.' + (s || 'all'))}</option>`)}</select></label>
      ${may && html`<a class="button small" href="#sales/new" data-test="new-sale">${t('sales.new')}</a>`}
    </div>
    ${failed && html`<p class="note" role="alert">${said(failed)}</p>`}
    ${!sales.length && html`<p class="blank">${t('sales.empty')}</p>`}
    ${sales.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label=${t('admin.sales')}><table class="sales" data-test="sales">
      <thead><tr>${COLUMNS.map((c) => html`<th scope="col" class=${NUMBERS.has(c) ? 'figure' : ''}>${t('sales.' + c)}</th>`)}${may && html`<th scope="col">${t('sales.do')}</th>`}</tr></thead>
      <tbody>${sales.map((s) => html`<${Row} key=${s.id} sale=${s} at=${at} may=${may} onDone=${put} />`)}</tbody>
    </table></div>`}
    ${next > 0 && html`<button class="button quiet" onClick=${() => read(next)}>${t('admin.more')}</button>`}`;
}

function Row({ sale, at, may, onDone }) {
  const phase = phaseOf(sale, at);
  return html`
    <tr data-sale=${sale.id} data-state=${sale.state}>
      <td><a class="thing" href=${'#sales/' + sale.id}><span class="small-picture"><${Drawing} src=${sale.picture} lazy /></span><b>${titleOf(sale)}</b></a></td>
      <td><span class="badge" data-phase=${phase}>${t('sales.phase.' + phase)}</span></td>
      <td class="times">${formatTime(sale.start_at, now())}<br />${formatTime(sale.end_at, now())}</td>
      <td class="figure">¥${yuan(sale.price)}</td>${['total', 'left', 'pending', 'paid'].map((c) => html`<td class="figure">${sale[c]}</td>`)}
      ${may && html`<td><${StateButtons} sale=${sale} phase=${phase} onDone=${onDone} /></td>`}
    </tr>`;
}
