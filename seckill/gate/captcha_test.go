package gate

import (
	"strings"
	"testing"
	"time"

	"miaosha/seckill/purpose"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestCaptchaHasOneTry(t *testing.T) {
	t.Parallel()
	g := New(sandboxtest.Redis(t), "here", time.Second)
	take := func(sale int64, token, given, want string, wantFrom time.Time, wantStale bool) {
		t.Helper()
		got, from, stale, err := g.TakeCaptcha(t.Context(), SumOfSale(sale, token), given)
		if err != nil || got != want || !from.Equal(wantFrom) || stale != wantStale {
			t.Errorf("the answer for sale %d and %s: %q, %v, %v, %v; want %q, %v, %v", sale, token, got, from, stale, err, want, wantFrom, wantStale)
		}
	}
	var none time.Time
	take(1, "token", "", "", none, false)
	later := time.UnixMilli(1763731200000)
	for answer, from := range map[string]time.Time{"10001": none, "10002": later, "10003": none, "10004": none, "10005": none} {
		if err := g.SaveCaptcha(t.Context(), SumOfSale(1, "token"), answer, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.SaveCaptcha(t.Context(), SumOfSale(1, "token"), "12345", later); err != nil {
		t.Fatal(err)
	}
	if ttl := g.rdb.PTTL(t.Context(), SumOfSale(1, "token").Key()).Val(); ttl <= 0 || ttl > purpose.SaleSum.Life {
		t.Errorf("an answer lives for %v, want at most %v", ttl, purpose.SaleSum.Life)
	}
	take(2, "token", "12345", "", none, false)
	take(1, "other", "12345", "", none, false)
	known := 0
	for _, replaced := range []string{"10001", "10002", "10003", "10004", "10005"} {
		if strings.Contains(g.rdb.Get(t.Context(), SumOfSale(1, "token").Key()).Val(), replaced) {
			known++
			take(1, "token", replaced, "12345", later, true)
		}
	}
	if known != 4 {
		t.Errorf("%d replaced sums are known, want the last four", known)
	}
	take(1, "token", "1763731200000", "12345", later, false) // a wrong answer
	take(1, "token", "12345", "", none, false)
	if err := g.SaveCaptcha(t.Context(), SumOfSale(1, "token"), "12345", none); err != nil {
		t.Fatal(err)
	}
	take(1, "token", "12345", "12345", none, false)
}
