package seckill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The tickets of a process that died are settled by another one: entries that the dead process owned, and entries that no
// process was ever given.
func TestTicketsOfDeadProcessesAreSettled(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 20 * time.Millisecond
	e := s.start(nil)
	s.awaitGate()
	for user := int64(1); user <= 3; user++ {
		if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, user); err != nil {
			t.Fatal(err)
		}
		switch user {
		case 2: // as if the reserve script had stopped before it assigned the entry
			if err := s.rdb.XGroupDestroy(t.Context(), gate.JournalKey(s.sale), "settle").Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.rdb.XGroupCreate(t.Context(), gate.JournalKey(s.sale), "settle", "0").Err(); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := s.rdb.XGroupDestroy(t.Context(), gate.JournalKey(s.sale), "settle").Err(); err != nil {
				t.Fatal(err)
			}
		}
		sandboxtest.Until(t, 6*time.Second, fmt.Sprintf("user %d has an order", user), func() bool {
			st, err := e.Result(t.Context(), s.sale, user)
			return err == nil && st.State == seckill.Ordered
		})
	}
	s.wantConsistent()
	if g := s.gateState(); g.Stock != 2 {
		t.Errorf("%+v, want 2 units", g)
	}
}

// A ticket with more owners than allowed, who all died, is to blame: it is rejected, and the other tickets are settled.
func TestExhaustedTicketIsRejected(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 20 * time.Millisecond
	first := s.start(nil)
	s.awaitGate()
	first.stop()
	allowed, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1)
	if err != nil {
		t.Fatal(err)
	}
	entry := strings.Split(allowed, ":")[1]
	for range seckill.Deliveries - 2 { // with the reserve's own delivery and the claim to come, as many as allowed
		if err := s.rdb.XClaim(t.Context(), &redis.XClaimArgs{Stream: gate.JournalKey(s.sale), Group: "settle", Consumer: "dead",
			Messages: []string{entry}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 2); err != nil {
		t.Fatal(err)
	}
	second := s.start(nil)
	if st := s.awaitFinal(second, 2); st.State != seckill.Ordered {
		t.Errorf("the ticket delivered twice: %+v, want an order", st)
	}
	if st := s.awaitFinal(second, 1); st.State != seckill.Ordered {
		t.Errorf("the ticket at its last allowed delivery: %+v, want an order", st)
	}
	s.wantConsistent()
	second.stop()

	exhausted, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 3)
	if err != nil {
		t.Fatal(err)
	}
	entry = strings.Split(exhausted, ":")[1]
	for range seckill.Deliveries - 1 { // one delivery more
		if err := s.rdb.XClaim(t.Context(), &redis.XClaimArgs{Stream: gate.JournalKey(s.sale), Group: "settle", Consumer: "dead",
			Messages: []string{entry}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	third := s.start(nil)
	if st := s.awaitFinal(third, 3); st.State != seckill.Invalid {
		t.Errorf("the exhausted ticket: %+v, want invalid", st)
	}
	deadLetters := func() int64 { return s.rdb.XLen(t.Context(), gate.DeadKey(s.sale)).Val() }
	// A result is read from Postgres before the dead letter is written.
	sandboxtest.Until(t, 2*time.Second, "there is a dead letter", func() bool { return deadLetters() > 0 })
	s.wantConsistent()
	if n := deadLetters(); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// Redis carries out a reserve call after its process has stopped waiting. That process queues the tickets, long before
// another process may claim them.
func TestTicketsInDoubtAreRecovered(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = time.Hour
	e := s.start(nil)
	s.awaitGate()
	if _, err := e.ReserveAll(t.Context(), s.sale, []int64{1}); err != nil {
		t.Fatal(err)
	}
	if sandboxtest.Poll(2*seckill.ReconcileEvery, func() bool { return s.gateState().InFlight == 0 }) {
		t.Error("the ticket was queued although no call was in doubt")
	}
	e.MarkInDoubt(s.sale)
	if st := s.awaitFinal(e, 1); st.State != seckill.Ordered {
		t.Errorf("%+v, want an order", st)
	}
	s.wantConsistent()
}

// The tickets of a process that has surely died are settled at once. Taking them over is no delivery. Those of a process that
// is only silent wait until it has been silent long enough.
func TestTicketsOfADeadProcessAreTakenOver(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	first := s.start(nil)
	s.awaitGate()
	first.stop()
	dead, err := seckill.DeadProcess(s.secret())
	if err != nil {
		t.Fatal(err)
	}
	for user := int64(1); user <= 3; user++ {
		if _, err := seckill.Reserve(t.Context(), s.rdb, dead, s.sale, user); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seckill.Reserve(t.Context(), s.rdb, "silent", s.sale, 4); err != nil {
		t.Fatal(err)
	}
	release := s.lockSale()
	began := time.Now()
	s.start(nil)
	pending := func() []redis.XPendingExt {
		p, err := s.rdb.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: gate.JournalKey(s.sale), Group: "settle", Start: "-", End: "+", Count: 9}).Result()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	sandboxtest.Until(t, time.Second, "the tickets are taken over", func() bool {
		return !slices.ContainsFunc(pending(), func(p redis.XPendingExt) bool { return p.Consumer == dead })
	})
	for _, p := range pending() {
		if p.RetryCount != 1 && sandboxtest.Kind() != sandbox.Embedded { // which counts every claim
			t.Errorf("entry %s of %s has had %d deliveries, want 1", p.ID, p.Consumer, p.RetryCount)
		}
	}
	release()
	sandboxtest.Until(t, time.Second, "they have an order", func() bool { return len(s.owners()) == 3 })
	t.Logf("settled %v after the start", time.Since(began))
	s.wantConsistent()
	if took := time.Since(began); took < 5*time.Second || len(s.owners()) != 4 {
		t.Errorf("after %v %d orders; the silent process has 5 s", took, len(s.owners()))
	}
}
