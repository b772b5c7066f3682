// What a sandbox has beside the shop, for a person who is alone with it: log-ins with one click, bots, and a tour. The frame of
// the pages (shell.js) loads it; no other shop does.
import { loadTexts } from '../i18n.js';

await loadTexts({ zh: () => import('./words/zh.js'), en: () => import('./words/en.js') });

export { Bots } from './bots.js';
export { ABOVE, BELOW, Start } from './start.js';
export { Again, Tour } from './tour.js';
