package seckill

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

const captchaLife = 60 * time.Second

// Captcha draws a sum for a session and a sale, as a PNG. Its answer is kept for a minute, in place of any before. It is
// told only to a load tool, by Config.CaptchaAnswers, and else "". Refusals: goods.ErrNoSale, goods.ErrEnded, ErrBusy.
func (e *Engine) Captcha(ctx context.Context, sale int64, token string) (png []byte, told string, err error) {
	s, _, err := e.cache.Sale(ctx, sale)
	if err != nil {
		return nil, "", err
	}
	if !e.clock.now().Before(s.EndsAt) {
		return nil, "", s.Window(s.EndsAt)
	}
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, "", fmt.Errorf("seed a captcha: %w", err)
	}
	text, answer := newSum(mathrand.New(mathrand.NewChaCha8(seed)))
	err = e.ask(ctx, redisLimit, func(ctx context.Context) error {
		return e.gate.rdb.Set(ctx, captchaKey(sale, token), answer, captchaLife).Err()
	})
	if err != nil {
		return nil, "", e.asRefusal("captcha", err)
	}
	if e.cfg.CaptchaAnswers {
		told = answer
	}
	return drawCaptcha(text), told, nil
}

// checkCaptcha uses up the session's sum, whatever the answer is.
func (e *Engine) checkCaptcha(ctx context.Context, sale int64, token, answer string) error {
	if e.cfg.Captcha == "off" {
		return nil
	}
	var want string
	err := e.ask(ctx, redisLimit, func(ctx context.Context) (err error) {
		want, err = e.gate.rdb.GetDel(ctx, captchaKey(sale, token)).Result()
		if errors.Is(err, redis.Nil) {
			want, err = "", nil
		}
		return err
	})
	if err != nil {
		return e.asRefusal("captcha", err)
	}
	if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(answer)) != 1 {
		return ErrWrongCaptcha
	}
	return nil
}

// CaptchaOn tells whether an address wants a sum solved.
func (e *Engine) CaptchaOn() bool { return e.cfg.Captcha != "off" }
