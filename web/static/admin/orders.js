// The orders: a search whose filters are in the URL (#orders?status=paid), page after page, as a file, and refunds of many.
import { html, useEffect, useState } from '../lib/preact.js';
import { forUser, get } from '../api.js';
import { now } from '../clock.js';
import { errorText, formatTime, lang, t, yuan } from '../i18n.js';
import { Failed } from '../shell.js';
import { tidy } from '../typed.js';
import { why } from './list.js';
import { OrderFile } from './order.js';
import { Refunds } from './refunds.js';

const FILTERS = ['q', 'sale', 'status', 'from', 'to'];
const STATUSES = ['pending', 'paid', 'cancelled', 'refunded'];

export function Orders({ arg, may }) {
  if (arg && !arg.startsWith('?')) return html`<${OrderFile} key=${arg} id=${arg} may=${may} />`;
  return html`<${Search} key=${location.hash} may=${may} />`;
}

const filters = () => Object.fromEntries([...new URLSearchParams(location.hash.split('?')[1])].filter(([k, v]) => v && FILTERS.includes(k)));

// asQuery returns the filters as the shop reads them: the times of the form are those of the browser's zone.
function asQuery(chosen, more = {}) {
  const query = new URLSearchParams({ ...chosen, ...more });
  for (const name of ['from', 'to']) {
    const at = new Date(chosen[name]);
    if (!Number.isNaN(at.getTime())) query.set(name, at.toISOString());
  }
  return query.toString();
}

function Search({ may }) {
  const [chosen] = useState(filters);
  const [orders, setOrders] = useState(null);
  const [next, setNext] = useState('');
  const [failed, setFailed] = useState(null);
  const [marked, setMarked] = useState([]);
  const read = async (cursor) => {
    const reply = await get('/api/admin/orders?' + asQuery(chosen, cursor ? { cursor } : {}));
    setFailed(reply.ok ? null : reply);
    if (!reply.ok) return;
    setOrders(cursor ? [...orders, ...reply.data.orders] : reply.data.orders);
    setNext(reply.data.next || '');
  };
  const reread = () => { setMarked([]); read(); };
  useEffect(() => { read(); }, []);
  const mark = (id, on) => setMarked(on ? [...marked, id] : marked.filter((m) => m !== id));
  return html`
    <${Filters} chosen=${chosen} may=${may} />
    <div class="row tools">
      <a class="button quiet small" data-test="orders-csv" download href=${forUser('/api/admin/orders.csv?' + asQuery(chosen, { lang: lang() }))}>${t(may ? 'orders.csv' : 'orders.csvMasked')}</a>
      ${may && html`<${Refunds} orders=${marked} sale=${Number(tidy('id', chosen.sale ?? '')) || 0} onDone=${reread} />`}
    </div>
    ${failed && !orders && html`<${Failed} title=${t('admin.failed')} more=${why(failed)} onRetry=${() => read()} />`}
    ${failed && orders && html`<p class="note" role="status">${errorText(failed)}</p>`}
    ${!failed && !orders && html`<p class="blank" role="status">${t('loading')}</p>`}
    ${orders?.length === 0 && html`<p class="blank" data-test="no-orders">${t('orders.none')}${chosen.q && ` ${t('orders.whole', { q: chosen.q })}`}</p>`}
    ${orders?.length > 0 && html`<${Table} orders=${orders} marked=${marked} mark=${may && mark} />`}
    ${next && html`<button class="button quiet" data-test="more" onClick=${() => read(next)}>${t('admin.more')}</button>`}`;
}

// A change of the hash shows another search, so that each one can be linked, and the browser's back button leads to the former one.
function Filters({ chosen, may }) {
  const search = (e) => {
    e.preventDefault();
    const entered = [...new FormData(e.target)].map(([k, v]) => [k, v.trim()]).filter(([, v]) => v);
    location.hash = '#orders?' + new URLSearchParams(entered);
  };
  return html`
    <form class="filters" role="search" onSubmit=${search}>
      <label class="wider">${t('orders.q')}<input name="q" type="search" defaultValue=${chosen.q || ''} placeholder=${t('orders.qHint')} aria-describedby=${may ? undefined : 'orders-rule'} /></label>
      <label>${t('orders.sale')}<input name="sale" inputmode="numeric" size="6" defaultValue=${chosen.sale || ''} /></label>
      <label>${t('orders.status')}<select name="status">
        <option value="">${t('orders.any')}</option>
        ${STATUSES.map((s) => html`<option key=${s} value=${s} selected=${s === chosen.status}>${t('status.' + s)}</option>`)}</select></label>
      <label>${t('orders.from')}<input name="from" type="datetime-local" defaultValue=${chosen.from || ''} /></label>
      <label>${t('orders.to')}<input name="to" type="datetime-local" defaultValue=${chosen.to || ''} /></label>
      <button class="button small" data-test="search">${t('orders.search')}</button>
    </form>
    ${!may && html`<p class="rule" id="orders-rule">${t('orders.ruleViewer')}</p>`}`;
}

function Table({ orders, marked, mark }) {
  const columns = ['made', 'order', 'buyer', 'sale', 'amount', 'status', 'delivery'];
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${t('admin.orders')}><table data-test="orders">
      <thead><tr>${mark && html`<th scope="col"><span class="hidden">${t('orders.mark')}</span></th>`}
        ${columns.map((c) => html`<th scope="col">${t('orders.' + c)}</th>`)}</tr></thead>
      <tbody>${orders.map((o) => html`<tr key=${o.id} data-order=${o.id} data-status=${o.status}>
        ${mark && html`<td>${o.status === 'paid' && html`<input type="checkbox" aria-label=${t('orders.markOne', { id: o.number })}
          checked=${marked.includes(o.id)} onChange=${(e) => mark(o.id, e.target.checked)} />`}</td>`}
        <td>${formatTime(o.created_at, now())}</td>
        <td><a href=${'#orders/' + o.id}>${o.title} <span class="soft" translate="no">${o.number}</span></a></td>
        <td>${o.phone}</td>
        <td><a href=${'#orders?sale=' + o.sale_id}>${o.sale_id}</a></td>
        <td>¥${yuan(o.price)}</td>
        <td><span class="status" data-status=${o.status}>${t('status.' + o.status)}</span></td>
        <td>${t(deliveryOf(o))}</td></tr>`)}</tbody>
    </table></div>`;
}

const deliveryOf = (o) => (o.shipped_at ? 'orders.shipped' : o.has_address ? 'orders.hasAddress' : o.status === 'paid' ? 'orders.noAddress' : 'orders.noDelivery');
