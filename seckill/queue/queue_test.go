package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"miaosha/goods"
	"miaosha/order"
)

const maxBatch = 2000 // as in the shop

// Of a ticket that comes from the journal another process, or this one before its restart, may have sent a COMMIT.
func TestATicketFromTheJournalIsInDoubt(t *testing.T) {
	t.Parallel()
	both := []order.Buyer{{SaleID: 1, UserID: 1}, {SaleID: 1, UserID: 2}}
	q := New(10, maxBatch, 6, nil)
	q.Submit(1, []order.Ticket{{ID: "a", UserID: 1}}, true)
	q.Submit(1, []order.Ticket{{ID: "b", UserID: 2}}, false)
	s := q.Next()
	if got := q.Places(both); got[both[0]] != (Place{0, false}) || got[both[1]] != (Place{1, true}) {
		t.Errorf("before the COMMIT: %+v", got)
	}
	q.send(s)
	if got := q.Places(both); got[both[0]] != (Place{0, true}) || got[both[1]] != (Place{1, true}) {
		t.Errorf("after the COMMIT: %+v", got)
	}
	q.done(s)
	q.Submit(1, []order.Ticket{{ID: "c", UserID: 2}}, true)
	if got := q.Places(both); len(got) != 1 || got[both[1]] != (Place{0, false}) {
		t.Errorf("a new ticket: %+v", got)
	}
}

// entryOf returns the tickets of users first, first+1 and so on, n of them, in one journal entry.
func entryOf(entry string, first int64, n int) (tickets []order.Ticket) {
	for user := first; user < first+int64(n); user++ {
		tickets = append(tickets, order.Ticket{ID: fmt.Sprintf("1:%s:%d", entry, user), UserID: user})
	}
	return tickets
}

// What is known of one sale's entries does not cost more with other sales in the queue.
func TestTheEntriesOfASaleAreReadAlone(t *testing.T) {
	q := New(10, maxBatch, 6, nil)
	q.Submit(1, entryOf("1-0", 1, 2), true)
	alone := testing.AllocsPerRun(10, func() { q.PendingOf(1) })
	for sale := range int64(500) {
		q.Submit(sale+2, entryOf("2-0", 1, 2), true)
	}
	if got := q.PendingOf(1); len(got) != 1 || !got["1-0"] || len(q.PendingOf(9999)) != 0 {
		t.Errorf("%v, want the one entry of the sale", got)
	}
	if n := testing.AllocsPerRun(10, func() { q.PendingOf(1) }); n > alone+100 { // of the whole process, and one for each sale would be 500
		t.Errorf("%v allocations beside 500 sales, %v alone", n, alone)
	}
}

// A batch never ends inside a journal entry. What comes from a journal takes places that are not free.
func TestABatchHasWholeEntries(t *testing.T) {
	t.Parallel()
	q := New(maxBatch, maxBatch, 6, nil)
	if !q.TakeRoom(maxBatch-1) || !q.TakeRoom(258) || q.ClaimRoom(1, 1) != 0 || q.Free(1) != -257 {
		t.Fatalf("%d places free, want 257 fewer than none", q.Free(1))
	}
	q.Submit(1, append(entryOf("1-0", 1, maxBatch-1), entryOf("1-1", 3000, 256)...), true)
	q.Submit(1, entryOf("1-2", 4000, 2), true)
	for _, want := range []int{maxBatch - 1 + 256, 2} {
		s := q.Next()
		if len(s.batch) != want {
			t.Errorf("a batch of %d tickets, want %d", len(s.batch), want)
		}
		q.done(s)
	}
	if q.Free(1) != maxBatch || q.Queued() != 0 {
		t.Errorf("%d places free at the end, want all %d", q.Free(1), maxBatch)
	}
	q.Drain(0)
	if q.TakeRoom(1) {
		t.Error("a queue that has ended takes tickets")
	}
}

// After a large batch the next one gathers tickets for a while; after a small one, and when the process stops, it does not.
func TestALargeBatchIsFollowedByALargerOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first int
		ends  bool
		wait  time.Duration
		want  int // tickets in the next batch
	}{
		"large":                     {first: gatherFrom, wait: gatherFor, want: 3},
		"small":                     {first: gatherFrom - 1, want: 2},
		"large, and the queue ends": {first: gatherFrom, ends: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := New(100, maxBatch, 6, nil)
				q.Submit(1, entryOf("1-0", 1, c.first), true)
				s := q.Next()
				q.Submit(1, entryOf("1-1", 50, 1), true)
				q.ended = c.ends
				q.done(s)
				q.Submit(1, entryOf("1-2", 51, 1), true)
				began := time.Now()
				if c.wait > 0 {
					go func() { time.Sleep(c.wait / 2); q.Submit(1, entryOf("1-3", 52, 1), true) }()
				}
				batch := q.Next().batch
				if took := time.Since(began); took != c.wait {
					t.Errorf("the next batch begins after %v, want %v", took, c.wait)
				}
				if len(batch) != c.want {
					t.Errorf("the next batch has %d tickets, want %d", len(batch), c.want)
				}
			})
		})
	}
}

// A process that stops while a sale gathers tickets settles them at once. No worker leaves before.
func TestTheQueueIsDrainedWhileItGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var settled []int
		var q *Queue
		q = New(100, maxBatch, 6, func(_ context.Context, _ int64, batch []order.Ticket, _ time.Duration, _ func()) (int, error) {
			if settled = append(settled, len(batch)); len(settled) == 1 {
				q.Submit(1, entryOf("1-1", 50, 3), true)
			}
			return len(batch), nil
		})
		q.Submit(1, entryOf("1-0", 1, gatherFrom), true)
		go q.Run(t.Context())
		synctest.Wait()
		began := time.Now()
		q.Drain(time.Minute)
		if took := time.Since(began); took != 0 || !slices.Equal(settled, []int{gatherFrom, 3}) {
			t.Errorf("settled batches of %v after %v, want %d and 3 at once", settled, took, gatherFrom)
		}
	})
}

// serve takes the next sale, and fails the test if it is another one.
func serve(t *testing.T, q *Queue, sale int64, tickets int, wait time.Duration) *Sale {
	t.Helper()
	s := q.Next()
	if s.sale != sale || len(s.batch) != tickets || s.lockWait() != wait {
		t.Errorf("sale %d with %d tickets waits for %v, want sale %d, %d tickets and %v", s.sale, len(s.batch), s.lockWait(), sale, tickets, wait)
	}
	return s
}

// Sales that miss their lock are tried again with more patience, and leave workers to the others: three of six after the first miss,
// and four after the second.
func TestSlowSalesHaveFewWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(20, 2, 6, nil)
		buy := func(sale int64) {
			if q.ClaimRoom(sale, 1) != 1 {
				t.Fatal("no room")
			}
			q.Submit(sale, []order.Ticket{{ID: "a", UserID: 1}}, true)
		}
		miss := func(s *Sale) {
			q.putBack(s, 0)
			time.Sleep(time.Millisecond) // so that the pauses end in this order
		}
		for sale := range int64(5) {
			buy(1 + sale)
			miss(serve(t, q, 1+sale, 1, goods.LockWait))
		}
		time.Sleep(pauseLast)
		synctest.Wait()
		buy(9)
		var served []*Sale
		for sale := range int64(q.missPlaces - 1) {
			served = append(served, serve(t, q, 1+sale, 1, goods.LongLockWait))
		}
		q.done(serve(t, q, 9, 1, goods.LockWait)) // and not the fourth that has missed
		for _, s := range served {
			miss(s)
		}
		miss(serve(t, q, 4, 1, goods.LongLockWait))
		miss(serve(t, q, 5, 1, goods.LongLockWait))
		time.Sleep(pauseLast)
		synctest.Wait()
		buy(9)
		first := serve(t, q, 1, 1, goods.LongLockWait)
		serve(t, q, 2, 1, goods.LongLockWait)
		serve(t, q, 9, 1, goods.LockWait) // and not the third that is slow
		q.done(first)
		buy(1)
		serve(t, q, 3, 1, goods.LongLockWait)
		serve(t, q, 1, 1, goods.LockWait)
	})
}

// Healthy sales of a rush of many processes miss their lock once, again and again. A slow sale is tried meanwhile.
func TestASlowSaleIsServedBesideSalesThatMissOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(20, 2, 6, nil)
		submit := func(sale int64) {
			q.ClaimRoom(sale, 1)
			q.Submit(sale, []order.Ticket{{ID: "a", UserID: 1}}, true)
		}
		pause := func() {
			time.Sleep(pauseLast)
			synctest.Wait()
		}
		submit(1)
		for _, wait := range []time.Duration{goods.LockWait, goods.LongLockWait} {
			q.putBack(serve(t, q, 1, 1, wait), 0)
			pause()
		}
		slow := serve(t, q, 1, 1, goods.LongLockWait)
		var others []*Sale
		for sale := range int64(4) {
			submit(2 + sale)
			others = append(others, serve(t, q, 2+sale, 1, goods.LockWait))
		}
		for _, s := range others {
			q.putBack(s, 0)
			time.Sleep(time.Millisecond) // so that the pauses end in this order
		}
		pause()
		for sale := range int64(3) {
			serve(t, q, 2+sale, 1, goods.LongLockWait)
		}
		q.putBack(slow, 0)
		pause()
		serve(t, q, 1, 1, goods.LongLockWait) // and not the fourth of those that have missed once, which was ready before
	})
}

// Five sales stay locked for a while. However few workers there are, the buyers of another sale are served meanwhile, each locked sale
// is tried again and again, and its ticket is settled when the lock is gone. Of two workers or more one waits for no lock again.
func TestFewWorkersServeAllSales(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 3, 6} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const locked, other = 5, 9
				var mu sync.Mutex
				var free bool
				var running, again, most int
				tries := map[int64]int{}
				q := New(100, 2, workers, func(_ context.Context, sale int64, batch []order.Ticket, wait time.Duration, _ func()) (int, error) {
					mu.Lock()
					defer mu.Unlock()
					tries[sale]++
					if running++; running > workers {
						t.Errorf("%d sales are settled at once", running)
					}
					defer func() { running-- }()
					if free || sale == other {
						return len(batch), nil
					}
					if wait == goods.LongLockWait {
						again++
						most = max(most, again)
						defer func() { again-- }()
					}
					mu.Unlock()
					time.Sleep(wait)
					mu.Lock()
					return 0, goods.ErrLocked
				})
				buy := func(sale int64) { q.Submit(sale, entryOf("1-0", 1, q.ClaimRoom(sale, 1)), true) }
				for sale := range int64(locked) {
					buy(sale)
				}
				var ended sync.WaitGroup
				ended.Go(func() { q.Run(t.Context()) })
				for range 5 {
					buy(other)
					time.Sleep(locked*goods.LongLockWait + pauseLast)
				}
				mu.Lock()
				for sale := range int64(locked) {
					if tries[sale] < 3 {
						t.Errorf("sale %d was tried %d times", sale, tries[sale])
					}
				}
				if tries[other] != 5 || q.Ticket(other, 1) != "" {
					t.Errorf("%d of the 5 buyers of the other sale were served", tries[other])
				}
				if most > max(1, workers-1) {
					t.Errorf("%d of the workers wait for locks again", most)
				}
				free = true
				mu.Unlock()
				q.Drain(time.Minute)
				ended.Wait()
				if q.Queued() != 0 || q.busy != [3]int{} {
					t.Errorf("at the end %d tickets are queued, and the workers are busy: %v", q.Queued(), q.busy)
				}
			})
		})
	}
}

// What locked sales hold beyond half of the queue is not counted for the others. All together have at most twice as many places.
func TestLockedSalesLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(20, maxBatch, 6, nil)
		fill := func(sale int64, want int) {
			t.Helper()
			n := q.ClaimRoom(sale, 100)
			if n != want || !q.Full(sale) {
				t.Errorf("sale %d gets %d places, want %d", sale, n, want)
			}
			q.Submit(sale, entryOf("1-0", 1, n), true)
		}
		miss := func(sale int64, tickets int, wait time.Duration) {
			t.Helper()
			q.putBack(serve(t, q, sale, tickets, wait), 0)
			time.Sleep(pauseLast)
			synctest.Wait()
		}
		fill(1, 20)
		fill(2, 0)
		miss(1, 20, goods.LockWait)
		fill(1, 0)
		fill(2, 10) // the buyers of a sale that is not locked do not hear busy
		held := serve(t, q, 1, 20, goods.LongLockWait)
		miss(2, 10, goods.LockWait)
		fill(3, 10)
		q.putBack(held, 15)
		fill(1, 0) // it is slow beside another, and both together have half
		if n := q.Free(4); n != 20-(5+10+10)+5 {
			t.Errorf("%d places for the others, want what the locked sales have beyond half", n)
		}
		for range 3 {
			s := q.Next()
			q.done(s)
			time.Sleep(pauseLast)
			synctest.Wait()
		}
		if q.Free(1) != 20 || q.Queued() != 0 || q.missed != 0 || q.busy != [3]int{} {
			t.Errorf("at the end %d places are free, %d tickets queued, %d locked, and the workers are busy: %v", q.Free(1), q.Queued(), q.missed, q.busy)
		}
		q.ClaimRoom(1, 20)
		q.Submit(1, entryOf("1-0", 1, 20), true)
		for range 2 {
			s := q.Next()
			q.putBack(s, 0)
			time.Sleep(pauseLast)
			synctest.Wait()
		}
		q.putBack(serve(t, q, 1, 20, goods.LongLockWait), 5)
		if n := q.Free(1); n != 5 {
			t.Errorf("%d places for a slow sale that is alone, want the 5 that nobody else needs", n)
		}
		time.Sleep(pauseLast)
		synctest.Wait()
		q.ClaimRoom(1, 5)
		q.Submit(1, entryOf("1-1", 30, 5), true)
		if !q.TakeRoom(20) { // of another journal
			t.Fatal("the queue has ended")
		}
		q.Submit(2, entryOf("1-0", 1, 20), false)
		q.putBack(serve(t, q, 1, 15, goods.LongLockWait), 0)
		q.putBack(serve(t, q, 2, 20, goods.LockWait), 0)
		if n := q.Free(3); n != 0 {
			t.Errorf("%d places beyond twice the capacity", n)
		}
	})
}

// What is settled of a batch that is put back is not tried again.
func TestABatchThatIsPutBackForgetsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(10, maxBatch, 6, nil)
		q.ClaimRoom(1, 5)
		q.Submit(1, append(entryOf("1-0", 1, 2), entryOf("1-1", 3, 3)...), true)
		s := serve(t, q, 1, 5, goods.LockWait)
		q.send(s)
		q.putBack(s, 2)
		at := q.Places([]order.Buyer{{SaleID: 1, UserID: 2}, {SaleID: 1, UserID: 3}, {SaleID: 1, UserID: 5}})
		if of := func(u int64) Place { return at[order.Buyer{SaleID: 1, UserID: u}] }; q.Queued() != 3 || len(at) != 2 || of(3) != (Place{0, true}) || of(5) != (Place{2, true}) {
			t.Errorf("%d are queued, at %+v", q.Queued(), at)
		}
		time.Sleep(pauseFirst)
		synctest.Wait()
		q.done(serve(t, q, 1, 3, goods.LongLockWait))
		if q.Queued() != 0 || q.busy != [3]int{} {
			t.Errorf("%d are queued at the end", q.Queued())
		}
	})
}
