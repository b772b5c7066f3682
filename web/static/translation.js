// Keeps a page alive that the browser translates. A translator takes text nodes out of the page and puts a <font> with words of its
// own in their place. Preact goes on with the nodes that it has made: a new text in them is not seen, and a node that is to stand
// before one of them is put nowhere, which throws. So before a component renders its nodes come back to their places, and after it each
// <font> comes back to where nothing has changed; what has changed is new to the translator. The rest of the page stays, with its selection.
//
// Figures, prices, times and code are not translated at all: an element that has only them says so itself, names and numbers with
// letters by translate="no" where they are written.
import { options } from './lib/preact.js';

const fonts = new Map(); // from a translator's node to the text nodes in whose place it stands, in their order

const CODE = new Set(['code', 'pre', 'kbd']);
const isPlain = (child) => child === null || child === undefined || typeof child === 'boolean' || typeof child === 'number'
  || (typeof child === 'string' && !/\p{L}/u.test(child));
const hasDigit = (child) => typeof child === 'number' || (typeof child === 'string' && /\d/.test(child));

// Preact would set the property translate, for which "no" is true; in capitals it is the attribute.
options.vnode = ({ type, props }) => {
  if (typeof type !== 'string') return;
  const children = Array.isArray(props.children) ? props.children : [props.children];
  if (props.translate !== undefined) props.TRANSLATE = props.translate;
  else if (CODE.has(type) || (children.every(isPlain) && children.some(hasDigit))) props.TRANSLATE = 'no';
  delete props.translate;
};

// followTranslation watches what a translator does within an element in which Preact renders.
export function followTranslation(root) {
  const observer = new MutationObserver(learn);
  observer.observe(root, { childList: true, subtree: true });
  const back = []; // what came back in this rendering
  const { __r: hook } = options; // Preact calls it before a component renders; __c is the component, and __P the element around it
  options.__r = (vnode) => {
    for (const of of fonts) if (of[0].parentNode === vnode.__c.__P || holds(vnode, of[0])) back.push(putBack(of));
    hook?.(vnode);
  };
  options.debounceRendering = (renderAll) => Promise.resolve().then(() => {
    learn(observer.takeRecords());
    try {
      renderAll();
    } finally {
      back.splice(0).forEach(putAgain);
      observer.takeRecords(); // what was done here
    }
  });
}

// holds reports whether a node is within what a part of the page has rendered: the nodes of a component are those of its parts.
const holds = ({ type, __k: parts, __e: made }, node) => (typeof type === 'function' ? parts?.some((part) => part && holds(part, node)) : made?.contains(node));

function putBack([font, texts]) {
  fonts.delete(font);
  const were = { font, texts, data: texts.map((text) => text.data), homes: texts.map((text) => font.contains(text) && text.parentNode) };
  font.replaceWith(...texts);
  return were;
}

function putAgain({ font, texts, data, homes }) {
  const same = (text, i) => text.isConnected && text.data === data[i] && (i === 0 || texts[i - 1].nextSibling === text);
  if (!texts.every(same)) return;
  texts[0].replaceWith(font);
  texts.forEach((text, i) => (homes[i] ? homes[i].append(text) : text.remove()));
  fonts.set(font, texts);
}

// learn finds out which text nodes a translator has taken away, and which node stands in their place: it came in the same change, it has
// the text node within it, or it came beside it or to the same place.
function learn(records) {
  const taken = new Map();
  const came = new Map();
  for (const record of records) {
    if (record.target.closest('font')) continue;
    for (const node of record.removedNodes) if (node.nodeType === Node.TEXT_NODE || fonts.has(node)) taken.set(node, record);
    for (const node of record.addedNodes) {
      const original = node.nodeType === Node.TEXT_NODE && [...record.removedNodes].some((removed) => fonts.has(removed)); // the translation was taken back
      if (node.nodeName === 'FONT' || original) came.set(node, record);
    }
  }
  const found = new Map(); // from a taken node to the one in its place
  const inPlace = (node) => (came.has(node) ? node : found.get(node));
  const place = (node, record) => [...came.keys()].find((font) => [...record.addedNodes].includes(font) || font.contains(node))
    ?? inPlace(record.previousSibling) ?? inPlace(record.nextSibling)
    ?? [...came].find(([, { target, previousSibling, nextSibling }]) => target === record.target
      && (previousSibling === record.previousSibling && nextSibling === record.nextSibling))?.[0];
  for (let more = came.size > 0; more;) {
    more = false;
    for (const [node, record] of [...taken].reverse()) { // what went last had the most of its place around it
      const font = !found.has(node) && place(node, record);
      if (!font) continue;
      more = true;
      found.set(node, font);
      standFor(font, fonts.get(node) ?? [node], record);
    }
  }
  for (const node of taken.keys()) fonts.delete(node);
}

// standFor notes that a font stands for some more text nodes.
function standFor(font, nodes, { previousSibling, nextSibling }) {
  const texts = fonts.get(font) ?? [];
  const away = nodes.filter((node) => node !== font && (!node.isConnected || font.contains(node)));
  const [before, after] = [texts.indexOf(nextSibling), texts.indexOf(previousSibling)];
  texts.splice(before >= 0 ? before : after >= 0 ? after + 1 : texts.length, 0, ...away);
  if (texts.length) fonts.set(font, texts);
}
