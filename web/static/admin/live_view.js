// The live view: the figures of a sale, or of the whole shop, once a second. It pauses while its tab is hidden.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { loadTexts, lang, t } from '../i18n.js';
import { Charts, withPoint } from './live_charts.js';
import { liveStream } from './live_stream.js';

await loadTexts({ zh: () => import('./words/live_zh.js'), en: () => import('./words/live_en.js') });

const EMPTY = { at: [], columns: {} };
const TRYING = ['connecting', 'live', 'paused', 'broken', 'full']; // the other states are codes of refusals
const SPANS = [120, 600, 7200, 0]; // seconds

// sale is the id of a sale, '' for the whole shop; link is given on the page for guests; href makes the address of a sale's view.
export function LiveView({ sale, link, href }) {
  const [now, setNow] = useState(null);
  const [history, setHistory] = useState(EMPTY);
  const [state, setState] = useState('connecting');
  const [span, setSpan] = useState(SPANS[0]);
  const hidden = useHidden();
  const box = useRef();
  useEffect(() => {
    if (hidden) {
      setState('paused');
      return undefined;
    }
    return liveStream({ sale, link, onState: setState, onEvent: (name, data) => {
      if (name === 'history') return setHistory(data);
      setNow(data);
      if (data.point) setHistory((h) => withPoint(h, Math.floor(Date.parse(data.at) / 1000), data.point));
    } });
  }, [sale, link, hidden]);
  const known = now && (now.sale?.id ?? 0) === Number(sale || 0);
  return html`<div class="live" ref=${box} data-test="live" data-state=${state}>
    <${Head} now=${known && now} sale=${sale} href=${href} state=${state} onFull=${() => box.current.requestFullscreen?.()} />
    ${!known && !sale && TRYING.includes(state) && html`<p class="blank" role="status">${t('loading')}</p>`}
    ${now && sale && !now.tracked && html`<p class="note" data-test="not-tracked">${t('live.untracked')}</p>`}
    ${known && html`
      <${Warnings} now=${now} />
      <${Figures} now=${now} />
      <div class="row spans" role="group" aria-label=${t('live.span')}>${SPANS.map((s) => html`
        <button key=${s} class="button quiet small" aria-pressed=${s === span} onClick=${() => setSpan(s)}>${t('live.span.' + s)}</button>`)}</div>
      <${Charts} history=${history} span=${span} />
      <div class="tables"><${Answers} now=${now} /><${Latency} latency=${now.latency} /></div>
      ${now.sales?.length > 0 && html`<${Sales} sales=${now.sales} href=${href} />`}
      <${Processes} processes=${now.processes} />`}
  </div>`;
}

function Head({ now, sale, href, state, onFull }) {
  const title = now && now.sale ? (lang() === 'en' && now.sale.title_en) || now.sale.title : sale ? t('live.sale', { id: sale }) : t('live.shop');
  return html`<div class="live-head">
    <div><h2>${title}</h2>${now?.sale && html`<p class="more">${t('live.state.' + now.sale.state)} · ${clock(now.sale.start_at)}–${clock(now.sale.end_at)}</p>`}</div>
    <span class="beat" role="status" data-test="live-state" data-state=${state}>${t('live.is.' + (KNOWN_STATES.includes(state) ? state : 'refused'))}</span>
    ${sale && html`<a class="button quiet small" href=${href('')}>${t('live.all')}</a>`}
    <button class="button quiet small" data-test="full" onClick=${onFull}>${t('live.full')}</button></div>`;
}
const KNOWN_STATES = ['connecting', 'live', 'paused', 'broken', 'full', 'bad_link', 'not_logged_in'];

function Warnings({ now }) {
  const missing = now.processes.filter((p) => p.state === 'missing').length;
  return html`
    ${now.redis !== 'ok' && html`<p class="note" role="alert" data-test="redis-away">${t('live.redis-away')}</p>`}
    ${now.postgres !== 'ok' && html`<p class="note" role="alert" data-test="postgres-away">${t('live.postgres-away', { s: now.units ? Math.round(now.units.age_ms / 1000) : 0 })}</p>`}
    ${missing > 0 && html`<p class="note" role="alert" data-test="missing">${t('live.missing', { n: missing })}</p>`}`;
}

const sum = (counts, test) => Object.entries(counts).reduce((all, [name, n]) => all + (test(name) ? n : 0), 0);
const isBuy = (name) => name.startsWith('buy.');
const unknown = '—';

function Figures({ now: { units, rates, totals, peaks, point, oldest_ms: oldest } }) {
  const rate = (name) => (point[name] === null ? unknown : perSecond(point[name]));
  const peak = (name) => (peaks[name] ? t('live.peak', { n: perSecond(peaks[name].per_second), at: clock(peaks[name].at * 1000) }) : '');
  const big = (name, value, ...more) => html`<div key=${name} class="tile"><dt>${t('live.' + name)}</dt>
    <dd data-test=${'live-' + name}>${value}</dd>${more.filter(Boolean).map((m) => html`<dd class="more">${m}</dd>`)}</div>`;
  const counted = units?.paid !== undefined; // orders are counted later than units
  return html`<dl class="tiles">
    ${big('left', units ? whole(units.left) : unknown, units && t('live.of', { n: whole(units.total) }))}
    ${big('sold', units ? whole(units.sold) : unknown, counted && t('live.pending', { n: whole(units.pending) }))}
    ${big('paid', counted ? whole(units.paid + units.refunded) : unknown, counted && t('live.back', { cancelled: whole(units.cancelled), refunded: whole(units.refunded) }))}
    ${big('requests', rate('requests'), t('live.total', { n: whole(sum(totals, isBuy)) }), peak('requests'))}
    ${big('tickets', rate('tickets'), t('live.total', { n: whole(totals.tickets || 0) }), peak('tickets'))}
    ${big('orders', rate('orders'), t('live.total', { n: whole(totals.orders || 0) }), peak('orders'))}
    ${big('payments', rate('paid'), peak('paid'))}
    ${big('oldest', point.oldest_ms === null ? unknown : t('live.ms', { n: whole(oldest) }))}
    ${totals.requests !== undefined && big('http', perSecond(rates.requests || 0), t('live.total', { n: whole(totals.requests) }))}
  </dl>`;
}

// Answers shows what buyers were told: in all, and each second.
function Answers({ now: { rates, totals } }) {
  const names = Object.keys(totals).filter((name) => name.includes('.')).sort((a, b) => totals[b] - totals[a]);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('live.answers')}><table data-test="answers"><caption>${t('live.answers')}</caption>
    <thead><tr><th scope="col">${t('live.answer')}</th><th scope="col" class="count">${t('live.now')}</th><th scope="col" class="count">${t('live.in-all')}</th></tr></thead>
    <tbody>${names.map((name) => {
      const [step, answer] = name.split('.');
      return html`<tr key=${name} data-answer=${name}><td>${t('live.step.' + step)} · ${t('live.answer.' + answer)}</td>
        <td class="count">${perSecond(rates[name] || 0)}</td><td class="count">${whole(totals[name])}</td></tr>`;
    })}</tbody></table></div>`;
}

function Latency({ latency }) {
  const ms = (v) => (v < 10 ? v.toFixed(1) : whole(v));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('live.latency')}><table data-test="latency"><caption>${t('live.latency')}</caption>
    <thead><tr><td></td><th scope="col" class="count">p50</th><th scope="col" class="count">p99</th></tr></thead>
    <tbody>${['buy', 'redis', 'postgres'].map((name) => html`<tr key=${name}><th scope="row">${t('live.latency.' + name)}</th>
      <td class="count">${latency[name] ? ms(latency[name].p50) : unknown}</td><td class="count">${latency[name] ? ms(latency[name].p99) : unknown}</td></tr>`)}</tbody></table></div>`;
}

function Sales({ sales, href }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('live.sales')}><table data-test="sales"><caption>${t('live.sales')}</caption>
    <thead><tr><th scope="col">${t('live.title')}</th><th scope="col">${t('live.window')}</th><th scope="col" class="count">${t('live.left')}</th>
      <th scope="col" class="count">${t('live.requests')}</th></tr></thead>
    <tbody>${sales.map((s) => html`<tr key=${s.id}><td><a href=${href(s.id)}>${(lang() === 'en' && s.title_en) || s.title}</a></td>
      <td>${t('live.state.' + s.state)} · ${clock(s.start_at)}–${clock(s.end_at)}</td><td class="count">${whole(s.left)} / ${whole(s.total)}</td>
      <td class="count">${perSecond(s.rate)}</td></tr>`)}</tbody></table></div>`;
}

function Processes({ processes }) {
  if (!processes[0]?.name) return html`<p class="more" data-test="processes">${t('live.processes.n', { n: processes.filter((p) => p.state === 'here').length })}</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${t('live.processes')}><table data-test="processes"><caption>${t('live.processes')}</caption>
    <thead><tr>${['process', 'version', 'up', 'memory', 'goroutines', 'breaker', 'queued'].map((c) => html`<th key=${c} scope="col">${t('live.' + c)}</th>`)}</tr></thead>
    <tbody>${processes.map((p) => html`<tr key=${p.name} data-process=${p.state}><td>${p.name}${p.state !== 'here' && html` <b class="gone">${
      t('live.process.' + p.state, { s: Math.round((p.silent_ms || 0) / 1000) })}</b>`}</td><td>${p.version || unknown}</td>
      <td>${p.up_s ? t('live.minutes', { n: Math.floor(p.up_s / 60) }) : unknown}</td><td>${p.memory ? whole(p.memory / 2 ** 20) + ' MB' : unknown}</td>
      <td>${p.goroutines ? whole(p.goroutines) : unknown}</td><td>${p.breaker ? t('live.breaker.' + p.breaker) : unknown}</td><td>${whole(p.queued || 0)}</td></tr>`)}</tbody></table></div>`;
}

const whole = (n) => Math.round(n).toLocaleString(lang() === 'zh' ? 'zh-CN' : 'en-GB');
const perSecond = (n) => t('live.rate', { n: n > 0 && n < 10 ? n.toFixed(1) : whole(n) });
const clock = (at) => new Date(at).toLocaleTimeString(lang() === 'zh' ? 'zh-CN' : 'en-GB', { hour: '2-digit', minute: '2-digit', hour12: false });

function useHidden() {
  const [hidden, setHidden] = useState(document.hidden);
  useEffect(() => {
    const onChange = () => setHidden(document.hidden);
    document.addEventListener('visibilitychange', onChange);
    return () => document.removeEventListener('visibilitychange', onChange);
  }, []);
  return hidden;
}
