// The APIs and the syntax of the pages' scripts, against the oldest browsers (baseline.mjs). `npm run lint` runs it.
import es from 'eslint-plugin-es-x';
import { newer } from './baseline.mjs';

const ALLOWED = ['Notification']; // notify.js asks whether it is there
const OWN = ['destroy', 'forget', 'lost', 'to']; // methods and fields of our own whose names an API has, too
const IGNORED = ['imageSmoothingQuality']; // fields whose setting an older browser ignores
const { lines, names } = newer();
const globals = new Set(lines.filter((line) => !line.includes('.') && !ALLOWED.includes(line)));
const statics = new Set(lines.filter((line) => /^\w+\.\w+$/.test(line)));

const oldEnough = { create: (context) => ({
  MemberExpression(node) {
    const { computed, object, property, property: { name }, parent } = node;
    if (computed || ALLOWED.includes(object.name) || parent.optional) return; // f?.() asks whether it is there
    // A field of an answer may have the name of an API, in small letters. So these count where they are called or set.
    const isUsed = /[A-Z]/.test(name) || parent.callee === node || (parent.type === 'AssignmentExpression' && parent.left === node);
    if (statics.has(`${object.name}.${name}`) || (isUsed && names.has(name) && ![...OWN, ...IGNORED].includes(name))) {
      context.report({ node: property, message: `${name} is newer than the oldest browsers.` });
    }
  },
  'Program:exit'(program) {
    for (const { identifier } of context.sourceCode.getScope(program).through) {
      if (globals.has(identifier.name)) context.report({ node: identifier, message: `${identifier.name} is newer than the oldest browsers.` });
    }
  },
  TemplateElement(node) {
    const [, name] = /\s(popover|popovertarget|inert|commandfor|closedby|shadowrootmode)[\s=>]/.exec(node.value.raw) || [];
    if (name) context.report({ node, message: `The attribute ${name} is newer than the oldest browsers.` });
  },
}) };

// The syntax that is newer than ES2021, but for what all of these browsers have.
const IN_ALL = ['no-top-level-await', 'no-class-fields', 'no-class-instance-fields', 'no-class-static-fields', 'no-class-private-fields', 'no-class-private-methods'];
const syntax = Object.entries(es.rules).filter(([name, { meta }]) => /^ES20(2[2-9]|3)/.test(meta.docs.category) && !/prototype|object-|map-/.test(name) && !IN_ALL.includes(name));

export default [{
  files: ['**/*.js'],
  ignores: ['**/early.js', 'lib/**'],
  languageOptions: { ecmaVersion: 'latest', sourceType: 'module' },
  plugins: { 'es-x': es, shop: { rules: { 'old-enough': oldEnough } } },
  rules: { ...Object.fromEntries(syntax.map(([name]) => ['es-x/' + name, 'error'])), 'shop/old-enough': 'error' },
}, {
  files: ['lib/**'],
  languageOptions: { ecmaVersion: 2021, sourceType: 'module' },
}, {
  files: ['**/early.js'], // every browser has to read it
  languageOptions: { ecmaVersion: 5, sourceType: 'script' },
}];
