// What people type and paste, in the one spelling that the shop stores: as package typed reads it at the shop, which has the
// reasons. A reader returns a text, or throws a CharError. Passwords are not read.
import { CharError, cut, fold, isDigit, last, length, text, unlabelled, wrong } from './typed_chars.js';
import { contact, phone } from './typed_phone.js';
import { t } from './i18n.js';

// line keeps a character that joins or parts two letters (ZWJ, ZWNJ), as emoji and Persian names have it.
const line = (typed) => typed.replace(/(?!\u3000)\p{White_Space}/gu, ' ').replace(/(?![\u200c\u200d])\p{Cf}/gu, '')
  .replace(/(\p{White_Space})?[\u200c\u200d]*([\u200c\u200d])(?=(\P{White_Space})?)/gu, (all, blank, joiner, next) => blank ?? (next ? joiner : ''))
  .replace(/^[\p{White_Space}\u200c\u200d]+|\p{White_Space}+$/gu, '');

function code(typed) {
  const chars = fold(typed), all = text(chars);
  const other = chars.find((c) => !isDigit(c.is) && !' -.'.includes(c.is));
  if (!other) return all.replace(/[ .-]/g, '');
  const found = [...new Set(all.match(/[0-9]+/g)?.filter((run) => run.length === 6))];
  const halves = [...all.matchAll(/(?:^|[^0-9])([0-9]{3})[ -]([0-9]{3})(?:$|[^0-9])/g)];
  if (found.length === 1) return found[0];
  return !found.length && halves.length === 1 ? halves[0][1] + halves[0][2] : wrong(other);
}

// whole reads a number that may have one of the signs before it. Commas separate thousands.
function whole(chars, signs) {
  const end = length(text(chars).replace(/[ .]+$/, ''));
  let digits = '', sign = '', comma = null, behind = 0;
  chars.forEach((c, i) => {
    if (isDigit(c.is)) { digits += c.is; behind += 1; } else if (c.is === ' ' || i >= end) { /* nothing */ } else if (c.is === ',' && digits) {
      if (comma ? behind !== 3 : digits.length > 3) wrong(c);
      [comma, behind] = [c, 0];
    } else if (signs.includes(c.is) && !digits && !sign) sign = c.is;
    else wrong(c);
  });
  if (comma && behind !== 3) wrong(comma);
  const number = digits.replace(/^0+(?=[0-9])/, '');
  return (sign === '-' && number ? '-' : '') + number;
}

function sum(typed) {
  const chars = unlabelled(fold(typed));
  const equals = last(chars, '=');
  if (equals < 0) return whole(chars, '+-');
  const behind = chars.slice(equals + 1);
  return whole(text(behind).replaceAll(' ', '') ? behind : chars.slice(0, equals), '+-');
}

const without = (chars, form) => { const at = cut(chars, form); return at ? [...at.before, ...at.behind] : chars; };

// price reads a price in yuan with two decimals at most. A comma before three digits separates thousands; 1.999 has two meanings.
function price(typed) {
  const bare = without(without(unlabelled(fold(typed)), /^[ ]*(?:¥|rmb|cny|人民币)[ ]*/i), /[ ]*(?:元|圆|yuan|rmb|cny)[ .]*$/i);
  const at = cut(bare, /\.[0-9]{0,2}[ ]*$/), chars = at ? at.before : bare;
  const point = chars.find((c) => c.is === '.');
  if (point) wrong(point);
  const number = whole(chars, '+-'), fraction = at ? text(at.match).slice(1).trim() : '';
  return fraction ? (number || '0') + '.' + fraction : number;
}

// bare returns the characters behind a label in Chinese. In other letters it may be a part of the number.
const bare = (typed) => {
  const chars = fold(typed), behind = unlabelled(chars);
  return /\p{Script=Han}/u.test(text(chars.slice(0, chars.length - behind.length))) ? behind : chars;
};

// tracking reads the number of a parcel; the name of the carrier may stand before it.
function tracking(typed) {
  const chars = without(without(bare(typed), /^[\p{Script=Han} ()#]+(?=[^\p{Script=Han} ()#])/u), /[ .,;、!]+$/).filter((c) => c.is !== ' ');
  const other = chars.find((c) => !/[0-9A-Za-z.-]/.test(c.is));
  return other ? wrong(other) : text(chars);
}

export const readers = {
  phone, contact, code, sum, price,
  id: (typed) => whole(unlabelled(fold(typed)), '#'),
  units: (typed) => whole(without(unlabelled(fold(typed)), /[ ]*(?:件|个|units?)[ .]*$/i), '+-'),
  parcel: (typed) => text(bare(typed)).replaceAll(' ', ''),
  tracking,
  line,
};

// tidy returns a text as the shop will store it; as it is, if it has a character that has no place in it: the shop names that.
export function tidy(kind, typed) {
  try {
    return readers[kind](typed);
  } catch (error) {
    if (error instanceof CharError) return typed;
    throw error;
  }
}

// refusal says in the page's language which character has no place in a text; '' if none.
export function refusal(kind, typed) {
  try {
    readers[kind](typed);
    return '';
  } catch (error) {
    if (!(error instanceof CharError)) throw error;
    const { char, at } = error, seen = !/[\p{C}\p{Z}]/u.test(char);
    const code = 'U+' + char.codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
    return t('typed.' + kind) + t(seen ? 'typed.found' : 'typed.unseen', { char: seen ? char : code, at });
  }
}
