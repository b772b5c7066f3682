// How a visitor wishes to be told, beside a sale: a button, and what comes of it in words. of is the beginning of their texts.
import { html } from './lib/preact.js';
import { lang, t } from './i18n.js';

export const WishButton = ({ wish: { means, offer, ask }, of, test }) => (offer && offer !== means
  ? html`<button class="plain" data-test=${test} data-offer=${offer} onClick=${ask}>${t(`${of}.${offer}`)}</button>` : null);

// Wished says how the visitor will be told; without a notification also why, and what else there is.
export function Wished({ wish: { means, why }, of }) {
  const said = means ? t(`${of}.by.${means}`) : why && [t('notify.' + why), why !== 'undecided' && t(of + '.else')].filter(Boolean).join(lang() === 'zh' ? '' : ' ');
  return html`<p class="more" role="status" data-test=${of + '-said'} hidden=${!said}>${said}</p>`;
}
