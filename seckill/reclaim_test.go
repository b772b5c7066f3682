package seckill_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The tickets of a process that died are settled by another one, and so are those of an entry that names no owner, as former releases
// wrote them.
func TestTicketsOfDeadProcessesAreSettled(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 20 * time.Millisecond
	e := s.start(nil)
	s.awaitGate()
	for user, owner := range []string{"dead", ""} {
		if _, err := seckill.Reserve(t.Context(), s.rdb, owner, s.sale, int64(user+1)); err != nil {
			t.Fatal(err)
		}
		s.untilReclaimed(e, fmt.Sprintf("user %d has an order", user+1), func() bool {
			st, err := e.Result(t.Context(), s.sale, int64(user+1))
			return err == nil && st.State == seckill.Ordered
		})
	}
	s.wantConsistent()
	if g := s.gateState(); g.Stock != 3 {
		t.Errorf("%+v, want 3 units", g)
	}
}

// A ticket with more owners than allowed, who all died, is to blame: it is rejected, and the other tickets are settled.
func TestExhaustedTicketIsRejected(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = 20 * time.Millisecond
	first := s.stoppedWithGate()
	s.reserveWithOwners(first, seckill.Owners, 1)
	s.reserveWithOwners(first, 2, 2)
	second := s.start(nil)
	if st := s.awaitFinal(second, 2); st.State != seckill.Ordered {
		t.Errorf("the ticket with a second owner: %+v, want an order", st)
	}
	if st := s.awaitFinal(second, 1); st.State != seckill.Ordered {
		t.Errorf("the ticket with its last allowed owner: %+v, want an order", st)
	}
	s.wantConsistent()
	second.stop()

	s.reserveWithOwners(first, seckill.Owners+1, 3)
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
	s.reserveWithOwners(first, seckill.AloneOwners+1, 1, 2, 3)
	second := s.start(nil)
	for user := range int64(3) {
		if st := s.awaitFinal(second, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v, want an order", user+1, st)
		}
	}
	s.wantConsistent()
	second.stop()

	entry := s.reserveWithOwners(first, seckill.Owners+1, 4, 5)
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
	s.reserveWithOwners(first, seckill.AloneOwners+1, 1, 2, 3)
	s.reserveWithOwners(first, seckill.AloneOwners+1, 4, 5)
	release := s.lockSale()
	second := s.start(nil)
	sandboxtest.Until(t, "all five are in the queue", func() bool { return s.metric(second, "miaosha_queued_tickets").Gauge.GetValue() == 5 })
	for range 2 {
		s.now(second.BeatNow)
		s.now(second.ReclaimNow)
	}
	for _, e := range s.journal() {
		if e.Owners != seckill.AloneOwners+1 || e.Owner != second.Name() {
			t.Errorf("entry %s has had %d owners, the last of whom is %s; want %d, the last of whom has it in its queue", e.ID, e.Owners, e.Owner, seckill.AloneOwners+1)
		}
	}
	release()
	for user := range int64(5) {
		if st := s.awaitFinal(second, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v, want an order", user+1, st)
		}
	}
	s.wantConsistent()
}

// reserveWithOwners reserves tickets in one call and returns their entry, which will have had so many owners with the next takeover.
func (s *shop) reserveWithOwners(e *process, owners int, users ...int64) gate.Entry {
	s.Helper()
	if granted, err := e.ReserveAll(s.Context(), s.sale, users); err != nil || granted != len(users) {
		s.Fatal(granted, err)
	}
	all := s.journal()
	entry := all[len(all)-1]
	s.setOwners(entry.ID, "dead", owners-1)
	return entry
}

// Redis carries out a reserve call that no process waits for any more, however late that is. The process whose call it was queues
// the tickets.
func TestTicketsInDoubtAreRecovered(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = time.Hour
	e := s.start(nil)
	s.awaitGate()
	release := s.lockSale()
	if _, err := e.ReserveAll(t.Context(), s.sale, []int64{1}); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "its process queues the ticket", func() bool {
		s.now(e.ReclaimNow)
		return s.metric(e, "miaosha_queued_tickets").Gauge.GetValue() == 1
	})
	for _, entry := range s.journal() {
		if entry.Owner != e.Name() || entry.Owners != 1 {
			t.Errorf("%+v: want the first owner", entry)
		}
	}
	release()
	if st := s.awaitFinal(e, 1); st.State != seckill.Ordered {
		t.Errorf("%+v, want an order", st)
	}
	s.wantConsistent()
}

// A result whose ack failed is kept: its ticket, which has left the queue, is not queued again.
func TestKeptAcksAreNotInDoubt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	s.stoppedWithGate()
	if _, err := e.ReserveAll(t.Context(), s.sale, []int64{1}); err != nil {
		t.Fatal(err)
	}
	entry := s.journal()[0]
	e.KeepAck(s.sale, order.Result{Ticket: entry.Tickets[0].ID, UserID: 1})
	sandboxtest.Until(t, "the entry is old enough", func() bool { return s.ageOf(entry) > 2*gate.ReserveLimit })
	if e.Reclaim(t.Context()); e.Queued() != 0 {
		t.Error("the ticket is queued, and its result is kept")
	}
	e.DropAck(s.sale)
	if e.Reclaim(t.Context()); e.Queued() != 1 {
		t.Errorf("%d tickets are queued when its result is kept no more, want 1", e.Queued())
	}
}

// ageOf returns the age of an entry by the clock of Redis.
func (s *shop) ageOf(entry gate.Entry) time.Duration {
	return s.rdb.Time(s.Context()).Val().Sub(entry.Since)
}

// The tickets of a process that beats are its own, however long they wait. When it beats no more, another one takes them over.
func TestAProcessThatBeatsKeepsItsTickets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.stoppedWithGate()
	slow, other := s.engine(nil), s.engine(nil)
	other.ReclaimAfter(1) // a single round without a beat is enough
	if _, err := slow.ReserveAll(t.Context(), s.sale, []int64{1, 2}); err != nil {
		t.Fatal(err)
	}
	look := func() gate.Entry {
		other.Beat(t.Context())
		other.Reclaim(t.Context())
		return s.journal()[0]
	}
	for range 4 {
		slow.Beat(t.Context())
		if e := look(); e.Owner != slow.Name() || e.Owners != 1 || other.Queued() != 0 {
			t.Fatalf("%+v: taken over from a process that beats", e)
		}
	}
	if e := look(); e.Owner != other.Name() || e.Owners != 2 || other.Queued() != 2 {
		t.Errorf("%+v, and %d tickets are queued; want both taken over", e, other.Queued())
	}
}

// The clock of Redis went back: an entry is from the future, and its process looks at it all the same.
func TestAnEntryFromTheFutureIsLookedAt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.stoppedWithGate()
	e := s.engine(nil)
	values := []string{"owner", e.Name(), "epoch", "1", "n", "1", "tickets", "7 " + uuid.NewString()}
	id := fmt.Sprintf("%d-0", time.Now().Add(time.Hour).UnixMilli())
	if err := s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: gate.JournalKey(s.sale), ID: id, Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
	if e.Reclaim(t.Context()); e.Queued() != 1 {
		t.Errorf("%d tickets are queued, want the one from the future", e.Queued())
	}
}

// Two looks of one process at the same time queue a ticket once.
func TestOneLookAtATime(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.stoppedWithGate()
	e := s.engine(nil)
	if _, err := e.ReserveAll(t.Context(), s.sale, []int64{1}); err != nil {
		t.Fatal(err)
	}
	entry := s.journal()[0]
	sandboxtest.Until(t, "the entry is old enough", func() bool { return s.ageOf(entry) > 2*gate.ReserveLimit })
	var looks sync.WaitGroup
	for range 8 {
		looks.Go(func() { e.Reclaim(t.Context()) })
	}
	if looks.Wait(); e.Queued() != 1 {
		t.Errorf("%d tickets are queued, want one", e.Queued())
	}
}

// The tickets of a process that has surely died are settled at once. Those of a process that is only silent wait until it has been
// silent long enough.
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
	of := func(owner string) []gate.Entry {
		return slices.DeleteFunc(s.journal(), func(e gate.Entry) bool { return e.Owner != owner })
	}
	sandboxtest.Until(t, "the tickets are taken over", func() bool { return len(of(dead)) == 0 })
	for _, entry := range of(e.Name()) {
		if entry.Owners != 2 {
			t.Errorf("%+v has had %d owners, want 2", entry, entry.Owners)
		}
	}
	release()
	sandboxtest.Until(t, "they have an order", func() bool { return len(s.owners()) == 3 })
	for range 2 {
		s.now(e.BeatNow)
		s.now(e.InheritNow)
		s.now(e.ReclaimNow)
	}
	if left := of("silent"); len(left) != 1 || len(s.owners()) != 3 {
		t.Fatalf("%d orders, and the silent process has %d entries, want 3 and one", len(s.owners()), len(left))
	}
	s.reclaimAll(e)
	s.wantConsistent()
	if n := len(s.owners()); n != 4 {
		t.Errorf("%d orders, want also that of the process that was silent for long enough", n)
	}
}

// Tickets in a journal of a release that this one does not read are not forgotten: the process does not start.
func TestAFormerJournalIsRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.engine(nil)
	if err := e.CheckJournals(t.Context()); err != nil {
		t.Errorf("without one: %v", err)
	}
	s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: strings.Replace(gate.JournalKey(s.sale), "journal2", "journal", 1), Values: []string{"user", "1"}})
	if err := e.CheckJournals(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(s.sale)) || !strings.Contains(err.Error(), "c40b7e4") {
		t.Errorf("%v, want the sale and the release that drains it", err)
	}
}
