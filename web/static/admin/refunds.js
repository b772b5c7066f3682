// Refunds of many orders. The shop does a part of them in each request and says what became of each, so the page goes on until
// none is left, and shows how far it is.
import { html, useState } from '../lib/preact.js';
import { post } from '../api.js';
import { Confirm } from '../dialog.js';
import { errorText, t } from '../i18n.js';
import { newKey } from '../keys.js';
import { useNote } from '../note.js';
import { retry } from '../retry.js';

const MOST = 100; // orders in one request

// refund refunds what is left, and calls onAnswers with each part of the answers, and onWait as retry does. It returns the reply of a
// request that was refused as a whole, or null.
async function refund({ orders, sale }, onAnswers, onWait) {
  for (let left = orders, cursor = ''; sale ? cursor !== null : left.length > 0;) {
    const body = sale ? { sale, ...(cursor && { cursor }) } : { orders: left.slice(0, MOST) };
    const key = newKey(); // a repetition says of each order what the lost answer did
    const reply = await retry(async () => {
      const answer = await post('/api/admin/refunds', body, { key });
      // The shop stops before an order of a locked sale. If that is the first one, the same request is sent again, later.
      const locked = answer.ok && answer.data.orders.length > 0 && answer.data.orders.every((o) => o.code === 'busy');
      return locked ? { ok: false, code: 'busy', msg: answer.data.orders[0].msg } : answer;
    }, onWait);
    if (!reply.ok) return reply;
    const done = new Set(reply.data.orders.map((o) => o.order));
    left = left.filter((id) => !done.has(id));
    cursor = reply.data.next || null;
    onAnswers(reply.data.orders);
  }
  return null;
}

export function Refunds({ orders, sale, onDone }) {
  const [asking, setAsking] = useState(null);
  const [answers, setAnswers] = useState(null);
  const [running, setRunning] = useState(false);
  const [failed, setFailed] = useNote();
  const run = async (what) => {
    setAsking(null);
    setRunning(true);
    let all = [];
    setAnswers(all);
    setFailed(await refund(what, (part) => { all = [...all, ...part]; setAnswers(all); }, setFailed));
    setRunning(false);
    onDone();
  };
  const refused = (answers || []).filter((a) => a.code !== 'ok');
  return html`
    ${orders.length > 0 && html`<button class="button small" data-test="refund-marked" disabled=${running}
      onClick=${() => setAsking({ orders, sale: 0 })}>${t('refunds.marked', { n: orders.length })}</button>`}
    ${sale > 0 && html`<button class="button quiet small" data-test="refund-sale" disabled=${running}
      onClick=${() => setAsking({ orders: [], sale })}>${t('refunds.sale', { sale })}</button>`}
    ${answers && html`<p class="note" role="status" data-test="refunds">${t(running ? 'refunds.running' : 'refunds.done', { n: answers.length - refused.length, refused: refused.length })}</p>`}
    ${failed && html`<p class="note" role="alert">${errorText(failed)}</p>`}
    ${refused.length > 0 && html`<ul class="refused">${refused.slice(0, 20).map((a) => html`<li key=${a.order}><a href=${'#orders/' + a.order}>…${a.order.slice(-6)}</a> ${a.msg}</li>`)}</ul>`}
    ${asking && html`<${Confirm} title=${asking.sale ? t('refunds.sale', { sale: asking.sale }) : t('refunds.marked', { n: asking.orders.length })} text=${t('file.refundMore')}
      yes=${t('file.refundYes')} no=${t('file.no')} test="refunds-yes" onYes=${() => run(asking)} onNo=${() => setAsking(null)} />`}`;
}
