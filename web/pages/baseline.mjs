// The oldest browsers in which the pages work; the READMEs and page.html name them too. And what is newer than they are, as MDN knows it.
import { createRequire } from 'node:module';

export const BASELINE = { chrome: 92, edge: 92, firefox: 98, safari: 15.4, safari_ios: 15.4 };

export const BROWSERSLIST = Object.entries(BASELINE).map(([name, version]) => `${name === 'safari_ios' ? 'ios_saf' : name} >= ${version}`);

const { api, javascript: { builtins } } = createRequire(import.meta.url)('@mdn/browser-compat-data');

// supports reports whether a browser has a feature since a version, under its own name and without a setting.
const supports = (browser, version, { support }) => [support[browser] ?? []].flat().some((s) =>
  !s.flags && !s.prefix && !s.alternative_name && !s.version_removed && parseFloat(String(s.version_added).replace('≤', '')) <= version);
const isOld = (feature) => Object.entries(BASELINE).every(([browser, version]) => supports(browser, version, feature));

// newer returns what a Chromium has in JavaScript that one of the oldest browsers has not: lines such as structuredClone, Promise.try
// and Element.prototype.setHTML; and the names of such members that no older class has.
export function newer() {
  const lines = new Set(), names = new Set(), oldNames = new Set();
  const list = (features, before, isBuiltin) => {
    for (const [name, { __compat: compat, ...members }] of Object.entries(features)) {
      const isNew = compat && !isOld(compat);
      if (isNew && supports('chrome', Infinity, compat)) lines.add(before + name);
      if (!/^[A-Z]/.test(name)) continue;
      for (const [member, of] of Object.entries(members)) {
        if (name === 'Intl' && /^[A-Z]/.test(member)) list({ [member]: of }, 'Intl.', true);
        else if (member !== name && !member.endsWith('_event') && of.__compat) add(before + name, member, of.__compat, isNew, isBuiltin);
      }
    }
  };
  // MDN does not say which members of a built-in class are those of its instances.
  const add = (name, member, compat, isNew, isBuiltin) => {
    const short = member.replace(/_static$/, '');
    if (isOld(compat)) return oldNames.add(short);
    if (!supports('chrome', Infinity, compat)) return names;
    names.add(short);
    if (isNew) return lines;
    if (name === 'Window') lines.add(member);
    if (isBuiltin || member !== short) lines.add(`${name}.${short}`);
    return member === short ? lines.add(`${name}.prototype.${member}`) : lines;
  };
  list(api, '', false);
  list(builtins, '', true);
  return { lines: [...lines].filter((line) => /^[\w.]+$/.test(line)).sort(), names: new Set([...names].filter((name) => !oldNames.has(name))) };
}
