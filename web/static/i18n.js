// Chinese and English. The choice is kept in this browser; the first one is the browser's own.
import { useEffect, useState } from './lib/preact.js';
import zh from './words/zh.js';
import en from './words/en.js';

const WORDS = { zh, en };
const KEY = 'miaosha.lang';
const heard = new Set();
let current = WORDS[kept()] ? kept() : (navigator.language || 'zh').toLowerCase().startsWith('zh') ? 'zh' : 'en';
mark();

export const lang = () => current;

// learn adds the words of one page, {zh, en}, to those that every page has.
export function learn(words) {
  Object.assign(zh, words.zh);
  Object.assign(en, words.en);
}

// t gives the words of a key; a word that depends on figures is a function of them.
export function t(key, values = {}) {
  const word = WORDS[current][key] ?? WORDS.en[key];
  if (word === undefined) return key;
  return typeof word === 'function' ? word(values) : word;
}

// why is the sentence for a refused call: ours where we have one, the shop's otherwise.
export function why(answer) {
  const own = WORDS[current]['why.' + answer.code];
  if (own === undefined) return answer.msg || t('why.internal', answer);
  return typeof own === 'function' ? own(answer) : own;
}

export function choose(next) {
  current = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // storage may be closed to us: the choice then lasts as long as the page
  }
  mark();
  heard.forEach((tell) => tell(next));
}

// useLang renders the caller again when the language changes.
export function useLang() {
  const [value, tell] = useState(current);
  useEffect(() => {
    heard.add(tell);
    return () => heard.delete(tell);
  }, []);
  return value;
}

// yuan writes fen as yuan, without needless decimals: 19900 -> 199, 1990 -> 19.90.
export const yuan = (fen) => (fen % 100 ? (fen / 100).toFixed(2) : String(fen / 100));

// when writes a moment for people: today's as a time, others with their date.
export function when(value, today) {
  const at = new Date(value);
  const locale = current === 'zh' ? 'zh-CN' : 'en-GB';
  const time = at.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit', hour12: false });
  const days = dayOf(at) - dayOf(new Date(today));
  if (days === 0) return time;
  if (days === 1) return `${t('tomorrow')} ${time}`;
  return `${at.toLocaleDateString(locale, { month: 'short', day: 'numeric' })} ${time}`;
}

export const dayOf = (at) => Math.round(new Date(at.getFullYear(), at.getMonth(), at.getDate(), 12).getTime() / 86_400_000);

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function mark() {
  document.documentElement.lang = current === 'zh' ? 'zh-CN' : 'en';
}
