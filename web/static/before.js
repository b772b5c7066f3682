// What a buyer wants to know before a sale opens: what will happen, how to be reminded, where the parcel goes, and a sum for practice.
import { html, useEffect, useState } from './lib/preact.js';
import { get, getImage, post } from './api.js';
import { Captcha } from './captcha.js';
import { now } from './clock.js';
import { errorText, t } from './i18n.js';
import { calendarFile } from './calendar.js';
import { remind, useWish } from './notify.js';
import { WishButton, Wished } from './wish.js';

const inSandbox = 'lab' in document.documentElement.dataset;

// Steps lists what will happen, in the order in which it does.
export function Steps({ sale }) {
  const minutes = sale.pay_within % 60 === 0 && sale.pay_within / 60;
  return html`
    <ol class="steps" data-test="steps">
      ${sale.captcha && html`<li>${t('steps.sum')}</li>`}
      <li>${t('steps.queue')}</li>
      <li>${minutes ? t('steps.pay', { n: minutes }) : t('steps.paySeconds', { n: sale.pay_within })}</li>
      <li>${t('steps.one')}</li>
    </ol>`;
}

// Before is shown until the start. prepared: the buyer solves, or has solved, the real sum.
export function Before({ s, preparing }) {
  return html`
    <${Steps} sale=${s.sale} />
    <${Remind} sale=${s.sale} />
    ${s.sale.captcha && !preparing && html`<${Practice} />`}
    ${inSandbox ? html`<p class="more" data-test="nothing-sent">${t('before.sandbox')}</p>` : s.user && html`<${Parcel} />`}`;
}

const AHEAD = 60_000; // a reminder comes so many ms before the start

// Remind offers a file for a calendar, and a notification or a sound while the page stays open.
function Remind({ sale }) {
  const wish = useWish('start', sale.id);
  const start = Date.parse(sale.start_at);
  useEffect(() => {
    const ms = start - now() - AHEAD;
    if (!wish.means || ms > 2 ** 31 - 1) return undefined;
    const timer = setTimeout(() => start > now() && remind(t('remind.title', { title: sale.title }), t('remind.body'), 'start-' + sale.id), Math.max(0, ms));
    return () => clearTimeout(timer);
  }, [wish.means, start]);
  const save = () => {
    const url = URL.createObjectURL(calendarFile(sale, location.origin + '/sale.html?id=' + sale.id, t));
    Object.assign(document.createElement('a'), { href: url, download: `sale-${sale.id}.ics` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return html`
    <p class="row remind"><button class="plain" data-test="calendar" onClick=${save}>${t('remind.calendar')}</button>
      ${start - now() > AHEAD && html`<${WishButton} wish=${wish} of="remind" test="notify" />`}</p>
    <${Wished} wish=${start - now() > AHEAD ? wish : { ...wish, why: '' }} of="remind" />`;
}

// Parcel shows where the parcel will go.
function Parcel() {
  const [saved, setSaved] = useState(undefined);
  useEffect(() => { get('/api/account/address').then((reply) => reply.ok && setSaved(reply.data)); }, []);
  if (saved === undefined) return null;
  return html`<p class="more" data-test="parcel">${saved ? t('before.parcel', saved) : t('before.noParcel')}
    <a href="/account.html#parcels">${t(saved ? 'address.change' : 'address.add')}</a></p>`;
}

// Practice shows a sum like the real one. It is no part of a purchase.
function Practice() {
  const [sum, setSum] = useState(null); // {captcha, asText}
  const [sending, setSending] = useState(false);
  const [said, setSaid] = useState('');
  const [right, setRight] = useState(false);
  useEffect(() => () => sum?.captcha && !sum.asText && URL.revokeObjectURL(sum.captcha), [sum]);
  const draw = async (asText) => {
    setSending(true);
    setSum({ captcha: null, asText });
    const reply = asText ? await get('/api/practice?kind=words') : await getImage('/api/practice?t=' + Date.now());
    setSending(false);
    setSum(reply.ok ? { captcha: asText ? reply.data.question : reply.data, asText } : null);
    if (!reply.ok) setSaid(errorText(reply));
  };
  const check = async (captcha) => {
    setSending(true);
    const reply = await post('/api/practice', { captcha });
    setSending(false);
    setSaid(reply.ok ? t(reply.data.right ? 'practice.right' : 'practice.wrong') : errorText(reply));
    setRight(reply.ok && reply.data.right);
    if (reply.ok && reply.data.right) setSum(null);
    else draw(sum.asText);
  };
  return html`
    <p class=${right ? 'tip' : 'note'} role="status" data-test="practice-said" hidden=${!said}>${said}</p>
    ${sum ? html`<div data-test="practice"><p class="more">${t('practice.more')}</p>
        <${Captcha} ...${sum} sending=${sending} onDraw=${(asText) => { setSaid(''); draw(asText); }} onSubmit=${check} /></div>`
      : html`<button class="plain" data-test="practise" onClick=${() => { setSaid(''); draw(false); }}>${t('practice.start')}</button>`}`;
}
