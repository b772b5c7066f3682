// Colours for Lua and SQL: comments, texts, words of the language, functions of the lab, numbers. It judges nothing.
const LUA = new RegExp([
  /(?<comment>--\[\[[^]*?(?:\]\]|$)|--.*)/,
  /(?<text>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|\[\[[^]*?(?:\]\]|$))/,
  /(?<word>\b(?:and|break|do|else|elseif|end|false|for|function|goto|if|in|local|nil|not|or|repeat|return|then|true|until|while)\b)/,
  /(?<ours>\b(?:sql|tx|redis|eval|key|think|promise|lock|later|print|error|pcall|tonumber|tostring|buy|prepare|start|cancel)\b(?=\s*[({"'[]))/,
  /(?<number>\b\d[\w.]*)/,
].map((part) => part.source).join('|'), 'g');
const SQL = new RegExp([
  /(?<ours>^[ \t]*--[ \t]*(?:prepare|buy|think|start|cancel)\b.*|:\w+)/,
  /(?<comment>--.*)/,
  /(?<text>'(?:''|[^'])*'?)/,
  /(?<word>\b(?:select|from|where|update|set|insert|into|values|delete|returning|begin|commit|rollback|for|share|skip|locked|nowait|and|or|not|null|is|in|exists|on|conflict|do|nothing|create|unique|index|table|with|as|order|by|limit|isolation|level|serializable|repeatable|read|committed|case|when|then|else|end|now|using|primary|key|check|alter|add|constraint)\b)/,
  /(?<number>\b\d[\d.]*)/,
].map((part) => part.source).join('|'), 'gim');

// linesOf returns the lines of a source, each a list of [class, text]; the class of plain text is ''.
export function linesOf(language, source) {
  const lines = [[]];
  const add = (name, text) => text.split('\n').forEach((part, i) => {
    if (i) lines.push([]);
    if (part) lines.at(-1).push([name, part]);
  });
  let at = 0;
  for (const found of source.matchAll(language === 'sql' ? SQL : LUA)) {
    add('', source.slice(at, found.index));
    add(Object.keys(found.groups).find((name) => found.groups[name] !== undefined), found[0]);
    at = found.index + found[0].length;
  }
  add('', source.slice(at));
  return lines;
}
