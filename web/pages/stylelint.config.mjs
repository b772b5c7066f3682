// The properties, selectors and functions of the pages' styles, against the oldest browsers (baseline.mjs). `npm run lint` runs it.
import stylelint from 'stylelint';
import { BROWSERSLIST } from './baseline.mjs';

// What only looks better where it is known, or stands behind a declaration for the others.
const IGNORED = ['css-has', 'css-scrollbar', 'css-media-scripting', 'css-paged-media', 'css-resize', 'css-selection', 'css-subgrid', 'css-text-wrap-balance',
  'css-container-query-units', 'css-container-queries', 'viewport-unit-variants', 'extended-system-fonts'];
const NEWER = 'This is newer than the oldest browsers.';

// A browser drops a value that it does not know. These need a declaration of the same property before them.
const NEW_VALUE = /\b(color-mix|light-dark|oklch|oklab|lch|lab|color|linear|anchor|if|round|mod|rem)\(|\d([sld]v(h|w|min|max|i|b)|cq(w|h|i|b|min|max))\b|\bsubgrid\b/;
const fallback = stylelint.createPlugin('shop/fallback', () => (root, result) => root.walkDecls((node) => {
  if (!NEW_VALUE.test(node.value) || node.prev()?.prop === node.prop) return;
  stylelint.utils.report({ ruleName: 'shop/fallback', result, node, message: `${NEWER} Write another ${node.prop} before it.` });
}));

export default {
  plugins: ['stylelint-no-unsupported-browser-features', fallback],
  rules: {
    'plugin/no-unsupported-browser-features': [true, { browsers: BROWSERSLIST, ignorePartialSupport: true, ignore: IGNORED }],
    'shop/fallback': true,
    'property-disallowed-list': [['scale', 'translate', 'rotate', 'interpolate-size', 'field-sizing', 'anchor-name', 'position-anchor', 'view-transition-name', 'content-visibility'], { message: NEWER }],
    'at-rule-disallowed-list': [['layer', 'container', 'scope', 'property', 'starting-style', 'view-transition', 'position-try'], { message: NEWER }],
    // A browser without :has() drops the whole rule.
    'selector-disallowed-list': [[/,.*:has\(|:has\(.*\).*,/], { splitList: false, message: 'A list of selectors with :has() is lost where that is not known: write two rules.' }],
  },
};
