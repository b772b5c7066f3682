// The field of a picture within a form. It takes a file that is chosen, one that is dropped anywhere on the page, and one that is pasted.
import { html, useEffect, useRef, useState } from '../lib/preact.js';
import { post } from '../api.js';
import { t } from '../i18n.js';
import { newKey } from '../keys.js';
import { Drawing } from '../parts.js';
import { backoff } from '../retry.js';
import { said } from './form.js';
import { prepare } from './picture_prepare.js';

const TIMEOUT = 40_000; // ms to send one: a phone sends slowly
const TRIES = 5; // the shop reads one picture at a time

// Picture sends the file, and sets the values image and picture. Of several files the last one counts. Until it is there, the value
// uploading is true.
export function Picture({ f }) {
  const [state, setState] = useState({ text: '' });
  const turn = useRef(0);
  const field = useRef();
  const send = async (file) => {
    if (!file || field.current.matches(':disabled')) return;
    const mine = ++turn.current;
    const shows = (text, wrong) => { if (mine === turn.current) setState({ text, wrong }); };
    const ends = (text, values) => { if (mine === turn.current) { shows(text, !values); f.set({ uploading: false, ...values }); } };
    f.set({ uploading: true });
    shows(t('goods.reading', file));
    const { body, note, problem } = await prepare(file);
    if (problem) return ends(t('goods.' + problem, file));
    const key = newKey();
    let reply = null;
    for (let tries = 0; mine === turn.current; tries++) {
      shows(t('goods.sending', file));
      reply = await post('/api/admin/pictures', body, { timeout: TIMEOUT, key });
      if (reply.code !== 'busy' || tries === TRIES) break;
      await new Promise((done) => setTimeout(done, backoff(reply, tries)));
    }
    const why = note ? t('goods.' + note, file) : '';
    if (reply?.ok) ends(why + t('goods.sent', reply.data), { image: reply.data.image, picture: reply.data.image });
    else if (reply) ends(why + said(reply));
  };
  const latest = useRef();
  latest.current = send;
  useEffect(() => { // a file that is dropped beside the field would replace the page, and a form that is half filled in
    const handlers = {
      dragover: (e) => { if (e.dataTransfer.types.includes('Files')) e.preventDefault(); },
      drop: (e) => { if (e.dataTransfer.files.length) { e.preventDefault(); latest.current(e.dataTransfer.files[0]); } },
      paste: ({ clipboardData: data, target }) => { if (!data.types.includes('text/plain') || !target.matches('input, textarea')) latest.current(data.files[0]); },
    };
    for (const [event, handler] of Object.entries(handlers)) addEventListener(event, handler);
    return () => { for (const [event, handler] of Object.entries(handlers)) removeEventListener(event, handler); };
  }, []);
  const forget = ({ target }) => { target.value = ''; }; // the same file can be chosen again
  return html`
    <div class="field"><label for="picture">${t('goods.picture')}</label>
      <div class="row"><span class="small-picture"><${Drawing} src=${f.values.picture} alt="" /></span>
        <input id="picture" ref=${field} type="file" accept="image/*" aria-describedby="picture-rule picture-state" aria-invalid=${state.wrong ? 'true' : undefined}
          onClick=${forget} onInput=${({ target }) => send(target.files[0])} /></div>
      <p class="rule" id="picture-rule">${t('goods.pictureRule')}</p>
      <p role="status" id="picture-state" class=${state.wrong ? 'error' : ''} data-test="picture-state">${state.text}</p></div>`;
}
