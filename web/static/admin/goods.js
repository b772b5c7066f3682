// The catalogue: a list of goods, and the form of one of them with its picture.
import { html, useEffect, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { t, yuan } from '../i18n.js';
import { Drawing } from '../parts.js';
import { Failed } from '../shell.js';
import { MONEY, fen, said, useForm } from './form.js';
import { Picture } from './picture.js';

export function Goods({ arg, may }) {
  if (arg === 'new') return html`<${Item} item=${null} may=${may} />`;
  return arg ? html`<${Open} key=${arg} id=${arg} may=${may} />` : html`<${List} may=${may} />`;
}

function List({ may }) {
  const [items, setItems] = useState(null);
  const [next, setNext] = useState(0);
  const [failed, setFailed] = useState(null);
  const read = async (cursor) => {
    const reply = await get('/api/admin/goods' + (cursor ? '?cursor=' + cursor : ''));
    setFailed(reply.ok ? null : reply);
    if (!reply.ok) return;
    setItems(cursor ? [...items, ...reply.data.goods] : reply.data.goods);
    setNext(reply.data.next);
  };
  useEffect(() => { read(); }, []);
  if (failed && !items) return html`<${Failed} title=${t('admin.failed')} more=${said(failed)} onRetry=${() => read()} />`;
  if (!items) return html`<p class="blank" role="status">${t('loading')}</p>`;
  return html`
    ${may && html`<p class="filters"><a class="button small" href="#goods/new" data-test="new-goods">${t('goods.new')}</a></p>`}
    ${!items.length && html`<p class="blank">${t('goods.empty')}</p>`}
    <ul class="shelf" data-test="goods">${items.map((it) => html`
      <li key=${it.id}><a href=${'#goods/' + it.id}><${Drawing} src=${it.picture} lazy />
        <span><b>${it.title}</b><small>${it.title_en}</small><small>${t('goods.inSales', { n: it.sales })}${it.list_price > 0 && html` · ¥${yuan(it.list_price)}`}</small></span></a></li>`)}</ul>
    ${next > 0 && html`<button class="button quiet" onClick=${() => read(next)}>${t('admin.more')}</button>`}`;
}

function Open({ id, may }) {
  const [item, setItem] = useState(null);
  const [failed, setFailed] = useState(null);
  const read = async () => {
    const reply = await get('/api/admin/goods/' + encodeURIComponent(id));
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setItem(reply.data);
  };
  useEffect(() => { read(); }, [id]);
  if (failed) return html`<${Failed} title=${t('admin.failed')} more=${said(failed)} onRetry=${read} />`;
  if (!item) return html`<p class="blank" role="status">${t('loading')}</p>`;
  return html`<${Item} item=${item} may=${may} />`;
}

// itemValues are the values of the fields of an item, or of a new one.
export const itemValues = (it) => ({
  title: it?.title ?? '', title_en: it?.title_en ?? '', image: it?.image ?? '', picture: it?.picture ?? '', detail: it?.detail ?? '',
  detail_en: it?.detail_en ?? '', list_price: it?.list_price ? yuan(it.list_price) : '',
});

// itemBody is what the shop takes of them.
export const itemBody = ({ title, title_en, image, detail, detail_en, list_price }) => ({ title, title_en, image, detail, detail_en, list_price: fen(list_price) ?? 0 });

// ItemFields are the fields of an item within a form.
export function ItemFields({ f }) {
  return html`
    ${f.field('title', t('goods.title'), { required: true })}
    ${f.field('title_en', t('goods.titleEN'), { lang: 'en' })}
    <${Picture} f=${f} />
    ${f.field('detail', t('goods.detail'), { area: true })}
    ${f.field('detail_en', t('goods.detailEN'), { area: true, lang: 'en' })}
    ${f.field('list_price', t('goods.listPrice'), MONEY)}`;
}

function Item({ item, may }) {
  const f = useForm('goods', itemValues(item));
  const [done, setDone] = useState('');
  const send = async (event) => {
    setDone('');
    const reply = await f.send(event, '/api/admin/goods' + (item ? '/' + item.id : ''), itemBody(f.values));
    if (!reply.ok) return;
    if (item) setDone(t('goods.saved'));
    else location.hash = '#goods/' + reply.data.id;
  };
  return html`
    <form class="sheet" ref=${f.form} onSubmit=${send} onInput=${() => setDone('')} data-test="goods-form">
      <h2>${item ? item.title : t('goods.new')}</h2>
      <fieldset disabled=${!may || f.sending}><${ItemFields} f=${f} /></fieldset>
      ${f.note}<p role="status" data-test="done">${done}</p>
      <p class="row">${may && html`<button class="button" disabled=${f.sending || f.values.uploading} data-test="save">${t('admin.save')}</button>`}
        ${may && item && html`<a class="button quiet" href=${'#sales/goods/' + item.id}>${t('goods.sell')}</a>`}
        <a class="button quiet" href="#goods">${t('admin.back')}</a></p>
    </form>`;
}
