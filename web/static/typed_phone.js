// Telephones in the one spelling that the shop stores: as phone.go in package typed, which has the reasons.
import { cut, fold, isDigit, last, length, text, unlabelled, wrong } from './typed_chars.js';

// dialled returns the digits of a number, and one dash for all that separates two groups.
function dialled(typed) {
  const zero = cut(typed, /^[ (]*\+[^a-z]*?\( *0 *\)/);
  const chars = zero ? [...zero.match.slice(0, last(zero.match, '0')), ...zero.behind] : typed;
  let number = '', gap = false;
  for (const c of chars.slice(0, length(text(chars).replace(/[ .,;、]+$/, '')))) {
    if (isDigit(c.is) || (c.is === '+' && !number)) {
      number += (gap && number && number !== '+' ? '-' : '') + c.is;
      gap = false;
    } else if (' -.()'.includes(c.is)) gap = true;
    else wrong(c);
  }
  return number;
}

const MOBILE = /^(?:\+?(?:00)?86)?0?(1[3-9][0-9]{9})$/;
const EXTENSION = /[ ;]*(?:(?:转|轉|分机号?|分機號?|内线|內線|extension|ext|x|#)[ .:=]*)+/i;
const CHINA = [/^0?(1[3-9][0-9]{9})$/, /^([48]00)([0-9]{3})([0-9]{4})$/, /^(010|02[0-9])([0-9]{7,8})$/, /^(0[3-9][0-9]{2})([0-9]{7,8})$/];
const MOST = 6; // digits of an extension
const joined = (number, ext) => number + (ext && '-' + ext);

function inChina(number) {
  const groups = number.split('-');
  let first = null;
  for (let n = groups.length; n > 0; n -= 1) {
    const ext = groups.slice(n).join('');
    if (ext.length > MOST) break;
    const parts = CHINA.map((form) => form.exec(groups.slice(0, n).join(''))).find(Boolean);
    if (!parts) continue;
    const found = { number: parts.slice(1).join('-'), ext };
    if (found.number === groups.slice(0, n).join('-')) return found;
    first ??= found;
  }
  return first;
}

function written(number, ext) {
  const code = /^(?:\+(?:00)?86-?|0086-?|86-)/.exec(number)?.[0];
  const bare = code ? number.slice(code.length) : MOBILE.exec(number)?.[1] ?? number;
  for (const one of code ? [bare, '0' + bare] : [bare]) {
    const found = inChina(one);
    if (found && !(found.ext && ext)) return joined(found.number, found.ext + ext);
  }
  if (ext) return written(joined(number.replaceAll('-', ''), ext), '');
  const [main, ...more] = number.split('-');
  if (!more.length || (more.length === 1 && main.replace('+', '').length >= 5 && more[0].length <= MOST)) return number;
  return written(number.replaceAll('-', ''), '');
}

// contact reads the telephone of a parcel, phone that of an account.
export function contact(typed) {
  const chars = unlabelled(fold(typed));
  const at = cut(chars, EXTENSION);
  if (!at) return written(dialled(chars), '');
  const ext = dialled(at.behind).replaceAll('-', '');
  if (!ext || ext.startsWith('+')) wrong(at.match.at(-1));
  if (!at.before.some((c) => isDigit(c.is))) wrong(at.match[0]);
  const number = dialled(at.before);
  return ext.length > MOST ? written(number + '-' + ext, '') : written(number, ext);
}

export function phone(typed) {
  const all = dialled(unlabelled(fold(typed))).replaceAll('-', '');
  return MOBILE.exec(all)?.[1] ?? all;
}
