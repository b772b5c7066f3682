// The form of a new sale: of new goods, of goods that exist, or as a copy of a former sale.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { now } from '../clock.js';
import { t } from '../i18n.js';
import { Drawing } from '../parts.js';
import { Failed } from '../shell.js';
import { localTime, said, useForm } from './form.js';
import { ItemFields, itemBody, itemValues } from './goods.js';
import { TermsFields, termsBody, termsOf } from './sale.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

export function NewSale({ copy, goods, may }) {
  const [like, setLike] = useState(copy || goods ? null : {});
  const [failed, setFailed] = useState(null);
  const read = async () => {
    const reply = await get(copy ? '/api/admin/sales/' + copy : '/api/admin/goods/' + goods);
    setFailed(reply.ok ? null : reply);
    if (!reply.ok) return;
    const { title, picture } = reply.data;
    setLike({ goods: { id: copy ? reply.data.goods_id : reply.data.id, title, picture }, terms: copy ? termsOf(later(reply.data)) : undefined });
  };
  useEffect(() => { if (!like) read(); }, []);
  if (!may) return html`<p class="blank">${t('admin.viewer')}</p>`;
  if (failed) return html`<${Failed} title=${t('admin.failed')} more=${said(failed)} onRetry=${read} />`;
  return like ? html`<${Form} like=${like} />` : html`<p class="blank" role="status">${t('loading')}</p>`;
}

// later moves the window of a sale by whole days, until it is ahead.
function later(sale) {
  const days = Math.max(0, Math.ceil((now() - Date.parse(sale.start_at)) / DAY)) * DAY;
  return { ...sale, start_at: Date.parse(sale.start_at) + days, end_at: Date.parse(sale.end_at) + days };
}

function Form({ like }) {
  const begin = Math.ceil((now() + HOUR) / HOUR) * HOUR;
  const terms = like.terms ?? { price: '', stock: '100', start_at: localTime(begin), end_at: localTime(begin + HOUR) };
  const f = useForm('new', { ...itemValues(), ...terms });
  const send = async (event) => {
    const item = like.goods ? { goods_id: like.goods.id } : itemBody(f.values);
    const reply = await f.send(event, '/api/admin/sales', { ...item, ...termsBody(f.values), state: event.submitter.value });
    if (reply.ok) location.hash = '#sales/' + reply.data.id;
  };
  return html`
    <form class="sheet" ref=${f.form} onSubmit=${send} data-test="sale-form">
      <h2>${t('sales.new')}</h2>
      ${like.goods ? html`<div class="thing"><span class="small-picture"><${Drawing} src=${like.goods.picture} /></span><b>${like.goods.title}</b></div>` : html`<${ItemFields} f=${f} />`}
      <${TermsFields} f=${f} />
      ${f.note}
      <p class="row"><button class="button" disabled=${f.sending || f.values.uploading} value="draft" data-test="make-draft">${t('sales.makeDraft')}</button>
        <button class="button quiet" disabled=${f.sending || f.values.uploading} value="published" data-test="make-published">${t('sales.makePublished')}</button>
        <a class="button quiet" href="#sales">${t('admin.back')}</a></p>
    </form>`;
}
