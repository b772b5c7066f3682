// The live view for those with a link: /live.html#LINK, and /live.html#LINK/7 for one sale. The link stays behind the #, which no
// browser sends; it goes into a header. Where the view is open to everyone the link is empty: /live.html, /live.html#/7.
import { html, useEffect, useLayoutEffect, useState } from '../lib/preact.js';
import { t } from '../i18n.js';
import { mount, setTitle } from '../shell.js';
import { LiveView } from './live_view.js';

function LivePage({ lang }) {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => setTitle(t('live')), [lang]);
  useLayoutEffect(() => { // before the page is seen: an effect after it would miss a change
    const onHash = () => setHash(location.hash);
    addEventListener('hashchange', onHash);
    return () => removeEventListener('hashchange', onHash);
  }, []);
  const [, link, sale = ''] = /^#?([\w-]*)(?:\/(\d+))?$/.exec(hash) || [null, '', ''];
  return html`<div class="intro"><h1>${t('live')}</h1><p class="more">${t('live.intro')}</p></div>
    <${LiveView} sale=${sale} link=${link} href=${(id) => '#' + link + (id ? '/' + id : '')} />`;
}

mount(LivePage);
