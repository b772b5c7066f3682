// Chinese and English. The user's choice is kept in this browser, where early.js finds it before the page is shown.
import { useEffect, useState } from './lib/preact.js';
import zh from './words/zh.js';
import en from './words/en.js';

const TEXTS = { zh, en };
const NAME = document.documentElement.dataset.shop;
if (NAME) zh.shop = en.shop = NAME;
const KEY = 'miaosha.lang';
const listeners = new Set();
let current = document.documentElement.lang === 'en' ? 'en' : 'zh';

export const lang = () => current;

// addTexts adds the texts of one page, {zh, en}, to those of all pages.
export function addTexts(texts) {
  Object.assign(zh, texts.zh);
  Object.assign(en, texts.en);
}

// t returns the text of a key. A text that depends on values is a function of them.
export function t(key, values = {}) {
  const text = TEXTS[current][key] ?? TEXTS.en[key];
  if (text === undefined) return key;
  return typeof text === 'function' ? text(values) : text;
}

// errorText returns the sentence for a refused request: the page's own if there is one, otherwise
// the shop's.
export function errorText(reply) {
  const own = TEXTS[current]['error.' + reply.code];
  if (own === undefined) return reply.msg || t('error.internal', reply);
  return typeof own === 'function' ? own(reply) : own;
}

export function setLang(next) {
  current = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // the browser forbids storage: the choice lasts as long as the page
  }
  document.documentElement.lang = current === 'zh' ? 'zh-CN' : 'en';
  listeners.forEach((notify) => notify(next));
}

// useLang renders its caller again when the language changes.
export function useLang() {
  const [value, setValue] = useState(current);
  useEffect(() => {
    listeners.add(setValue);
    return () => listeners.delete(setValue);
  }, []);
  return value;
}

// yuan writes fen as yuan, without needless decimals: 19900 -> 199, 1990 -> 19.90.
export const yuan = (fen) => (fen % 100 ? (fen / 100).toFixed(2) : String(fen / 100));

// formatTime writes a time of today without the date, and any other time with it; with seconds if second is '2-digit'.
export function formatTime(value, today, second) {
  const at = new Date(value);
  const locale = current === 'zh' ? 'zh-CN' : 'en-GB';
  const time = at.toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit', second, hour12: false });
  const days = dayOf(at) - dayOf(new Date(today));
  if (days === 0) return time;
  if (days === 1) return `${t('tomorrow')} ${time}`;
  return `${at.toLocaleDateString(locale, { month: 'short', day: 'numeric' })} ${time}`;
}

export const dayOf = (at) => Math.round(new Date(at.getFullYear(), at.getMonth(), at.getDate(), 12).getTime() / 86_400_000);
