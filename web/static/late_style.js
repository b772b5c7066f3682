// lateStyle adds a style sheet that a part of a page needs, once. It resolves when the sheet applies, or cannot be loaded: the part is
// shown without it then, and the page says so.
import { say } from './lost.js';

const sheets = {};

export const lateStyle = (href) => (sheets[href] ??= new Promise((done) => {
  const link = document.createElement('link');
  link.rel = 'stylesheet';
  link.href = href;
  link.onload = done;
  link.onerror = () => done(say());
  document.head.append(link);
}));
