// The search of the index. It finds a row by its words and its texts in both languages, without regard to case and punctuation, nor to
// spaces beside Chinese. Latin letters are found where a word begins, as in ScriptEngine: engine is, and tengine is not. A Latin word is
// found as one: ORM is not in "or more". A word of a row is found without its spaces too: tokenbucket.
import absent from './rows/absent.js';
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
  { name: 'pages', rows: pages }, { name: 'users', rows: users }, { name: 'scale', rows: scale }, { name: 'absent', rows: absent },
];

// spaced returns a text with one space between its words, also in camelCase, and joined with camelCase in one word.
const joined = (text) => text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}+]+/gu, ' ').trim();
const spaced = (text) => joined(text.normalize('NFKC').replace(/([a-z\d])([A-Z])/g, '$1 $2').replace(/([A-Z])([A-Z][a-z])/g, '$1 $2'));
const isLatin = (c) => /[a-z\d]/.test(c);

// pattern matches a query wherever it may stand in a text: with or without its spaces, and with spaces beside Chinese.
function pattern(text) {
  const chars = [...text].map((c) => (c === ' ' ? ' ?' : c === '+' ? '\\+' : c));
  const apart = chars.map((c, i) => (i > 0 && c !== ' ?' && chars[i - 1] !== ' ?' && !(isLatin(c) && isLatin(chars[i - 1])) ? ' ?' + c : c));
  return new RegExp((isLatin(text[0]) ? '(?:^|[^a-z\\d])' : '') + apart.join(''), 'u');
}

const all = groups.flatMap(({ name, rows }) => rows.map((row) => ({ ...row, group: name })));

// fieldsOf returns what a query is looked for in: the words of a row, its titles, and its texts. They are made for the first query,
// and not while the page opens.
const fields = new WeakMap();
function fieldsOf(row) {
  if (!fields.has(row)) {
    fields.set(row, [[...row.words, ...alsoOf(row, '')], [row.zh.taught, row.en.taught], [row.id, row.zh.ours, row.en.ours, ...row.code.flat(), ...row.run]]
      .map((texts) => texts.flatMap((text) => [...new Set([joined(text), spaced(text)])])));
  }
  return fields.get(row);
}

// alsoOf returns the words that a row has beside the shown ones; with a course, those that lead to the row in this course alone.
const alsoOf = (row, course) => (row.also ?? []).filter((word) => (course ? word.startsWith(course + '/') : !/^[A-E]\//.test(word))).map((word) => (course ? word.slice(2) : word));
const isOwn = (row, course, wanted) => course !== '' && isWord([alsoOf(row, course).flatMap((word) => [joined(word), spaced(word)])], wanted);

// BETWEEN stands between words of a query: also a particle, and what a question has beside its subject.
const BETWEEN = /[\s、,，/?？]+|怎么办|怎么|怎样|为什么|什么|如何|哪些|的|了|吗|呢/;

// search returns the rows of a course, or of all for '', that have the query: first those with a word
// that is the query, then those with a word that contains it, then by their titles, then by their texts. A
// query that no row has as a whole is taken as several words, which a row must have all.
export function search(query, course) {
  const rows = all.filter((row) => row.by.includes(course));
  const wanted = spaced(query);
  if (!wanted) return rows;
  const whole = ranked(rows, (row) => (isOwn(row, course, wanted) ? -1 : rank(fieldsOf(row), wanted)));
  if (whole.length) return whole;
  const parts = query.split(BETWEEN).map(spaced).filter(Boolean);
  return parts.length > 1 ? ranked(rows, (row) => Math.max(...parts.map((part) => rank(fieldsOf(row), part)))) : [];
}

// nearest returns what the query has of a row, as {piece, rows}; null if there is nothing. That is the longest of the words of rows that
// stand in the query, or else the longest piece of the query that some word or title has, of at least half of it: less would lead to rows
// that have nothing to do with it. A piece has two characters or more and parts no Latin word. Of several, it is the rarest.
export function nearest(query, course) {
  const rows = all.filter((row) => row.by.includes(course));
  const atoms = (spaced(query.split(BETWEEN).join(' ')).match(/[a-z\d+]+|[^a-z\d+ ]/gu) ?? []).slice(0, 20);
  const pieces = [...new Set(atoms.flatMap((_, i) => atoms.slice(i).map((_, n) => atoms.slice(i, i + n + 1).join(''))))]
    .filter((p) => p.length > 1).sort((a, b) => b.length - a.length);
  const half = atoms.join('').length / 2;
  return longest(pieces, (piece) => ranked(rows, (row) => (isWord(fieldsOf(row), piece) ? 0 : Infinity)))
    ?? longest(pieces.filter((piece) => piece.length >= half), (piece) => ranked(rows, (row) => rank(fieldsOf(row).slice(0, 2), piece)));
}

function longest(pieces, rowsOf) {
  let best = null;
  for (const piece of pieces) {
    if (best && piece.length < best.piece.length) break;
    const rows = rowsOf(piece);
    if (rows.length && (!best || rows.length < best.rows.length)) best = { piece, rows };
  }
  return best;
}

const isWord = ([words], wanted) => words.some((word) => word.replaceAll(' ', '') === wanted.replaceAll(' ', ''));

// rank is 0 for the best match, and Infinity for none.
function rank(fields, wanted) {
  if (isWord(fields, wanted)) return 0;
  const wherever = pattern(wanted);
  const level = fields.findIndex((field) => field.some((text) => wherever.test(text)));
  return level < 0 ? Infinity : level + 1;
}

const ranked = (rows, rankOf) => rows.map((row) => ({ row, at: rankOf(row) })).filter(({ at }) => at < Infinity)
  .sort((a, b) => a.at - b.at).map(({ row }) => row);
