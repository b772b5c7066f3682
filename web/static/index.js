// The list: a menu of time slots, and the sales of the selected slot.
import { html, useEffect, useState } from './lib/preact.js';
import { Card } from './card.js';
import { now, useSecond } from './clock.js';
import { dayOf, formatTime, t } from './i18n.js';
import { ownImage } from './parts.js';
import { poll } from './poll.js';
import { jitter } from './retry.js';
import { Failed, mount, setTitle } from './shell.js';
import { causeOf, Trouble } from './trouble.js';

const slotInUrl = () => new URLSearchParams(location.search).get('slot') || '';

function List({ lang }) {
  const [slot, setSlot] = useState(slotInUrl());
  const [slots, setSlots] = useState([]);
  const [sales, setSales] = useState(null); // null: not yet read
  const [trouble, setTrouble] = useState(null);
  const [noSlot, setNoSlot] = useState(false); // the address names none of the menu
  const [tries, setTries] = useState(0);

  useEffect(() => setTitle(t('list.title')), [lang]);
  useEffect(() => {
    const onBack = () => setSlot(slotInUrl());
    addEventListener('popstate', onBack);
    return () => removeEventListener('popstate', onBack);
  }, []);
  useEffect(() => poll('/api/slots', { onData: (all) => setSlots(all.filter((s) => !s.empty)), interval: () => jitter(60_000) }).stop, []);
  useEffect(() => { setSales(null); setNoSlot(false); }, [slot]);
  useEffect(() => {
    const url = '/api/sales' + (slot ? '?slot=' + encodeURIComponent(slot) : '');
    return poll(url, {
      onData: (data, trouble) => { setSales(data); setTrouble(trouble); },
      onError: (reply, trouble) => (reply.code === 'bad_request' ? (setNoSlot(true), false) : setTrouble(trouble)),
      interval,
    }).stop;
  }, [slot, lang, tries]);
  useEffect(() => sales?.forEach(prefetch), [sales]);

  const select = (event, to) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState(null, '', to ? '/?slot=' + encodeURIComponent(to) : '/');
    setSlot(to);
  };
  return html`
    <h1 class="hidden">${t('list.title')}</h1>
    <${Menu} slots=${slots} slot=${slot} select=${select} />
    ${sales && html`<${Trouble} trouble=${trouble} />`}
    ${noSlot ? html`<${Failed} title=${t('list.noSlot')} />`
      : trouble?.reply && !sales ? html`<${Failed} title=${t('trouble.' + causeOf(trouble.reply))} more=${t('trouble.more.' + causeOf(trouble.reply))} onRetry=${() => setTries(tries + 1)} />`
      : !sales ? html`<div class="grid" aria-busy="true">${[1, 2, 3, 4].map(() => html`<div class="card ghost"></div>`)}</div>`
      : !sales.length ? html`<p class="blank">${t(slot ? 'list.empty' : 'list.emptyNow')}</p>`
      : slot ? html`<${Group} sales=${sales} />`
      : html`<${Groups} sales=${sales} />`}`;
}

function Groups({ sales }) {
  const by = (...states) => sales.filter((s) => states.includes(s.state));
  return html`
    <${Group} head=${t('list.onNow')} sales=${by('open', 'paused')} />
    <${Group} head=${t('list.next')} sales=${oncePerOffer(by('upcoming'))} />
    <${Group} head=${t('list.over')} sales=${by('sold_out', 'ended')} />`;
}

// oncePerOffer returns the first sale of each goods and price, with the later ones as also.
function oncePerOffer(sales) {
  const offers = new Map();
  for (const s of [...sales].sort((a, b) => Date.parse(a.start_at) - Date.parse(b.start_at))) {
    const key = JSON.stringify([s.title, s.image, s.price, s.list_price]);
    if (offers.has(key)) offers.get(key).also.push(s);
    else offers.set(key, { ...s, also: [] });
  }
  return [...offers.values()];
}

// prefetch fetches the picture of a sale that opens soon: its card may be far down the page, and at the opening the line is busy.
const fetched = new Set();
function prefetch({ state, image, start_at: start }) {
  if (state !== 'upcoming' || Date.parse(start) - now() > 300_000 || fetched.has(image)) return;
  fetched.add(image);
  new Image().src = ownImage(image);
}

const Group = ({ head, sales }) => (sales.length === 0 ? null : html`
  <section>
    ${head && html`<h2>${head}</h2>`}
    <ul class="grid">${sales.map((s) => html`<${Card} key=${s.id} sale=${s} />`)}</ul>
  </section>`);

// Menu is one stop of the tab key; the arrow keys, Home and End go from slot to slot.
function Menu({ slots, slot, select }) {
  const today = useSecond(() => dayOf(new Date(now())));
  const current = slot || (slots.find((s) => s.state === 'open') || {}).start_at;
  useEffect(() => { // scroll the current slot into view, sideways only
    const strip = document.querySelector('.menu');
    const item = strip && [...strip.querySelectorAll('[data-slot]')].find((a) => a.dataset.slot === current);
    if (item) strip.scrollLeft += item.getBoundingClientRect().left - strip.firstElementChild.getBoundingClientRect().right - 10;
  }, [current, slots.length]);
  const keys = ['', ...slots.map((s) => s.start_at)];
  const [stop, setStop] = useState(null); // the slot that the keyboard was at last
  const tabStop = [stop, slot, ''].find((key) => keys.includes(key));
  const onKeyDown = (event) => {
    const at = keys.indexOf(event.target.closest('a')?.dataset.slot);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: keys.length - 1 }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.currentTarget.children[Math.min(Math.max(to, 0), keys.length - 1)].focus();
  };
  const item = (key, big, small, state) => html`
    <a key=${key} href=${key ? '/?slot=' + encodeURIComponent(key) : '/'} data-slot=${key} data-state=${state} tabindex=${key === tabStop ? 0 : -1}
      onFocus=${() => setStop(key)} aria-current=${slot === key ? 'page' : undefined} onClick=${(e) => select(e, key)}><b>${big}</b><span>${small}</span></a>`;
  return html`<nav class="menu" aria-label=${t('list.menu')} onKeyDown=${onKeyDown}>
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
