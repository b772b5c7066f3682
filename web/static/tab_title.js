// The title of a sale in the browser's tab: before the start with the time that is left, on the shop's clock; back: a unit came back.
import { useEffect } from './lib/preact.js';
import { split, useSecond } from './clock.js';
import { t } from './i18n.js';
import { setTitle } from './shell.js';

const HOUR = 3_600_000;

export function TabTitle({ sale, lang, back }) {
  const left = Date.parse(sale.start_at) - useSecond();
  const before = sale.state === 'upcoming' && left > 0 && left < 24 * HOUR;
  const opening = (sale.state === 'upcoming' || sale.state === 'open') && left <= 0 && left > -60_000;
  const head = before ? split(left)[left < HOUR ? 'short' : 'clock'] : opening ? t('title.open') : back ? t('title.back') : '';
  useEffect(() => setTitle(head, sale.title), [head, sale.title, lang]);
  return null;
}
