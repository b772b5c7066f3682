// Package captcha has the sums that people solve before they get a hidden address, or before a full door lets them in.
// It draws a sum as a picture or spells it in words, and judges the answer. Redis keeps each answer for a minute, for
// one try.
//
// A sum is of a session and a sale, or of a visitor's browser and a purpose, and is valid for nothing else.
package captcha

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/trace"
)

const wordsPause = 2 * time.Second // shorter than any person needs to listen to a sum in words

// The refusals of an answer.
var (
	ErrWrong = errors.New("wrong or used captcha")
	ErrStale = errors.New("the captcha was replaced by a newer one")
)

// Config has the settings of sums.
type Config struct {
	Kind    string `name:"captcha" env:"MIAOSHA_CAPTCHA" enum:"math,off" default:"math" help:"Ask for a sum before an address is given: math or off."`
	Answers bool   `name:"captcha-answers" env:"MIAOSHA_CAPTCHA_ANSWERS" hidden:"" help:"For measuring: send the answer with each sum. With the sandbox's own stores only."`
}

// Sums draws sums and checks their answers.
type Sums struct {
	cfg   Config
	cache *goods.Cache
	trace *trace.Trace
	rush  seckill.Shared
}

// New returns the Sums of a process.
func New(cfg Config, cache *goods.Cache, steps *trace.Trace, rush seckill.Shared) *Sums {
	return &Sums{cfg: cfg, cache: cache, trace: steps, rush: rush}
}

// On reports whether the shop asks for sums. Without Sums it does not.
func (c *Sums) On() bool { return c != nil && c.cfg.Kind != "off" }

// Draw draws a sum for a session and a sale, as a PNG. Its answer is kept for a minute, in place of any former one.
// answer is "" unless Config.Answers is set for a load tool. Refusals: goods.ErrNoSale, goods.ErrEnded,
// seckill.ErrBusy.
func (c *Sums) Draw(ctx context.Context, sale, user int64, token string) (png []byte, answer string, err error) {
	began := time.Now()
	drawn, answer, err := c.drawFor(ctx, sale, token, 0)
	if err != nil {
		return nil, "", err
	}
	defer c.trace.SumDrawn(sale, user, began)
	return drawCaptcha(drawn.text()), answer, nil
}

// Spell is Draw for a buyer who cannot see a picture: the sum spelled out, in Chinese or English, under the same rules.
// A program reads words as easily as a person does. So the caller limits them more strictly than pictures, and an
// answer that comes faster than a person can listen is judged only after that time.
func (c *Sums) Spell(
	ctx context.Context, sale, user int64, token string, chinese bool,
) (words, answer string, err error) {
	began := time.Now()
	drawn, answer, err := c.drawFor(ctx, sale, token, wordsPause)
	if err != nil {
		return "", "", err
	}
	c.trace.SumDrawn(sale, user, began)
	return drawn.words(chinese), answer, nil
}

// Answer returns what a session answers to the sum of a sale, for Engine.Address; nil if the shop asks for no sums. The
// answer is judged when the rush checks it. Refusals: ErrWrong, ErrStale, seckill.ErrBusy.
func (c *Sums) Answer(sale, user int64, token, answer string) seckill.Sum {
	if !c.On() {
		return nil
	}
	return answered{c, sale, user, token, answer}
}

// answered is an answer that is not judged yet.
type answered struct {
	sums          *Sums
	sale, user    int64
	token, answer string
}

// Check judges the answer, once.
func (a answered) Check(ctx context.Context) error {
	began := time.Now()
	err := a.sums.check(ctx, gate.SumOfSale(a.sale, a.token), a.answer)
	if err == nil {
		a.sums.trace.SumSolved(a.sale, a.user, began)
	}
	return err
}

// drawFor is draw for a sale that has not ended.
func (c *Sums) drawFor(
	ctx context.Context, id int64, token string, pause time.Duration,
) (drawn sum, answer string, err error) {
	sale, _, err := c.cache.Sale(ctx, id)
	if err != nil {
		return sum{}, "", err
	}
	if !c.rush.Clock.Now().Before(sale.EndsAt) {
		return sum{}, "", sale.Window(sale.EndsAt)
	}
	return c.draw(ctx, gate.SumOfSale(id, token), pause)
}

// draw returns a new sum and keeps its answer. With a pause it also keeps the time before which no answer is judged.
// answer is "" unless Config.Answers is set.
func (c *Sums) draw(ctx context.Context, of gate.SumOf, pause time.Duration) (drawn sum, answer string, err error) {
	var seed [32]byte
	rand.Read(seed[:]) // never fails
	drawn = newSum(mathrand.New(mathrand.NewChaCha8(seed)))
	var from time.Time
	if pause > 0 {
		from = c.rush.Clock.Now().Add(pause)
	}
	if err := c.rush.Gate.SaveCaptcha(ctx, of, drawn.answer(), from); err != nil {
		return sum{}, "", c.rush.Refusal("captcha", err)
	}
	if c.cfg.Answers {
		answer = drawn.answer()
	}
	return drawn, answer, nil
}

// check judges the answer to a sum, which is used up by it, right or wrong. Refusals: ErrWrong; ErrStale
// for the right answer to a sum that a newer one replaced, which is not used up; seckill.ErrBusy.
func (c *Sums) check(ctx context.Context, of gate.SumOf, answer string) error {
	want, from, stale, err := c.rush.Gate.TakeCaptcha(ctx, of, answer)
	switch {
	case err != nil:
		return c.rush.Refusal("captcha", err)
	case stale:
		return ErrStale
	case !from.IsZero():
		select {
		case <-time.After(from.Sub(c.rush.Clock.Now())):
		case <-ctx.Done():
			return seckill.ErrBusy
		}
	}
	if !rightAnswer(want, answer) {
		return ErrWrong
	}
	return nil
}

// rightAnswer compares in constant time. want is "" where there is no sum.
func rightAnswer(want, given string) bool {
	return want != "" && subtle.ConstantTimeCompare([]byte(want), []byte(given)) == 1
}
