// The search of the index. It finds a row by its words and its texts in both languages, without regard
// to case, spaces and punctuation. Latin letters are found where a word begins, as in ScriptEngine: engine is, and tengine is not.
import gate from './rows/gate.js';
import orders from './rows/orders.js';
import pages from './rows/pages.js';
import queue from './rows/queue.js';
import scale from './rows/scale.js';
import stock from './rows/stock.js';
import users from './rows/users.js';

// In the order of the page.
export const groups = [
  { name: 'stock', rows: stock }, { name: 'queue', rows: queue }, { name: 'gate', rows: gate }, { name: 'orders', rows: orders },
  { name: 'pages', rows: pages }, { name: 'users', rows: users }, { name: 'scale', rows: scale },
];

// spaced returns a text with one space between its words, also in camelCase. plain returns it without spaces.
const spaced = (text) => text.normalize('NFKC').replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
  .toLowerCase().replace(/[^\p{L}\p{N}+]+/gu, ' ').trim();
const plain = (text) => spaced(text).replaceAll(' ', '');
const pattern = (text) => new RegExp((/^[a-z\d]/.test(text) ? '(?:^|[^a-z\\d])' : '') + [...text].map((c) => (c === '+' ? '\\+' : c)).join(' ?'), 'u');

const all = groups.flatMap(({ name, rows }) => rows.map((row) => ({ ...row, group: name })));

// fieldsOf returns what a query is looked for in: the words of a row, its titles, and its texts. They are made for the first query,
// and not while the page opens.
const fields = new WeakMap();
function fieldsOf(row) {
  if (!fields.has(row)) {
    fields.set(row, [row.words, [row.zh.taught, row.en.taught], [row.id, row.zh.ours, row.en.ours, ...row.code.flat(), ...row.run]].map((texts) => texts.map(spaced)));
  }
  return fields.get(row);
}

// search returns the rows of a course, or of all for '', that have the query: first those with a word
// that is the query, then those with a word that contains it, then by their titles, then by their texts. A
// query that no row has as a whole is taken as several words, which a row must have all.
export function search(query, course) {
  const rows = all.filter((row) => row.by.includes(course));
  const wanted = plain(query);
  if (!wanted) return rows;
  const whole = ranked(rows, (row) => rank(fieldsOf(row), wanted));
  if (whole.length) return whole;
  const parts = query.split(/[\s、,，/]+/).map(plain).filter(Boolean);
  return parts.length > 1 ? ranked(rows, (row) => Math.max(...parts.map((part) => rank(fieldsOf(row), part)))) : [];
}

// nearest returns the longest piece of the query that some word or title has, and the rows that have it; null if there is none. A piece has two
// characters or more and parts no Latin word. Of several, it is the rarest.
export function nearest(query, course) {
  const rows = all.filter((row) => row.by.includes(course));
  const atoms = (spaced(query).match(/[a-z\d+]+|[^a-z\d+ ]/gu) ?? []).slice(0, 20);
  const pieces = new Set(atoms.flatMap((_, i) => atoms.slice(i).map((_, n) => atoms.slice(i, i + n + 1).join(''))));
  let best = null;
  for (const piece of [...pieces].filter((p) => p.length > 1).sort((a, b) => b.length - a.length)) {
    if (best && piece.length < best.piece.length) break;
    const found = ranked(rows, (row) => rank(fieldsOf(row).slice(0, 2), piece));
    if (found.length && (!best || found.length < best.rows.length)) best = { piece, rows: found };
  }
  return best;
}

// rank is 0 for the best match, and Infinity for none.
function rank(fields, wanted) {
  if (fields[0].some((word) => word.replaceAll(' ', '') === wanted)) return 0;
  const wherever = pattern(wanted);
  const level = fields.findIndex((field) => field.some((text) => wherever.test(text)));
  return level < 0 ? Infinity : level + 1;
}

const ranked = (rows, rankOf) => rows.map((row) => ({ row, at: rankOf(row) })).filter(({ at }) => at < Infinity)
  .sort((a, b) => a.at - b.at).map(({ row }) => row);
