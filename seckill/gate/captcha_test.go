package gate

import (
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestCaptchaHasOneTry(t *testing.T) {
	t.Parallel()
	g := New(sandboxtest.Redis(t), "here", time.Second)
	take := func(sale int64, token, want string) {
		t.Helper()
		if got, err := g.TakeCaptcha(t.Context(), sale, token); err != nil || got != want {
			t.Errorf("the answer for sale %d and %s: %q, %v, want %q", sale, token, got, err, want)
		}
	}
	take(1, "token", "")
	for _, answer := range []string{"former", "12345"} {
		if err := g.SaveCaptcha(t.Context(), 1, "token", answer); err != nil {
			t.Fatal(err)
		}
	}
	if ttl := g.rdb.PTTL(t.Context(), CaptchaKey(1, "token")).Val(); ttl <= 0 || ttl > captchaLife {
		t.Errorf("an answer lives for %v, want at most %v", ttl, captchaLife)
	}
	take(2, "token", "")
	take(1, "other", "")
	take(1, "token", "12345")
	take(1, "token", "")
}
