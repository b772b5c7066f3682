package seckill_test

import (
	"testing"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A process that cannot settle for four seconds keeps its tickets: another process, which may claim entries after 1.5 s of
// silence, does not claim them.
func TestHeartbeatKeepsTickets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 1500 * time.Millisecond
	slow := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.SettlePause = 4 * time.Second })
	s.awaitGate()
	if b, err := slow.Buy(t.Context(), s.sale, 1); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want a ticket", b, err)
	}
	s.start(nil) // it would settle a claimed ticket at once
	if sandboxtest.Poll(func() bool { return s.rdb.XLen(t.Context(), gate.JournalKey(s.sale)).Val() == 0 }) {
		t.Error("a ticket was claimed although its owner is alive")
	}
}
