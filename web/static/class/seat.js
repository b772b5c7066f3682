// What a student sees: the form to join a class, and then the own exercises.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { get } from '../api.js';
import { Field, errorsOf, focusFirstError } from '../field.js';
import { errorText, t } from '../i18n.js';
import { useKeys } from '../keys.js';
import { useNote } from '../note.js';
import { poll } from '../poll.js';
import { Loading } from '../shell.js';
import { Trouble } from '../trouble.js';
import { tidy } from '../typed.js';
import { Exercises } from './exercises.js';

const EVERY = 3000; // ms between two looks at the own exercises

export function Seat({ code }) {
  const [seat, setSeat] = useState(undefined); // null without one
  const [again, setAgain] = useState(false);   // the student wants to join another class
  const [trouble, setTrouble] = useState(null);
  const reading = useRef();
  useEffect(() => {
    reading.current = poll('/api/sandbox/class', {
      onData: (data, now) => { setSeat(data); setTrouble(now); },
      onError: (_, now) => setTrouble(now),
      interval: () => EVERY,
    });
    return reading.current.stop;
  }, []);
  // A read that began before the student joined knows the seat from before: a new one takes its place.
  const joined = (now) => { setSeat(now); setAgain(false); reading.current.read(); };
  if (seat === undefined) return html`<${Loading} /><${Trouble} trouble=${trouble} />`;
  if (!seat || seat.removed || again) {
    return html`<${Join} code=${code} onJoined=${joined} lost=${seat?.removed && seat} />
      ${seat && !seat.removed && html`<p><button type="button" class="plain" onClick=${() => setAgain(false)}>${t('class.back', seat)}</button></p>`}<${Trouble} trouble=${trouble} />`;
  }
  return html`<section class="seat" data-test="seat">
    <h1>${t('class.you', seat)}</h1>
    <p class="lead more">${t(seat.closed ? 'class.over' : 'class.in', seat)}</p>
    <${Trouble} trouble=${trouble} />
    <${Exercises} ...${seat} />
    <p><button type="button" class="button quiet" data-test="join-another" onClick=${() => setAgain(true)}>${t('class.another')}</button></p>
  </section>`;
}

function Join({ code, onJoined, lost }) {
  const [values, setValues] = useState({ code, nickname: '' });
  const [refused, setRefused] = useNote();
  const { sending, send } = useKeys();
  const set = (name) => (value) => { setValues((old) => ({ ...old, [name]: value })); setRefused(null); };
  const join = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const reply = await send('/api/sandbox/class', { code: tidy('parcel', values.code), nickname: values.nickname });
    if (reply.ok) return onJoined(reply.data);
    setRefused(reply);
    return focusFirstError(form);
  };
  const errors = (refused && errorsOf(refused, ['code', 'nickname'])) || (refused?.code === 'no_class' ? { code: refused.msg } : {});
  return html`<section class="join">
    ${lost && html`<p class="note" role="status" data-test="seat-removed">${t('class.removed', lost)}</p>`}
    <h1>${t('class.join')}</h1><p class="lead more">${t('class.joinMore')}</p>
    <form class="sheet" onSubmit=${join} novalidate>
      <${Field} id="code" label=${t('class.code')} data-test="class-code" value=${values.code} onValue=${set('code')} error=${errors.code} rule=${t('class.codeRule')}
        autocomplete="off" autocapitalize="characters" spellcheck=${false} maxlength="64" class="class-code" />
      <${Field} id="nickname" label=${t('class.name')} data-test="class-name" value=${values.nickname} onValue=${set('nickname')} error=${errors.nickname} rule=${t('class.nameRule')}
        autocomplete="nickname" maxlength="32" />
      ${refused && Object.keys(errors).length === 0 && html`<p class="note" role="alert">${errorText(refused)}</p>`}
      <button class="button big" data-test="class-join" disabled=${sending}>${t('class.joinNow')}</button>
    </form></section>`;
}
