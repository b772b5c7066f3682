package seckill_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/gate"
)

// A sum allows one try, right or wrong. It belongs to its session and its sale, and expires after a minute.
func TestCaptcha(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	now := time.Now()
	other, err := s.sales.Sell(t.Context(), goods.Item{Title: "milk"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	later, err := s.sales.Sell(t.Context(), goods.Item{Title: "salt"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s.stoppedWithGate()
	e := s.engine(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Captcha = "math" }) // it does not run, so its clock is this one
	draw := func(sale int64, token string) (answer string) {
		t.Helper()
		png, shown, err := e.Captcha(t.Context(), sale, 1, token)
		if err != nil || len(png) == 0 {
			t.Fatalf("a picture of %d bytes, %v", len(png), err)
		}
		if shown != "" {
			t.Fatalf("the shop shows the answer %q", shown)
		}
		key := gate.SumOfSale(sale, token).Key()
		if left := s.rdb.PTTL(t.Context(), key).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("the answer expires in %v, want a minute", left)
		}
		answer, _, _ = strings.Cut(s.rdb.Get(t.Context(), key).Val(), " ")
		return answer
	}
	try := func(what string, sale int64, token, answer string, want error) {
		t.Helper()
		path, _, err := e.Path(t.Context(), sale, 1, token, answer)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err == nil {
			if user, err := e.CheckPath(sale, token, path); err != nil || user != 1 {
				t.Errorf("%s: the address is of user %d, %v", what, user, err)
			}
		}
	}
	wrong, stale := seckill.ErrWrongCaptcha, seckill.ErrStaleCaptcha
	withAnswers := s.engine(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Captcha, cfg.CaptchaAnswers = "math", true })
	_, shown, err := withAnswers.Captcha(t.Context(), s.sale, 1, "tool")
	if err != nil {
		t.Error(err)
	}
	if want := s.rdb.Get(t.Context(), gate.SumOfSale(s.sale, "tool").Key()).Val(); shown == "" || shown != want {
		t.Errorf("a load tool is shown the answer %q, want %q", shown, want)
	}
	try("none drawn", s.sale, "a", "1", wrong)
	try("none drawn, none given", s.sale, "a", "", wrong)
	answer := draw(s.sale, "a")
	try("another session", s.sale, "b", answer, wrong)
	try("another sale", other, "a", answer, wrong)
	try("right", s.sale, "a", answer, nil)
	try("right again", s.sale, "a", answer, wrong)
	answer = draw(s.sale, "a")
	try("wrong", s.sale, "a", answer+"0", wrong)
	try("right after wrong", s.sale, "a", answer, wrong)
	answer = draw(s.sale, "a")
	try("nothing", s.sale, "a", "", wrong)
	try("right after nothing", s.sale, "a", answer, wrong)
	old := draw(s.sale, "a")
	answer = draw(s.sale, "a")
	if old != answer { // in another tab
		try("of an older picture", s.sale, "a", old, stale)
		try("of an older picture, in another session", s.sale, "b", old, wrong)
		try("of an older picture, again", s.sale, "a", old, stale)
		try("of the newest picture", s.sale, "a", answer, nil)
		try("of an older picture, when the newest is used up", s.sale, "a", old, wrong)
	}
	// A sum in words follows the same rules. Of a picture and words, only the one drawn last counts.
	inWords := func(sale int64, token string) (answer string) {
		t.Helper()
		zh, _, err := e.CaptchaWords(t.Context(), sale, 1, token, true)
		if err != nil || strings.Trim(zh, "零一二三四五六七八九十百千万加减") != "" {
			t.Fatalf("%q, %v", zh, err)
		}
		en, shown, err := e.CaptchaWords(t.Context(), sale, 1, token, false)
		if err != nil || !strings.Contains(en, " thousand ") {
			t.Fatalf("%q, %v", en, err)
		}
		if shown != "" {
			t.Fatalf("the shop shows the answer %q", shown)
		}
		if left := s.rdb.PTTL(t.Context(), gate.SumOfSale(sale, token).Key()).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("the answer expires in %v, want a minute", left)
		}
		answer, _, _ = strings.Cut(s.rdb.Get(t.Context(), gate.SumOfSale(sale, token).Key()).Val(), " ")
		return answer
	}
	old = draw(s.sale, "a")
	if answer = inWords(s.sale, "a"); old != answer {
		try("of a picture before the words", s.sale, "a", old, stale)
	}
	began := time.Now()
	answer = inWords(s.sale, "a")
	try("words, another session", s.sale, "b", answer, wrong)
	try("words, another sale", other, "a", answer, wrong)
	try("words, right", s.sale, "a", answer, nil)
	// the time that is kept is in ms
	if took := time.Since(began); took < seckill.WordsPause-time.Millisecond { //timing: at least: the clock starts before
		t.Errorf("an answer to words is judged after %v, sooner than a person can hear them", took)
	}
	try("words, right again", s.sale, "a", answer, wrong)
	answer = inWords(s.sale, "a")
	try("words, wrong", s.sale, "a", answer+"0", wrong)
	try("words, right after wrong", s.sale, "a", answer, wrong)
	// An early request is refused before its answer is judged, so the sum is not used up.
	answer = draw(later, "a")
	var early goods.NotStartedError
	if _, _, err := e.Path(t.Context(), later, 1, "a", answer); !errors.As(err, &early) {
		t.Errorf("before the start: %v, want NotStartedError", err)
	}
	if s.rdb.Exists(t.Context(), gate.SumOfSale(later, "a").Key()).Val() != 1 {
		t.Error("a request before the start used the sum up")
	}
}
