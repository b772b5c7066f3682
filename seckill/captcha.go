package seckill

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	captchaLife = 60 * time.Second
	wordsPause  = 2 * time.Second // in which nobody has heard a sum in words to its end
)

// Captcha draws a sum for a session and a sale, as a PNG. Its answer is kept for a minute, in place of any before. It is
// told only to a load tool, by Config.CaptchaAnswers, and else "". Refusals: goods.ErrNoSale, goods.ErrEnded, ErrBusy.
func (e *Engine) Captcha(ctx context.Context, sale int64, token string) (png []byte, told string, err error) {
	s, told, err := e.newCaptcha(ctx, sale, token, 0)
	if err != nil {
		return nil, "", err
	}
	return drawCaptcha(s.text()), told, nil
}

// CaptchaWords is Captcha for who can't see a picture: the sum spelled out, in Chinese or English, under the same rules. A
// program reads it as easily as a person, so the caller gives it out more sparingly than pictures, and an answer that comes
// faster than one can listen is judged when one could have.
func (e *Engine) CaptchaWords(ctx context.Context, sale int64, token string, chinese bool) (words, told string, err error) {
	s, told, err := e.newCaptcha(ctx, sale, token, wordsPause)
	switch {
	case err != nil:
		return "", "", err
	case chinese:
		return s.chinese(), told, nil
	default:
		return s.english(), told, nil
	}
}

// newCaptcha makes a sum and keeps its answer, and if there is a pause when it may be judged: "48219 1763731200000".
func (e *Engine) newCaptcha(ctx context.Context, sale int64, token string, pause time.Duration) (drawn sum, told string, err error) {
	s, _, err := e.cache.Sale(ctx, sale)
	if err != nil {
		return sum{}, "", err
	}
	if !e.clock.now().Before(s.EndsAt) {
		return sum{}, "", s.Window(s.EndsAt)
	}
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return sum{}, "", fmt.Errorf("seed a captcha: %w", err)
	}
	drawn = newSum(mathrand.New(mathrand.NewChaCha8(seed)))
	kept := drawn.answer()
	if pause > 0 {
		kept += " " + strconv.FormatInt(e.clock.now().Add(pause).UnixMilli(), 10)
	}
	err = e.ask(ctx, redisLimit, func(ctx context.Context) error {
		return e.gate.rdb.Set(ctx, captchaKey(sale, token), kept, captchaLife).Err()
	})
	if err != nil {
		return sum{}, "", e.asRefusal("captcha", err)
	}
	if e.cfg.CaptchaAnswers {
		told = drawn.answer()
	}
	return drawn, told, nil
}

// checkCaptcha uses up the session's sum, whatever the answer is.
func (e *Engine) checkCaptcha(ctx context.Context, sale int64, token, answer string) error {
	if e.cfg.Captcha == "off" {
		return nil
	}
	var kept string
	err := e.ask(ctx, redisLimit, func(ctx context.Context) (err error) {
		kept, err = e.gate.rdb.GetDel(ctx, captchaKey(sale, token)).Result()
		if errors.Is(err, redis.Nil) {
			kept, err = "", nil
		}
		return err
	})
	if err != nil {
		return e.asRefusal("captcha", err)
	}
	want, from, _ := strings.Cut(kept, " ")
	if ms, err := strconv.ParseInt(from, 10, 64); err == nil {
		select {
		case <-time.After(time.UnixMilli(ms).Sub(e.clock.now())):
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

// CaptchaOn tells whether an address wants a sum solved.
func (e *Engine) CaptchaOn() bool { return e.cfg.Captcha != "off" }
