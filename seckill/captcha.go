package seckill

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
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
	return c.draw(ctx, sale.ID, token, pause)
}

// draw returns a new sum and keeps its answer. With a pause it also keeps the time before which no answer is judged, in ms
// since 1970: "48219 1763731200000". answer is "" unless Config.CaptchaAnswers is set.
func (c *captchas) draw(ctx context.Context, sale int64, token string, pause time.Duration) (drawn sum, answer string, err error) {
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	drawn = newSum(mathrand.New(mathrand.NewChaCha8(seed)))
	kept := drawn.answer()
	if pause > 0 {
		kept += " " + strconv.FormatInt(c.clock.Now().Add(pause).UnixMilli(), 10)
	}
	if err := c.gate.SaveCaptcha(ctx, sale, token, kept); err != nil {
		return sum{}, "", c.metrics.refusal("captcha", err)
	}
	if c.cfg.CaptchaAnswers {
		answer = drawn.answer()
	}
	return drawn, answer, nil
}

// check judges the answer to the session's sum, which is used up whatever the answer is. Refusals: ErrWrongCaptcha,
// ErrBusy.
func (c *captchas) check(ctx context.Context, sale int64, token, answer string) error {
	if c.cfg.Captcha == "off" {
		return nil
	}
	kept, err := c.gate.TakeCaptcha(ctx, sale, token)
	if err != nil {
		return c.metrics.refusal("captcha", err)
	}
	want, from, _ := strings.Cut(kept, " ")
	if ms, err := strconv.ParseInt(from, 10, 64); err == nil {
		select {
		case <-time.After(time.UnixMilli(ms).Sub(c.clock.Now())):
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
