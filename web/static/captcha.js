// A sum to solve, as a picture or in words: before a purchase, and when a log-in, a code or a registration is asked for one.
import { html, useLayoutEffect, useRef, useState } from './lib/preact.js';
import { putter } from './field.js';
import { t } from './i18n.js';
import { refusal, tidy } from './typed.js';

// Captcha shows a sum. captcha is an image's URL or, with asText, a question in words; null until it is drawn. onDraw(asText)
// draws another one, onSubmit(answer) sends the answer, unless it is no number: a sum has one try.
export function Captcha({ captcha, asText, sending, onDraw, onSubmit }) {
  const [answer, setAnswer] = useState('');
  const [wrong, setWrong] = useState('');
  const input = useRef();
  useLayoutEffect(() => { // a new captcha empties and focuses the field before it is shown, so that no key is lost
    setAnswer('');
    setWrong('');
    input.current?.focus();
  }, [captcha]);
  const submit = (event) => {
    event.preventDefault();
    const number = tidy('sum', answer), why = refusal('sum', answer);
    setWrong(why);
    if (why) input.current.focus();
    else if (number && captcha) onSubmit(number);
  };
  return html`
    <form class="captcha" onSubmit=${submit} aria-busy=${sending}>
      <div id="captcha-question" class=${asText ? 'plate words' : 'plate'} aria-live="polite">${captcha && (asText
        ? html`<p data-test="captcha-words">${captcha}</p>`
        : html`<img src=${captcha} alt=${t('captcha.alt')} width="160" height="60" data-test="captcha-img" />`)}</div>
      <button type="button" class="plain" disabled=${sending} onClick=${() => onDraw(asText)}>${t('captcha.other')}</button>
      <button type="button" class="plain kind" data-test="captcha-kind" disabled=${sending} onClick=${() => onDraw(!asText)}>
        ${t(asText ? 'captcha.image' : 'captcha.text')}</button>
      <label for="captcha">${t('captcha.label')}</label>
      <input id="captcha" ref=${input} data-test="captcha-input" aria-describedby=${wrong ? 'captcha-question captcha-error' : 'captcha-question'}
        aria-invalid=${wrong ? 'true' : undefined} inputmode="numeric" autocomplete="off"
        enterkeyhint="go" value=${answer} ...${putter('sum', (value) => { setAnswer(value); setWrong(''); })} />
      <button class="button" data-test="captcha-submit" disabled=${sending || !captcha || !answer.trim()}>${t(sending && captcha ? 'captcha.sending' : 'captcha.go')}</button>
      <p class="error" id="captcha-error" role="alert" data-test="captcha-error" hidden=${!wrong}>${wrong}</p>
    </form>`;
}
