package seckill_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// While a call probes Redis, the sale goes on without it.
func TestBuyDuringAProbe(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	proxy.Cut()
	sandboxtest.Until(t, "the breaker is open", func() bool { return !e.GateAvailable() })
	proxy.Swallow("", math.MaxInt) // a probe finds a Redis that accepts its connection and never replies
	s.reconnect(proxy)
	sandboxtest.Until(t, "a probe waits for its reply", func() bool { return proxy.Lost() > 0 })
	if b, err := s.retryBuy(e, 1); err != nil || b.Status.State != seckill.Ordered {
		t.Errorf("%+v, %v, want an order", b, err)
	}
	proxy.Heal()
	s.wantConsistent()
}

// The reply to a reserve call is lost. The client repeats the call, and the buyer gets the same ticket.
func TestLostReserveReplyIsHarmless(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	proxy.Lose("NEW ", 1)
	if _, err := s.retryBuy(e, 1); err != nil {
		t.Fatalf("%v, want a ticket", err)
	}
	if proxy.Lost() != 1 {
		t.Fatal("no reply was lost")
	}
	s.mustBuy(e, 1)
	s.wantConsistent()
	if n := s.stock(); n != 4 {
		t.Errorf("%d units left, want 4", n)
	}
}

// As many clicks may wait for a lane as it serves in 20 ms, and never fewer than one batch.
func TestLaneRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		took []time.Duration // batches, one after the other
		room int
	}{
		{nil, 4096},
		{slices.Repeat([]time.Duration{time.Millisecond}, 20), 4096},
		{slices.Repeat([]time.Duration{4 * time.Millisecond}, 20), 1280},
		{slices.Repeat([]time.Duration{250 * time.Millisecond}, 20), 256},
		{[]time.Duration{40 * time.Millisecond}, 2112}, // one slow batch halves it
		{append(slices.Repeat([]time.Duration{time.Second}, 20), slices.Repeat([]time.Duration{time.Millisecond}, 20)...), 4095},
	} {
		if got := seckill.LaneRoom(c.took...); got != c.room {
			t.Errorf("after %v: room for %d, want %d", c.took, got, c.room)
		}
	}
}

// Clicks that have waited in a lane for longer than the limit are refused as busy. The others of their batch are served.
func TestClicksThatWaitedTooLongAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.awaitGate()
	sandboxtest.Until(t, "the third user gets a ticket", func() bool {
		errs := e.ServeAfterWaiting(t.Context(), s.sale, 10*time.Second, 4*time.Second, time.Millisecond)
		for i := range 2 {
			if !errors.Is(errs[i], seckill.ErrBusy) {
				t.Errorf("user %d: %v, want busy", i+1, errs[i])
			}
		}
		if errs[2] != nil && !errors.Is(errs[2], seckill.ErrBusy) {
			t.Errorf("user 3: %v", errs[2])
		}
		return errs[2] == nil
	})
	if st := s.awaitFinal(e, 3); st.State != seckill.Ordered {
		t.Errorf("user 3 was in time and has %s", st.State)
	}
	if got := s.owners(); len(got) != 1 {
		t.Errorf("%d orders, want only that of user 3", len(got))
	}
}

// While a process refuses clicks because the sale is sold out, a buyer with a ticket or an order hears of it, whichever process
// has granted it, and also where no process has had the gate's reply.
func TestHoldersAreNotRefusedAsSoldOut(t *testing.T) {
	t.Parallel()
	s := newShop(t, 3)
	s.reclaimAfter = time.Hour
	e, other := s.start(nil), s.start(nil)
	s.awaitGate()
	id := s.mustBuy(e, 1)
	release := s.lockSale() // the tickets of users 2 and 3 stay queued
	if _, err := s.retryBuy(e, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 3); err != nil {
		t.Fatal(err)
	}
	for _, at := range []*process{e, other} {
		s.awaitMark(at, 4)
		for user := int64(1); user <= 3; user++ {
			if at.SoldOut(s.sale, user) {
				t.Errorf("user %d is refused as sold out, and has a ticket", user)
			}
		}
		if b, err := s.retryBuy(at, 1); err != nil || b.Status.OrderID != id {
			t.Errorf("%+v, %v, want order %s", b, err, id)
		}
	}
	release()
	s.reclaimAll(e, other)
	s.wantConsistent()
}

// Two processes refuse clicks because the sale is sold out, and one of them hears of a unit that came back. Nothing tells the other to
// clear its mark: the mark ends by itself, and the other sells the unit.
func TestAUnitThatComesBackIsSoldByEveryProcess(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	e, other := s.start(nil), s.start(nil)
	s.awaitGate()
	ids := map[int64]uuid.UUID{1: s.mustBuy(e, 1), 2: s.mustBuy(e, 2)}
	for user, at := range []*process{e, other} {
		s.awaitMark(at, 10)
		seller := []*process{other, e}[user]
		s.awaitMark(seller, 10)
		if err := s.orders.Cancel(t.Context(), int64(user+1), ids[int64(user+1)]); err != nil {
			t.Fatal(err)
		}
		at.UnitsReturned(s.sale)
		sandboxtest.Until(t, "the process that was told nothing sells the unit", func() bool {
			if seller.SoldOut(s.sale, int64(user+3)) {
				seller.Buy(t.Context(), s.sale, int64(user+2)) // an owner's click, since a lane without clicks ends, with its mark
				return false
			}
			_, err := seller.Buy(t.Context(), s.sale, int64(user+3))
			return err == nil
		})
		if st := s.awaitFinal(seller, int64(user+3)); st.State != seckill.Ordered {
			t.Errorf("%+v, want an order", st)
		}
	}
	s.wantConsistent()
}

// Without a gate, those who have an order are known as well.
func TestHoldersAreNotRefusedAsSoldOutWithoutAGate(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	off := func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" }
	e, other := s.start(off), s.start(off)
	id := s.mustBuy(e, 1)
	s.awaitMark(other, 2)
	if other.SoldOut(s.sale, 1) {
		t.Error("the owner is refused as sold out")
	}
	if b, err := s.retryBuy(other, 1); err != nil || b.Status.OrderID != id {
		t.Errorf("%+v, %v, want order %s", b, err, id)
	}
}
