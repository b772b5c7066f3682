package seckill_test

import (
	"testing"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Results that are committed while Redis is away are acknowledged as soon as it replies, long before any process may claim
// the entries.
func TestFailedAcksAreRetried(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	s.reclaimAfter = time.Hour // no process claims
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	release := s.lockSale()
	for user := range int64(5) {
		if b, err := s.retryBuy(e, user+1); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("%+v, %v, want queued", b, err)
		}
	}
	proxy.Cut()
	release()
	sandboxtest.Until(t, "five units are sold, and their acks have failed", func() bool { return s.stock() == 5 && e.KeptAcks() == 5 })
	for range 2 { // more tries fail
		s.now(e.ReconcileNow)
		if g := s.gateState(); g.InFlight != 5 || e.KeptAcks() != 5 {
			t.Fatalf("%d tickets in the journal and %d results kept, want all five: no ack can have reached it", g.InFlight, e.KeptAcks())
		}
	}
	s.reconnect(proxy)
	sandboxtest.Until(t, "the five are acknowledged", func() bool { return s.gateState().InFlight == 0 })
	for user := range int64(5) {
		if st := s.awaitFinal(e, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v", user+1, st)
		}
	}
	s.wantConsistent()
}
