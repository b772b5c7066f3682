// The shop's programs have their comments in English.
import { t } from '../i18n.js';

// inLanguage returns a source with those comments in the language that is shown that the texts have: a comment from its first column on,
// with the lines that follow it, or one behind a statement. A comment of the student stays as it is.
export const inLanguage = (source) => source.replace(/^--.*(?:\n--.*)*|-- .*$/gm, (comment) => {
  const key = 'comment.' + comment.split('\n')[0].replace(/^-- ?/, '');
  const text = t(key);
  return text === key ? comment : text.split('\n').map((line) => ('-- ' + line).trimEnd()).join('\n');
});
