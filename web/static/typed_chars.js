// The characters of a text that a person typed or pasted, as the shop reads them: as fold in package typed, which has the reasons.
// CharError names a character that has no place in a text, and its place, from 1.
export class CharError extends Error {
  constructor(char, at) {
    super();
    Object.assign(this, { char, at });
  }
}

const UNSEEN = /[\p{Cf}\p{VS}\u034f\u115f\u1160\u17b4\u17b5\u20e3\u2800\u3164\uffa0]/u;
const KNOWN = [[/\p{White_Space}/u, ' '], [/[\p{Dash}ー➖]/u, '-'], [/[.。·・•‧∙⋅]/u, '.'], [/[+➕]/u, '+'], [/[/⁄∕]/u, '/'], [/\p{Ps}/u, '('], [/\p{Pe}/u, ')']];
export const isDigit = (c) => c >= '0' && c <= '9' && c.length === 1;

// known returns what a character is read as: '' for none. It is undefined for one that stays as it is, in its compatible form.
function known(c) {
  if (/[0-9a-z]/.test(c)) return c;
  if (UNSEEN.test(c)) return '';
  const found = KNOWN.find(([form]) => form.test(c));
  if (found) return found[1];
  if (!/\p{Nd}/u.test(c)) return c < '\x7f' ? c : undefined;
  const at = c.codePointAt(0);
  let first = at; // Unicode has the digits of a script in their order, ten of them
  while (/\p{Nd}/u.test(String.fromCodePoint(first - 1))) first -= 1;
  return String((at - first) % 10);
}

// fold returns the characters {is, char, at} of a text as they are read, with those that were typed.
export const fold = (typed) => [...typed].flatMap((char, i) => [...(known(char) ?? [...char.normalize('NFKC')].map((c) => known(c) ?? c).join(''))]
  .map((is) => ({ is, char, at: i + 1 })));
export const text = (chars) => chars.map((c) => c.is).join('');
export const last = (chars, is) => chars.map((c) => c.is).lastIndexOf(is); // the place of the last one, -1 for none
export const length = (part) => [...part].length;
export const wrong = ({ char, at }) => { throw new CharError(char, at); };

// unlabelled returns the characters behind a label, which has no digit.
export function unlabelled(chars) {
  const digit = chars.findIndex((c) => isDigit(c.is));
  return chars.slice(last(chars.slice(0, digit < 0 ? chars.length : digit), ':') + 1);
}

// cut returns the characters before, in and behind the first match of a form.
export function cut(chars, form) {
  const found = form.exec(text(chars));
  if (!found) return null;
  const from = length(text(chars).slice(0, found.index));
  return { before: chars.slice(0, from), match: chars.slice(from, from + length(found[0])), behind: chars.slice(from + length(found[0])) };
}
