// A list of the shop that is read page by page, and the filters above it. The filters are in the URL's hash, so a filtered list
// can be bookmarked, and the browser's back button works.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { errorText, t } from '../i18n.js';

// useList reads a list at path: rows (null until read), the last reply and refusal, and functions that read the next page, if there is
// one, and the list again. name is the field of the reply that has the rows.
export function useList(path, name, params) {
  const [list, setList] = useState({ rows: null, next: 0, last: null });
  const [failed, setFailed] = useState(null);
  const query = params.toString();
  const asked = useRef();
  const read = async (cursor) => {
    const reply = await get(`${path}?${query}${cursor ? '&cursor=' + cursor : ''}`);
    if (asked.current !== query) return; // the filters have changed meanwhile
    setFailed(reply.ok ? null : reply);
    if (reply.ok) setList((old) => ({ rows: cursor ? [...old.rows, ...reply.data[name]] : reply.data[name], next: reply.data.next, last: reply.data }));
  };
  useEffect(() => {
    asked.current = query;
    setList({ rows: null, next: 0, last: null }); // not those of other filters
    setFailed(null);
    read();
  }, [query]);
  return { ...list, failed, more: list.next ? () => read(list.next) : undefined, again: () => read() };
}

// Filters is a form of fields with names. What is filled in becomes the hash of the section.
export function Filters({ section, params, children }) {
  const apply = (event) => {
    event.preventDefault();
    const chosen = new URLSearchParams([...new FormData(event.target)].filter(([, value]) => value !== ''));
    location.hash = section + '/' + chosen;
  };
  return html`<form class="filters" key=${params.toString()} onSubmit=${apply} data-test="filters">${children}
    <button class="button quiet small">${t('list.filter')}</button></form>`;
}

// why says which fields a refused search has wrong, or why it was refused.
export const why = (reply) => reply.fields?.map((f) => f.msg).join(' ') || errorText(reply);

// More stands below the rows: why the last read failed, and a button for the next page.
export const More = ({ list }) => html`
  ${list.failed && html`<p class="note" role="alert">${why(list.failed)}</p>`}
  ${list.more && html`<button class="button quiet" onClick=${list.more}>${t('admin.more')}</button>`}`;
