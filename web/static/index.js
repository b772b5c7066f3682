// The list: a menu of time slots, and the sales of the selected slot.
import { html, useEffect, useState } from './lib/preact.js';
import { Card } from './card.js';
import { now, useSecond } from './clock.js';
import { dayOf, formatTime, t } from './i18n.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { Failed, mount, setTitle } from './shell.js';

const slotInUrl = () => new URLSearchParams(location.search).get('slot') || '';

function List({ lang }) {
  const [slot, setSlot] = useState(slotInUrl());
  const [slots, setSlots] = useState([]);
  const [sales, setSales] = useState(null); // null: not yet read
  const [failed, setFailed] = useState(false);
  const [tries, setTries] = useState(0);

  useEffect(() => setTitle(t('list.title')), [lang]);
  useEffect(() => {
    const onBack = () => setSlot(slotInUrl());
    addEventListener('popstate', onBack);
    return () => removeEventListener('popstate', onBack);
  }, []);
  useEffect(() => poll('/api/slots', { onData: setSlots, interval: () => jitter(60_000) }).stop, []);
  useEffect(() => setSales(null), [slot]);
  useEffect(() => {
    const url = '/api/sales' + (slot ? '?slot=' + encodeURIComponent(slot) : '');
    return poll(url, {
      onData: (data) => { setSales(data); setFailed(false); },
      onError: () => setFailed(true),
      interval,
    }).stop;
  }, [slot, lang, tries]);

  const select = (event, to) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState(null, '', to ? '/?slot=' + encodeURIComponent(to) : '/');
    setSlot(to);
  };
  return html`
    <h1 class="hidden">${t('list.title')}</h1>
    <${Menu} slots=${slots} slot=${slot} select=${select} />
    ${failed && sales && html`<p class="note" role="status">${t('stale')}</p>`}
    ${failed && !sales ? html`<${Failed} title=${t('list.failed')} more=${t('error.busy')} onRetry=${() => setTries(tries + 1)} />`
      : !sales ? html`<div class="grid" aria-busy="true">${[1, 2, 3, 4].map(() => html`<div class="card ghost"></div>`)}</div>`
      : !sales.length ? html`<p class="blank">${t(slot ? 'list.empty' : 'list.emptyNow')}</p>`
      : slot ? html`<${Group} sales=${sales} />`
      : html`<${Groups} sales=${sales} />`}`;
}

function Groups({ sales }) {
  const by = (...states) => sales.filter((s) => states.includes(s.state));
  return html`
    <${Group} head=${t('list.onNow')} sales=${by('open', 'paused')} />
    <${Group} head=${t('list.next')} sales=${by('upcoming')} />
    <${Group} head=${t('list.over')} sales=${by('sold_out', 'ended')} />`;
}

const Group = ({ head, sales }) => (sales.length === 0 ? null : html`
  <section>
    ${head && html`<h2>${head}</h2>`}
    <ul class="grid">${sales.map((s) => html`<${Card} key=${s.id} sale=${s} />`)}</ul>
  </section>`);

function Menu({ slots, slot, select }) {
  const today = dayOf(new Date(useSecond()));
  const current = slot || (slots.find((s) => s.state === 'open') || {}).start_at;
  useEffect(() => { // scroll the current slot into view, sideways only
    const strip = document.querySelector('.menu');
    const item = strip && [...strip.querySelectorAll('[data-slot]')].find((a) => a.dataset.slot === current);
    if (item) strip.scrollLeft += item.getBoundingClientRect().left - strip.firstElementChild.getBoundingClientRect().right - 10;
  }, [current, slots.length]);
  const item = (key, big, small, state) => html`
    <a key=${key} href=${key ? '/?slot=' + encodeURIComponent(key) : '/'} data-slot=${key} data-state=${state}
      aria-current=${slot === key ? 'page' : undefined} onClick=${(e) => select(e, key)}><b>${big}</b><span>${small}</span></a>`;
  return html`<nav class="menu" aria-label=${t('list.menu')}>
    ${item('', t('list.onNow'), t('list.nextShort'), 'now')}
    ${slots.map((s) => {
      const at = new Date(s.start_at);
      const later = dayOf(at) > today;
      return item(s.start_at, formatTime(at, at), later ? t('tomorrow') : t('state.' + s.state), s.state);
    })}</nav>`;
}

// interval returns the ms until the next read: fewer if a sale is about to open or end.
function interval(sales) {
  const changes = sales.flatMap((s) => [Date.parse(s.start_at), Date.parse(s.end_at)]).filter((ms) => ms > now());
  return Math.min(...changes.map((ms) => ms - now() + 100 + Math.random() * 700), jitter(8_000));
}

mount(List);
