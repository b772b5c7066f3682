// The page at an address that the shop does not have.
import { html, useEffect } from './lib/preact.js';
import { t } from './i18n.js';
import { Failed, mount, setTitle } from './shell.js';

function Missing({ lang }) {
  useEffect(() => setTitle(t('missing')), [lang]);
  return html`<${Failed} title=${t('missing')} />`;
}

mount(Missing);
