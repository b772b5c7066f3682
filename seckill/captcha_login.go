package seckill

import "context"

// The sums of the log-in belong to no sale and to no session: they are kept under sale 0, for a browser's
// secret.
const loginSale = 0

// LoginCaptcha draws a sum for a visitor who wants to log in, as a PNG, under the rules of Captcha. browser is a secret of the
// visitor's browser. Refusals: ErrBusy.
func (e *Engine) LoginCaptcha(ctx context.Context, browser string) (png []byte, answer string, err error) {
	drawn, answer, err := e.captchas.draw(ctx, loginSale, browser, 0)
	if err != nil {
		return nil, "", err
	}
	return drawCaptcha(drawn.text()), answer, nil
}

// LoginCaptchaWords is LoginCaptcha with the sum spelled out, under the rules of CaptchaWords.
func (e *Engine) LoginCaptchaWords(ctx context.Context, browser string, chinese bool) (words, answer string, err error) {
	drawn, answer, err := e.captchas.draw(ctx, loginSale, browser, wordsPause)
	if err != nil {
		return "", "", err
	}
	return drawn.words(chinese), answer, nil
}

// CheckLoginCaptcha judges the answer to the browser's sum, which is used up whatever the answer is. Refusals:
// ErrWrongCaptcha, ErrStaleCaptcha, ErrBusy.
func (e *Engine) CheckLoginCaptcha(ctx context.Context, browser, answer string) error {
	return e.captchas.check(ctx, loginSale, browser, answer)
}
