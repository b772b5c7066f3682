package seckill_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
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
		s.untilReclaimed(e, fmt.Sprintf("user %d has an order", user), func() bool {
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
	s.stoppedWithGate()
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
	sandboxtest.Until(t, "there is a dead letter", func() bool { return deadLetters() > 0 })
	s.wantConsistent()
	if n := deadLetters(); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// The tickets of an entry that has had many owners are settled one by one. One that kills its process does not take the others of
// its entry with it: when there have been too many owners, only a ticket without a result is rejected.
func TestTicketsOfASuspectEntryAreSettledAlone(t *testing.T) {
	t.Parallel()
	s := newShop(t, 9)
	s.reclaimAfter = 20 * time.Millisecond
	first := s.stoppedWithGate()
	if _, err := s.db.Exec(t.Context(), `
		create function alone() returns trigger language plpgsql as $$
		begin
			if (select count(*) from placed) > 1 then raise 'two orders in a transaction'; end if;
			return null;
		end $$;
		create trigger alone after insert on orders referencing new table as placed for each statement execute function alone()`); err != nil {
		t.Fatal(err)
	}
	s.reserveWithOwners(first, seckill.AloneDeliveries+1, 1, 2, 3)
	second := s.start(nil)
	for user := range int64(3) {
		if st := s.awaitFinal(second, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v, want an order", user+1, st)
		}
	}
	s.wantConsistent()
	second.stop()

	entry := s.reserveWithOwners(first, seckill.Deliveries+1, 4, 5)
	if _, err := first.SettleOnce(t.Context(), s.sale, entry.Tickets[:1]); err != nil { // by an owner who then died
		t.Fatal(err)
	}
	third := s.start(nil)
	for user, want := range map[int64]string{4: seckill.Ordered, 5: seckill.Invalid} {
		if st := s.awaitFinal(third, user); st.State != want {
			t.Errorf("user %d: %+v, want %s", user, st, want)
		}
	}
	sandboxtest.Until(t, "there is a dead letter", func() bool { return s.rdb.XLen(t.Context(), gate.DeadKey(s.sale)).Val() == 1 })
	s.wantConsistent()
}

// While Postgres does not settle the tickets of such an entry one by one, they wait in the queue: no further owner is counted.
func TestSuspectTicketsWaitInTheQueue(t *testing.T) {
	t.Parallel()
	s := newShop(t, 9)
	s.reclaimAfter = 20 * time.Millisecond
	first := s.stoppedWithGate()
	s.reserveWithOwners(first, seckill.AloneDeliveries+1, 1, 2, 3)
	s.reserveWithOwners(first, seckill.AloneDeliveries+1, 4, 5)
	for _, p := range s.pending() { // one round claims both: a second claim would count as an owner of the first
		s.silence(p, s.reclaimAfter, p.RetryCount)
	}
	release := s.lockSale()
	second := s.start(nil)
	sandboxtest.Until(t, "all five are in the queue", func() bool { return s.metric(second, "miaosha_queued_tickets").Gauge.GetValue() == 5 })
	for range 2 {
		s.reclaimAll(second) // as if there had been no heartbeat
	}
	var owners []int64
	for _, p := range s.pending() {
		owners = append(owners, p.RetryCount)
	}
	diff := cmp.Diff([]int64{seckill.AloneDeliveries + 1, seckill.AloneDeliveries + 1}, owners)
	if diff != "" && sandboxtest.Kind() != sandbox.Embedded { // which counts every heartbeat
		t.Errorf("owners of both entries (-want +got):\n%s", diff)
	}
	release()
	for user := range int64(5) {
		if st := s.awaitFinal(second, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v, want an order", user+1, st)
		}
	}
	s.wantConsistent()
}

// reserveWithOwners reserves tickets in one call and returns their entry, which will have had so many owners with the next claim.
func (s *shop) reserveWithOwners(e *process, owners int, users ...int64) gate.Entry {
	s.Helper()
	if granted, err := e.ReserveAll(s.Context(), s.sale, users); err != nil || granted != len(users) {
		s.Fatal(granted, err)
	}
	entries, err := gate.New(s.rdb, "reader", time.Second).Journal(s.Context(), s.sale, 99)
	if err != nil || len(entries) == 0 {
		s.Fatal(entries, err)
	}
	entry := entries[len(entries)-1]
	for range owners - 2 { // the reserve call was one, the next claim is another
		if err := s.rdb.XClaim(s.Context(), &redis.XClaimArgs{Stream: gate.JournalKey(s.sale), Group: "settle", Consumer: "dead",
			Messages: []string{entry.ID}}).Err(); err != nil {
			s.Fatal(err)
		}
	}
	return entry
}

// A gate of a former release, which has a journal of its own, is set up again, and its tickets are settled. Its stock counts them
// as in flight until then.
func TestTicketsOfTheFormerReleaseAreSettled(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 200 * time.Millisecond
	s.stoppedWithGate()
	ctx, former := t.Context(), gate.FormerJournalKey(s.sale)
	if err := s.rdb.HDel(ctx, gate.GateKey(s.sale), "in_flight").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.XGroupCreateMkStream(ctx, former, "settle", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for user := range 2 {
		nonce := uuid.NewString()
		entry, err := s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: former, Values: []any{"user", user + 1, "nonce", nonce, "epoch", 1}}).Result()
		if err == nil {
			err = s.rdb.HSet(ctx, gate.TicketsKey(s.sale), user+1, "Q1:"+entry+":"+nonce).Err()
		}
		if err == nil && user == 0 { // the other was never given to a process
			err = s.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "settle", Consumer: "former", Streams: []string{former, ">"}}).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	release := s.lockSale()
	e := s.start(nil)
	sandboxtest.Until(t, "a new process claims the tickets", func() bool { return s.metric(e, "miaosha_queued_tickets").Gauge.GetValue() == 2 })
	release()
	for user := range int64(2) {
		if st := s.awaitFinal(e, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v, want an order", user+1, st)
		}
	}
	s.mustBuy(e, 3)
	s.wantConsistent()
	if n := s.rdb.XLen(ctx, former).Val(); n != 0 || s.stock() != 2 {
		t.Errorf("%d entries in the former journal and %d units left, want none and 2", n, s.stock())
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
	s.now(e.ReconcileNow)
	if queued := s.metric(e, "miaosha_queued_tickets").Gauge.GetValue(); queued != 0 || s.gateState().InFlight != 1 {
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
	s.reclaimAfter = time.Hour
	s.stoppedWithGate()
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
	e := s.start(nil)
	of := func(owner string) (theirs []redis.XPendingExt) {
		return slices.DeleteFunc(s.pending(), func(p redis.XPendingExt) bool { return p.Consumer != owner })
	}
	sandboxtest.Until(t, "the tickets are taken over", func() bool { return len(of(dead)) == 0 })
	for _, p := range s.pending() {
		if p.RetryCount != 1 && sandboxtest.Kind() != sandbox.Embedded { // which counts every claim
			t.Errorf("entry %s of %s has had %d deliveries, want 1", p.ID, p.Consumer, p.RetryCount)
		}
	}
	release()
	sandboxtest.Until(t, "they have an order", func() bool { return len(s.owners()) == 3 })
	s.silence(of("silent")[0], s.reclaimAfter/2, 1)
	s.now(e.InheritNow)
	s.now(e.ReclaimNow)
	if left := of("silent"); len(left) != 1 || len(s.owners()) != 3 {
		t.Fatalf("%d orders, and the silent process has %d entries, want 3 and one", len(s.owners()), len(left))
	}
	s.silence(of("silent")[0], s.reclaimAfter, 1)
	s.now(e.ReclaimNow)
	s.wantConsistent()
	if n := len(s.owners()); n != 4 {
		t.Errorf("%d orders, want also that of the process that was silent for long enough", n)
	}
}
