package seckill_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A queue of one place slows a crowd down, and loses no buyer and no unit.
func TestRushWithOneQueuePlace(t *testing.T) {
	t.Parallel()
	s := newShop(t, 20)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax = 1 })
	s.wantSold(20, s.runRush(40, e))
	s.wantConsistent()
}

// A process that stops settles what is queued, and refuses later clicks as busy.
func TestStopSettlesTheQueue(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.awaitGate()
	release := s.lockSale()
	for user := range int64(30) {
		if b, err := s.retryBuy(e, user+1); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("user %d: %+v, %v", user+1, b, err)
		}
	}
	stopped := make(chan struct{})
	go func() { e.stop(); close(stopped) }()
	sandboxtest.Until(t, "no click is admitted any more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) //timing: a click that waits so long was not refused
		defer cancel()
		_, err := e.Buy(ctx, s.sale, 1)
		return errors.Is(err, seckill.ErrBusy) && ctx.Err() == nil
	})
	select {
	case <-stopped:
		t.Error("stopped with tickets in the queue")
	default:
	}
	release()
	<-stopped
	if n := len(s.owners()); n != 30 {
		t.Errorf("%d orders, want 30", n)
	}
	if g := s.gateState(); g.InFlight != 0 {
		t.Errorf("%d tickets in the journal, want none", g.InFlight)
	}
	s.wantCleanAudit()
}
