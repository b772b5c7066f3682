// The list: a menu of time slots, and the sales of the chosen one.
import { html, useEffect, useState } from './lib/preact.js';
import { Card } from './card.js';
import { now, useSecond } from './clock.js';
import { follow } from './follow.js';
import { dayOf, t, when } from './i18n.js';
import { spread } from './patience.js';
import { Failed, mount, title } from './shell.js';

const chosen = () => new URLSearchParams(location.search).get('slot') || '';

function List({ lang }) {
  const [slot, setSlot] = useState(chosen());
  const [slots, setSlots] = useState([]);
  const [sales, setSales] = useState(null); // null: not read yet
  const [failed, setFailed] = useState(false);
  const [turn, again] = useState(0);

  useEffect(() => title(t('list.title')), [lang]);
  useEffect(() => {
    const back = () => setSlot(chosen());
    addEventListener('popstate', back);
    return () => removeEventListener('popstate', back);
  }, []);
  useEffect(() => follow('/api/slots', { good: setSlots, wait: () => spread(60_000) }).stop, []);
  useEffect(() => {
    setSales(null);
  }, [slot]);
  useEffect(() => {
    const way = '/api/sales' + (slot ? '?slot=' + encodeURIComponent(slot) : '');
    return follow(way, {
      good: (data) => { setSales(data); setFailed(false); },
      bad: () => setFailed(true),
      wait: next,
    }).stop;
  }, [slot, lang, turn]);

  const pick = (event, to) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState(null, '', to ? '/?slot=' + encodeURIComponent(to) : '/');
    setSlot(to);
  };
  return html`
    <h1 class="hidden">${t('list.title')}</h1>
    <${Menu} slots=${slots} slot=${slot} pick=${pick} />
    ${failed && sales && html`<p class="note" role="status">${t('stale')}</p>`}
    ${failed && !sales ? html`<${Failed} title=${t('list.failed')} more=${t('why.busy')} again=${() => again(turn + 1)} />`
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

function Menu({ slots, slot, pick }) {
  const today = dayOf(new Date(useSecond()));
  const lead = slot || (slots.find((s) => s.state === 'open') || {}).start_at;
  useEffect(() => { // bring the slot of the moment into view, sideways only
    const strip = document.querySelector('.menu');
    const item = strip && [...strip.querySelectorAll('[data-slot]')].find((a) => a.dataset.slot === lead);
    if (item) strip.scrollLeft += item.getBoundingClientRect().left - strip.firstElementChild.getBoundingClientRect().right - 10;
  }, [lead, slots.length]);
  const item = (key, big, small, state) => html`
    <a key=${key} href=${key ? '/?slot=' + encodeURIComponent(key) : '/'} data-slot=${key} data-state=${state}
      aria-current=${slot === key ? 'page' : undefined} onClick=${(e) => pick(e, key)}><b>${big}</b><span>${small}</span></a>`;
  return html`<nav class="menu" aria-label=${t('list.menu')}>
    ${item('', t('list.nowShort'), t('list.nextShort'), 'now')}
    ${slots.map((s) => {
      const at = new Date(s.start_at);
      const later = dayOf(at) > today;
      return item(s.start_at, when(at, at), later ? t('tomorrow') : t('slot.' + s.state), s.state);
    })}</nav>`;
}

// next is how long to wait before reading again: sooner when a sale is about to change.
function next(sales) {
  const moments = sales.flatMap((s) => [Date.parse(s.start_at), Date.parse(s.end_at)]).filter((ms) => ms > now());
  return Math.min(...moments.map((ms) => ms - now() + 100 + Math.random() * 700), spread(8_000));
}

mount(List);
