package captcha

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A sum allows one try, right or wrong. It belongs to its session and its sale, and expires after a minute.
func TestCaptcha(t *testing.T) {
	t.Parallel()
	db, rdb := sandboxtest.DB(t), sandboxtest.Redis(t)
	sales, now := goods.New(db), time.Now()
	sold, err := sales.Sell(t.Context(), goods.Item{Title: "tea"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	other, err := sales.Sell(t.Context(), goods.Item{Title: "milk"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	later, err := sales.Sell(t.Context(), goods.Item{Title: "salt"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	cache := goods.NewCache(sales)
	e, err := seckill.New(seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 10, QMax: 100, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: db, Redis: rdb, Sales: sales, Cache: cache, Orders: order.New(db, order.Config{PayWithin: time.Hour}), Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sums := New(Config{Kind: "math"}, cache, nil, e.Shared()) // the engine does not run, so its clock is this one
	draw := func(sale int64, token string) (answer string) {
		t.Helper()
		png, shown, err := sums.Draw(t.Context(), sale, 1, token)
		if err != nil || len(png) == 0 {
			t.Fatalf("a picture of %d bytes, %v", len(png), err)
		}
		if shown != "" {
			t.Fatalf("the shop shows the answer %q", shown)
		}
		key := gate.SumOfSale(sale, token).Key()
		if left := rdb.PTTL(t.Context(), key).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("the answer expires in %v, want a minute", left)
		}
		answer, _, _ = strings.Cut(rdb.Get(t.Context(), key).Val(), " ")
		return answer
	}
	try := func(what string, sale int64, token, answer string, want error) {
		t.Helper()
		path, _, err := e.Address(t.Context(), sale, 1, token, sums.Answer(sale, 1, token, answer))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err == nil {
			if user, err := e.CheckAddress(sale, token, path); err != nil || user != 1 {
				t.Errorf("%s: the address is of user %d, %v", what, user, err)
			}
		}
	}
	wrong, stale := ErrWrong, ErrStale
	withAnswers := New(Config{Kind: "math", Answers: true}, cache, nil, e.Shared())
	_, shown, err := withAnswers.Draw(t.Context(), sold, 1, "tool")
	if err != nil {
		t.Error(err)
	}
	if want := rdb.Get(t.Context(), gate.SumOfSale(sold, "tool").Key()).Val(); shown == "" || shown != want {
		t.Errorf("a load tool is shown the answer %q, want %q", shown, want)
	}
	try("none drawn", sold, "a", "1", wrong)
	try("none drawn, none given", sold, "a", "", wrong)
	answer := draw(sold, "a")
	try("another session", sold, "b", answer, wrong)
	try("another sale", other, "a", answer, wrong)
	try("right", sold, "a", answer, nil)
	try("right again", sold, "a", answer, wrong)
	answer = draw(sold, "a")
	try("wrong", sold, "a", answer+"0", wrong)
	try("right after wrong", sold, "a", answer, wrong)
	answer = draw(sold, "a")
	try("nothing", sold, "a", "", wrong)
	try("right after nothing", sold, "a", answer, wrong)
	old := draw(sold, "a")
	answer = draw(sold, "a")
	if old != answer { // in another tab
		try("of an older picture", sold, "a", old, stale)
		try("of an older picture, in another session", sold, "b", old, wrong)
		try("of an older picture, again", sold, "a", old, stale)
		try("of the newest picture", sold, "a", answer, nil)
		try("of an older picture, when the newest is used up", sold, "a", old, wrong)
	}
	// A sum in words follows the same rules. Of a picture and words, only the one drawn last counts.
	inWords := func(sale int64, token string) (answer string) {
		t.Helper()
		zh, _, err := sums.Spell(t.Context(), sale, 1, token, true)
		if err != nil || strings.Trim(zh, "零一二三四五六七八九十百千万加减") != "" {
			t.Fatalf("%q, %v", zh, err)
		}
		en, shown, err := sums.Spell(t.Context(), sale, 1, token, false)
		if err != nil || !strings.Contains(en, " thousand ") {
			t.Fatalf("%q, %v", en, err)
		}
		if shown != "" {
			t.Fatalf("the shop shows the answer %q", shown)
		}
		if left := rdb.PTTL(t.Context(), gate.SumOfSale(sale, token).Key()).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("the answer expires in %v, want a minute", left)
		}
		answer, _, _ = strings.Cut(rdb.Get(t.Context(), gate.SumOfSale(sale, token).Key()).Val(), " ")
		return answer
	}
	old = draw(sold, "a")
	if answer = inWords(sold, "a"); old != answer {
		try("of a picture before the words", sold, "a", old, stale)
	}
	began := time.Now()
	answer = inWords(sold, "a")
	try("words, another session", sold, "b", answer, wrong)
	try("words, another sale", other, "a", answer, wrong)
	try("words, right", sold, "a", answer, nil)
	// the time that is kept is in ms
	if took := time.Since(began); took < wordsPause-time.Millisecond { //timing: at least: the clock starts before
		t.Errorf("an answer to words is judged after %v, sooner than a person can hear them", took)
	}
	try("words, right again", sold, "a", answer, wrong)
	answer = inWords(sold, "a")
	try("words, wrong", sold, "a", answer+"0", wrong)
	try("words, right after wrong", sold, "a", answer, wrong)
	// An early request is refused before its answer is judged, so the sum is not used up.
	answer = draw(later, "a")
	var early goods.NotStartedError
	if _, _, err := e.Address(t.Context(), later, 1, "a", sums.Answer(later, 1, "a", answer)); !errors.As(err, &early) {
		t.Errorf("before the start: %v, want NotStartedError", err)
	}
	if rdb.Exists(t.Context(), gate.SumOfSale(later, "a").Key()).Val() != 1 {
		t.Error("a request before the start used the sum up")
	}
}
