// The charts of the live view, drawn with uPlot. Their data is the history of the stream, and a point more each second.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { lang, t } from '../i18n.js';
import { lateStyle } from '../late_style.js';
import { load } from '../lost.js';

const KEEP = 4000; // points in a chart: all that the shop keeps, and an hour more

// [title, unit, lines]; a line is a column of the history and the colour it has in live.css
const CHARTS = [
  ['requests', 'rate', [['requests', 1], ['refused', 2]]],
  ['sold', 'rate', [['tickets', 3], ['orders', 1], ['paid', 4]]],
  ['left', 'units', [['left', 1]]],
  ['latency', 'ms', [['buy_p99', 1], ['redis_p99', 3], ['postgres_p99', 4]]],
];

const DASHES = { 2: [8, 4], 3: [2, 3], 4: [10, 3, 2, 3] }; // of a line, so that it is not told by its colour alone

// span is how many seconds are shown; 0 is all.
export function Charts({ history, span }) {
  const [uPlot, setUPlot] = useState(null);
  const box = useRef();
  useEffect(() => { // the charts are drawn when they come into the window: on a phone that is not at the start
    const watch = new IntersectionObserver(async (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      const [module] = await Promise.all([load(() => import('../lib/uplot/uplot.js')), lateStyle(new URL('../lib/uplot/uplot.css', import.meta.url).href)]);
      if (module) setUPlot(() => module.default);
    });
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return html`<div class="charts" ref=${box} data-points=${history.at.length}>${CHARTS.map(([title, unit, lines]) => html`
    <${Chart} key=${title + lang()} uPlot=${uPlot} title=${title} unit=${unit} lines=${lines} history=${history} span=${span} />`)}</div>`;
}

function Chart({ uPlot, title, unit, lines, history, span }) {
  const box = useRef();
  const plot = useRef();
  const dark = useDark();
  useEffect(() => {
    if (!uPlot) return undefined;
    const size = () => ({ width: box.current.clientWidth, height: Math.max(150, Math.min(320, box.current.clientWidth * 0.4)) });
    plot.current = new uPlot(options(uPlot, lines, size()), columns(history, lines, span), box.current);
    const watch = new ResizeObserver(() => plot.current.setSize(size()));
    watch.observe(box.current);
    return () => { watch.disconnect(); plot.current.destroy(); plot.current = null; };
  }, [uPlot, dark]);
  useEffect(() => plot.current?.setData(columns(history, lines, span)), [history, span]);
  return html`<figure data-test=${'chart-' + title}>
    <figcaption><b>${t('live.chart.' + title)}</b> <span class="more">${t('live.unit.' + unit)}</span>
      <span class="legend">${lines.map(([name, colour]) => html`<span key=${name}><i class=${'line line-' + colour} aria-hidden="true"></i>${t('live.line.' + name)}</span>`)}</span></figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${t('live.chart.' + title)}></div></figure>`;
}

const columns = ({ at, columns: all }, lines, span) => {
  const from = span && at.length ? Math.max(0, at.findIndex((s) => s > at[at.length - 1] - span)) : 0;
  return [at.slice(from), ...lines.map(([name]) => (all[name] || []).slice(from))];
};

// options takes the colours of the page, so it is made again when the theme changes.
function options(uPlot, lines, { width, height }) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour('--soft'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '12px system-ui, sans-serif' };
  const locale = lang() === 'zh' ? 'zh-CN' : 'en-GB';
  const number = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });
  return {
    width, height, legend: { show: false }, cursor: { show: false }, padding: [10, 8, 0, 0],
    scales: { y: { range: (_, __, max) => [0, Math.max(1, max * 1.1)] } },
    axes: [
      { ...axis, values: (_, seconds) => seconds.map((s) => new Date(s * 1000).toLocaleTimeString(locale, { hour12: false })), space: 80, size: 30 },
      { ...axis, values: (_, all) => all.map((v) => number.format(v)), size: 46 },
    ],
    series: [{}, ...lines.map(([, n]) => ({ stroke: colour('--line-' + n), dash: DASHES[n], width: 2, points: { show: false },
      fill: lines.length === 1 ? colour('--wash') : undefined }))],
  };
}

// withPoint returns a history and one point more.
export function withPoint(history, at, point) {
  const last = history.at[history.at.length - 1];
  const add = (list, v) => (at === last ? [...list.slice(0, -1), v] : [...list.slice(-KEEP), v]);
  return { at: add(history.at, at), columns: Object.fromEntries(Object.entries(point).map(([name, v]) => [name, add(history.columns[name] || [], v)])) };
}

function useDark() {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const onChange = () => setDark(query.matches);
    query.addEventListener('change', onChange);
    return () => query.removeEventListener('change', onChange);
  }, []);
  return dark;
}
