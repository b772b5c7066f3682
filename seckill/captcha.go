package seckill

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	mathrand "math/rand/v2"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

const wordsPause = 2 * time.Second // shorter than any person needs to listen to a sum in words

// captchas draws sums and checks their answers.
type captchas struct {
	cfg     Config
	gate    *gate.Gate
	clock   *gate.Clock
	metrics *metrics
}

// drawFor is draw for a sale that has not ended.
func (c *captchas) drawFor(ctx context.Context, sale goods.Sale, token string, pause time.Duration) (drawn sum, answer string, err error) {
	if !c.clock.Now().Before(sale.EndsAt) {
		return sum{}, "", sale.Window(sale.EndsAt)
	}
	return c.draw(ctx, gate.SumOfSale(sale.ID, token), pause)
}

// draw returns a new sum and keeps its answer. With a pause it also keeps the time before which no answer is judged. answer is
// "" unless Config.CaptchaAnswers is set.
func (c *captchas) draw(ctx context.Context, of gate.SumOf, pause time.Duration) (drawn sum, answer string, err error) {
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	drawn = newSum(mathrand.New(mathrand.NewChaCha8(seed)))
	var from time.Time
	if pause > 0 {
		from = c.clock.Now().Add(pause)
	}
	if err := c.gate.SaveCaptcha(ctx, of, drawn.answer(), from); err != nil {
		return sum{}, "", c.metrics.refusal("captcha", err)
	}
	if c.cfg.CaptchaAnswers {
		answer = drawn.answer()
	}
	return drawn, answer, nil
}

// check judges the answer to a sum, which is used up by it, right or wrong. Refusals: ErrWrongCaptcha; ErrStaleCaptcha
// for the right answer to a sum that a newer one replaced, which is not used up; ErrBusy.
func (c *captchas) check(ctx context.Context, of gate.SumOf, answer string) error {
	if c.cfg.Captcha == "off" {
		return nil
	}
	want, from, stale, err := c.gate.TakeCaptcha(ctx, of, answer)
	switch {
	case err != nil:
		return c.metrics.refusal("captcha", err)
	case stale:
		return ErrStaleCaptcha
	case !from.IsZero():
		select {
		case <-time.After(from.Sub(c.clock.Now())):
		case <-ctx.Done():
			return ErrBusy
		}
	}
	if !rightAnswer(want, answer) {
		return ErrWrongCaptcha
	}
	return nil
}

// rightAnswer compares in constant time. want is "" where there is no sum.
func rightAnswer(want, given string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(given)) == 1
}
