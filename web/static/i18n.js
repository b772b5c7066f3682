// Chinese and English. The user's choice is kept in this browser, where early.js finds it before the page is shown.
// A page loads its texts in the language that is shown, and in the other one when the visitor changes to it.
import { useEffect, useState } from './lib/preact.js';
import { load } from './lost.js';

const TEXTS = { zh: {}, en: {} };
const FILES = [];
const NAME = document.documentElement.dataset.shop;
const KEY = 'miaosha.lang';
const listeners = new Set();
let current = document.documentElement.lang === 'en' ? 'en' : 'zh';

export const lang = () => current;

// loadTexts loads the texts of a page. Each file is {zh, en}, two functions that import it. Written as they are below, the shop finds
// them and names the file of the page's language in its preload list.
export async function loadTexts(...files) {
  FILES.push(...files);
  try {
    await read(files, current);
  } catch (error) {
    FILES.splice(0, FILES.length, ...FILES.filter((file) => !files.includes(file))); // a change of the language goes on without them
    throw error;
  }
}

async function read(files, language) {
  const modules = await Promise.all(files.map((file) => file[language]()));
  Object.assign(TEXTS[language], ...modules.map((module) => module.default), NAME && { shop: NAME });
}

await loadTexts({ zh: () => import('./words/zh.js'), en: () => import('./words/en.js') });

// t returns the text of a key. A text that depends on values is a function of them.
export function t(key, values = {}) {
  const text = TEXTS[current][key];
  if (text === undefined) return key;
  return typeof text === 'function' ? text(values) : text;
}

// errorText returns the sentence for a refused request: the page's own if there is one, otherwise
// the shop's. If it is unsure whether the request was done, it says so.
export function errorText(reply) {
  if (reply.unsure) return t(['offline', 'unsure'].includes(reply.code) ? 'unsure.offline' : 'unsure', { cause: reply.msg || errorText({ ...reply, unsure: false }) });
  const own = TEXTS[current]['error.' + reply.code];
  if (own === undefined) return reply.msg || t('error.internal', reply);
  return typeof own === 'function' ? own(reply) : own;
}

// setLang changes the language, unless its texts cannot be loaded.
export async function setLang(next) {
  if (await load(async () => { await read(FILES, next); return true; }) === null) return;
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
    setValue(current); // it may have changed since the first drawing
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

export const dayOf = (at) => Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()) / 86_400_000; // a day has 23 to 25 hours
