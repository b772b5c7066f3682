// One order as the staff sees it: what it is, what became of it, and what can still be done with it.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { now } from '../clock.js';
import { Confirm } from '../dialog.js';
import { Field, errorsOf } from '../field.js';
import { errorText, formatTime, t, yuan } from '../i18n.js';
import { useKeys } from '../keys.js';
import { useNote } from '../note.js';
import { Failed } from '../shell.js';

export function OrderFile({ id, may }) {
  const [order, setOrder] = useState(null);
  const [failed, setFailed] = useState(null);
  const read = async () => {
    const reply = await get('/api/admin/orders/' + encodeURIComponent(id));
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setOrder(reply.data);
  };
  useEffect(() => { read(); }, []);
  const back = html`<p><a href="#orders">${t('file.back')}</a></p>`;
  if (failed?.code === 'not_found') return html`${back}<p class="blank">${t('order.missing')}</p>`;
  if (failed && !order) return html`<${Failed} title=${t('admin.failed')} more=${errorText(failed)} onRetry=${read} />`;
  if (!order) return html`<p class="blank" role="status">${t('loading')}</p>`;
  const time = (at) => formatTime(at, now());
  const d = order.delivery;
  return html`
    ${back}
    <article class="sheet" data-test="order-file" data-status=${order.status}>
      <h2>${order.title} · <span class="status" data-status=${order.status}>${t('status.' + order.status)}</span></h2>
      <dl class="facts">
        <${Fact} name=${t('order.number')}><span translate="no">${order.number}</span> <code>${order.id}</code></${Fact}>
        <${Fact} name=${t('order.amount')}>¥${yuan(order.price)}</${Fact}>
        <${Fact} name=${t('orders.buyer')}><span translate="no">${order.nickname} (${order.user_id}) ${order.phone}</span></${Fact}>
        <${Fact} name=${t('orders.sale')}><a href=${'#orders?sale=' + order.sale_id}>${order.sale_id}</a></${Fact}>
        <${Fact} name=${t('order.made')}>${time(order.created_at)}</${Fact}>
        ${order.status === 'pending' && html`<${Fact} name=${t('file.expires')}><span data-test="expires">${time(order.expires_at)}</span></${Fact}>`}
        ${order.paid_at && html`<${Fact} name=${t('order.paidAt')}>${time(order.paid_at)}</${Fact}>`}
        <${Fact} name=${t('address')}><span data-test="address" translate=${d.address ? 'no' : undefined}>${d.address ? `${d.name}, ${d.phone}, ${d.address}` : t('address.none')}</span></${Fact}>
        ${d.shipped_at && html`<${Fact} name=${t('address.shipped')}><span data-test="shipped">${time(d.shipped_at)} · ${d.carrier} ${d.tracking}</span></${Fact}>`}
      </dl>
      ${may && html`<${Actions} order=${order} reread=${read} />`}
      ${order.archived_at && html`<p class="tip" data-test="archived">${t('admin.archived', { time: time(order.archived_at) })}</p>`}
      <${List} title=${t('file.history')} rows=${order.history.map((m) => [time(m.at), t(m.from === 'new' ? 'file.new' : 'status.' + m.from) + ' → ' + t('status.' + m.to)])} />
      <${List} title=${t('file.payments')} rows=${order.payments.map((p) => [time(p.updated_at), `¥${yuan(p.amount)}`,
        html`${t('payment.' + p.status)} ${may && html`<${AskAgain} payment=${p} reread=${read} />`}`, `${p.provider} ${p.provider_ref}`])} />
      <${List} title=${t('file.told')} rows=${order.told.map((o) => [time(o.at), t('outcome.' + o.outcome), o.ticket])} />
    </article>`;
}

const Fact = ({ name, children }) => html`<dt>${name}</dt><dd>${children}</dd>`;

function List({ title, rows }) {
  return html`<section><h3>${title}</h3>${rows.length === 0 ? html`<p>${t('file.nothing')}</p>`
    : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`}</section>`;
}

// AskAgain has the provider asked once more about a payment that the shop has closed: the notice of late money may be lost.
function AskAgain({ payment, reread }) {
  const [asked, setAsked] = useState(false);
  const [note, setNote] = useNote();
  const { sending, send, forget } = useKeys();
  useEffect(() => {
    setNote((n) => (n?.unsure ? null : n));
    forget();
  }, [payment.status]);
  const ask = async () => {
    const reply = await send(`/api/admin/payments/${payment.id}/retry`);
    setAsked(reply.ok);
    setNote(reply.ok ? null : reply);
    await reread();
  };
  const closed = payment.status === 'closed';
  return (closed || asked || note) && html`
    ${closed && html`<button class="button quiet small" data-test="ask-again" disabled=${sending} onClick=${ask}>${t('payments.askAgain')}</button>`}
    ${asked && '· '}<span role="status" data-test="asked">${asked && t('payments.retried')}</span> <span class="error" role="alert" hidden=${!note}>${note && errorText(note)}</span>`;
}

function Actions({ order, reread }) {
  const [asking, setAsking] = useState('');
  const [note, setNote] = useNote();
  const { sending, send: post, forget } = useKeys();
  useEffect(() => { // what the order has become says whether it was done
    setNote((n) => (n?.unsure ? null : n));
    forget();
  }, [order.status]);
  const send = async (action, body) => {
    setAsking('');
    const reply = await post(`/api/admin/orders/${order.id}/${action}`, body);
    setNote(reply.ok ? null : reply);
    await reread();
    return reply;
  };
  const ask = (action) => html`<button class="button quiet small" data-test=${action} disabled=${sending} onClick=${() => setAsking(action)}>${t('file.' + action)}</button>`;
  return html`
    <div class="row tools">
      ${order.status === 'pending' && html`${ask('cancel')}
        ${[10, 60].map((minutes) => html`<button key=${minutes} class="button quiet small" data-test=${'extend-' + minutes} disabled=${sending}
          onClick=${() => send('extend', { minutes })}>${t('file.extend', { minutes })}</button>`)}`}
      ${order.status === 'paid' && ask('refund')}
    </div>
    <p class="note" role="alert" hidden=${!note || note.fields}>${note && errorText(note)}</p>
    ${order.status === 'pending' && html`<${Paid} send=${send} sending=${sending} />`}
    ${order.status === 'paid' && html`<${Ship} order=${order} send=${send} sending=${sending} />`}
    ${asking && html`<${Confirm} title=${t(`file.${asking}Ask`)} text=${t(`file.${asking}More`)} yes=${t(`file.${asking}Yes`)} no=${t('file.no')}
      test=${asking + '-yes'} onYes=${() => send(asking)} onNo=${() => setAsking('')} />`}`;
}

// Paid takes a payment that came without a notice, such as a transfer.
function Paid({ send, sending }) {
  const [reference, setReference] = useState('');
  const [error, setError] = useState('');
  const confirm = async (e) => {
    e.preventDefault();
    const reply = await send('confirm', { reference });
    setError(reply.ok ? '' : errorsOf(reply, ['reference'])?.reference || '');
  };
  return html`
    <form class="filters" onSubmit=${confirm}>
      <${Field} id="reference" label=${t('confirm.reference')} value=${reference} error=${error} onValue=${setReference} />
      <button class="button quiet small" data-test="confirm-paid" disabled=${sending}>${t('confirm.go')}</button>
    </form>`;
}

function Ship({ order, send, sending }) {
  const [shipment, setShipment] = useState({ carrier: order.delivery.carrier, tracking: order.delivery.tracking });
  const [errors, setErrors] = useState({});
  const ship = async (e) => {
    e.preventDefault();
    const reply = await send('ship', shipment);
    setErrors(reply.ok ? {} : errorsOf(reply, ['carrier', 'tracking']) || {});
  };
  return html`
    <form class="filters" onSubmit=${ship}>
      ${['carrier', 'tracking'].map((name) => html`<${Field} key=${name} id=${name} label=${t('ship.' + name)} value=${shipment[name]} kind=${name === 'tracking' ? 'tracking' : 'line'} error=${errors[name]}
        onValue=${(v) => { setShipment({ ...shipment, [name]: v }); setErrors({ ...errors, [name]: '' }); }} />`)}
      <button class="button small" data-test="ship" disabled=${sending}>${t(order.delivery.shipped_at ? 'ship.correct' : 'ship.go')}</button>
    </form>`;
}
