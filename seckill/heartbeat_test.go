package seckill_test

import (
	"testing"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A process that cannot settle for a long time keeps its tickets: another process, which may claim what is silent, does
// not claim them.
func TestHeartbeatKeepsTickets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = time.Hour
	slow := s.start(nil)
	s.awaitGate()
	release := s.lockSale()
	if b, err := s.retryBuy(slow, 1); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want a ticket", b, err)
	}
	var owner string
	sandboxtest.Until(t, "its queue has the ticket", func() bool { return s.metric(slow, "miaosha_queued_tickets").Gauge.GetValue() == 1 })
	for _, p := range s.pending() {
		owner = p.Consumer
		s.silence(p, s.reclaimAfter, p.RetryCount)
	}
	s.now(slow.HeartbeatNow)
	other := s.start(nil)
	s.now(other.ReclaimNow)
	if p := s.pending(); len(p) != 1 || p[0].Consumer != owner || s.metric(other, "miaosha_queued_tickets").Gauge.GetValue() != 0 {
		t.Errorf("%+v: a ticket was claimed although its owner %s is alive", p, owner)
	}
	release()
	if st := s.awaitFinal(slow, 1); st.State != seckill.Ordered {
		t.Errorf("%+v, want an order", st)
	}
	s.wantConsistent()
}
