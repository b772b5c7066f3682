// One-time codes, and the sums that a form asks for when many people are here: for the log-in page and the account page.
import { useEffect, useState } from './lib/preact.js';
import { get, getImage, post } from './api.js';
import { errorText, t } from './i18n.js';

export const noCodes = 'noCodes' in document.documentElement.dataset; // the shop sends none

const wantsSum = (reply) => reply.captcha || reply.code === 'wrong_captcha' || reply.code === 'stale_captcha';

// useSum keeps the sum {captcha, asText, of} to solve before the form (of 'form') or a code (of 'code') is sent; null without
// one. onNote(reply) says why there is a sum, or why none could be drawn.
export function useSum(onNote) {
  const [sum, setSum] = useState(null);
  const [drawing, setDrawing] = useState(false);
  useEffect(() => () => sum?.captcha && !sum.asText && URL.revokeObjectURL(sum.captcha), [sum]);

  const draw = async (asText, of) => {
    setDrawing(true);
    setSum({ captcha: null, asText, of });
    const reply = asText ? await get('/api/login/captcha?kind=words') : await getImage('/api/login/captcha?t=' + Date.now());
    setDrawing(false);
    if (reply.ok) return setSum((old) => old && { captcha: asText ? reply.data.question : reply.data, asText, of }); // null after drop
    setSum(null);
    onNote(reply);
  };
  // drawIfAsked shows a sum if the reply asks for one, and none otherwise: a sum has one try, which a reply that names fields has not
  // used up. It returns whether it asks for one.
  const drawIfAsked = (reply, of) => {
    if (!wantsSum(reply)) {
      if (!reply.fields) setSum(null);
      return false;
    }
    onNote(reply.captcha ? { code: 'solve_first' } : reply);
    draw(sum?.asText ?? false, of);
    return true;
  };
  return { sum, drawing, draw, drawIfAsked, drop: () => setSum(null) };
}

// useCode sends one-time codes: {seconds until the next one may be sent, note, send(phone, captcha)}. In the sandbox the reply
// has the code.
export function useCode() {
  const [seconds, setSeconds] = useState(0);
  const [note, setNote] = useState('');
  useEffect(() => {
    if (seconds <= 0) return undefined;
    const timer = setTimeout(() => setSeconds(seconds - 1), 1000);
    return () => clearTimeout(timer);
  }, [seconds]);
  const send = async (phone, captcha) => {
    setSeconds(60);
    const reply = await post('/api/otp', { phone, captcha });
    if (reply.ok) {
      const { dev_code: code, expires_in: validFor } = reply.data;
      setNote(code ? t('devCode', { code }) : t('codeSent', { n: Math.max(1, Math.round(validFor / 60)) }));
    } else {
      setSeconds(Math.ceil(reply.retryAfter / 1000));
      setNote(wantsSum(reply) || reply.fields ? '' : errorText(reply));
    }
    return reply;
  };
  return { seconds, note, send };
}
