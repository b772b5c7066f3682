package seckill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
)

const (
	hotFor      = 10 * time.Second // so long a sale that missed its lock and had it then waits longer for it
	settleBatch = 2000             // tickets in one settle transaction, and the rest of the last one's journal entry
	drainLimit  = 10 * time.Second // to settle what is queued when the process stops

	// If a batch had gatherFrom tickets or more, and more wait at its end, these gather others for gatherFor (group commit): a
	// transaction for 300 tickets costs Postgres and this process little more than one for 40.
	gatherFrom = 16
	gatherFor  = 10 * time.Millisecond
)

// orderQueue is the order queue: bounded, in this process, served by a fixed number of workers. Each sale has a queue of its
// own, which one worker at a time serves. So a sale's tickets are settled in order, and only one transaction of this process
// locks its row at a time. Every ticket in the queue is also in a journal, so a crash loses none. The tickets of one journal
// entry come one after the other and are settled in one batch; where they are not, reclaim settles the entry again.
//
// Another transaction may keep a sale's row locked. Then the batch is put back, and tried again after a pause that grows, with more
// patience: in a rush of many processes the lock may take its time. A sale that misses the lock twice in a row is slow until a batch of
// it is settled: slow sales have few of the workers and half of the places, and what they hold beyond that does not count for others.
// Nor do sales that missed once take the last of these workers from them: in a rush there are always such. One worker alone has no
// other to leave: all sales take turns.
type orderQueue struct {
	capacity   int
	batch      int // tickets in a settle transaction, and the rest of the last one's journal entry
	workers    int // settle transactions at the same time, in this process
	missPlaces int // of them, for sales whose last try missed the lock
	slowPlaces int // of these, at most, for slow sales, and one of them for no other sale if there are two
	// Calls sent before each COMMIT, and returns how many tickets are settled. goods.ErrLocked: the others are to be put back.
	settle func(ctx context.Context, sale int64, batch []order.Ticket, wait time.Duration, sent func()) (int, error)

	mu     sync.Mutex
	room   int                  // free places
	missed int                  // tickets of sales whose last try missed the lock
	trying int                  // workers that settle such a sale
	slow   int                  // of them, those that settle a slow one
	bySale map[int64]*saleQueue // sales with tickets, in waiting or in batch
	ready  []*saleQueue         // sales that wait for a worker, each at most once
	wake   sync.Cond            // on mu: ready grew, or ended or quit was set
	ended  bool                 // workers leave when ready is empty, or at once if quit
	quit   bool
}

// saleQueue is one sale's tickets. Guarded by orderQueue.mu.
type saleQueue struct {
	sale     int64
	waiting  []order.Ticket
	batch    []order.Ticket   // that a worker settles now, or that is put back
	sent     bool             // a COMMIT of batch may have been sent
	pauses   bool             // it is ready when its time is over
	missed   int              // tries in a row that missed the lock
	hotUntil time.Time        // until then its lock may take its time, though it comes
	position map[int64]uint64 // user -> number in the queue
	claimed  map[int64]bool   // users whose ticket comes from the journal: a COMMIT of it may have been sent before; nil for none
	came     uint64           // numbers handed out
	gone     uint64           // numbers settled
}

func newOrderQueue(capacity, batch, workers int, settle func(context.Context, int64, []order.Ticket, time.Duration, func()) (int, error)) *orderQueue {
	q := &orderQueue{capacity: capacity, batch: batch, workers: workers, missPlaces: max(1, workers*2/3), slowPlaces: max(1, workers/3),
		settle: settle, room: capacity, bySale: map[int64]*saleQueue{}}
	q.wake.L = &q.mu
	return q
}

// claimRoom claims at most n places for a sale and returns how many it got. releaseRoom returns the places that are not needed.
func (q *orderQueue) claimRoom(sale int64, n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return 0
	}
	n = max(0, min(n, q.roomFor(sale)))
	q.room -= n
	return n
}

// roomFor returns how many more tickets of a sale may be queued. What locked sales hold beyond half of the places is not counted for
// the others, so the queue has at most twice its capacity. A slow sale is held to half of the places only beside another that misses
// its lock: the places of the rest are safe from it anyway. mu must be held.
func (q *orderQueue) roomFor(sale int64) int {
	s := q.bySale[sale]
	if s == nil || s.missed == 0 {
		return q.room + min(q.capacity, max(0, q.missed-q.capacity/2))
	}
	others := q.missed - len(s.batch) - len(s.waiting)
	room := q.room + min(q.capacity, max(0, others-q.capacity/2))
	if s.slow() && others > 0 {
		room = min(room, q.capacity/2-q.missed)
	}
	return room
}

// takeRoom takes n places for tickets of a journal, also if fewer are free: the journal of a sale has at most as many tickets as
// the queue has places. It reports whether the queue takes any more.
func (q *orderQueue) takeRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.room -= n
	}
	return !q.ended
}

func (q *orderQueue) releaseRoom(n int) {
	q.mu.Lock()
	q.room += n
	q.mu.Unlock()
}

// full reports whether no place is free for a sale.
func (q *orderQueue) full(sale int64) bool { return q.free(sale) <= 0 }

// free returns the number of places that are free for a sale.
func (q *orderQueue) free(sale int64) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.roomFor(sale)
}

// submit queues the tickets of journal entries whose places are claimed. It never blocks. It returns how many tickets are ahead of
// the first. fresh tickets were granted just now; others come from the journal.
func (q *orderQueue) submit(sale int64, tickets []order.Ticket, fresh bool) (ahead int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.bySale[sale]
	if s == nil {
		if len(tickets) == 0 {
			return 0
		}
		s = &saleQueue{sale: sale, position: map[int64]uint64{}}
		q.bySale[sale] = s
	}
	ahead = int(s.came - s.gone)
	if len(tickets) == 0 {
		return ahead
	}
	for _, t := range tickets {
		s.came++
		s.position[t.UserID] = s.came
		if !fresh {
			if s.claimed == nil {
				s.claimed = map[int64]bool{}
			}
			s.claimed[t.UserID] = true
		}
	}
	if s.missed > 0 {
		q.missed += len(tickets)
	}
	idle := len(s.waiting) == 0 && len(s.batch) == 0
	s.waiting = append(s.waiting, tickets...)
	if idle {
		q.ready = append(q.ready, s)
		q.wake.Signal()
	}
	return ahead
}

// place is the place of a ticket in the queue.
type place struct {
	ahead int  // tickets that will be settled before it
	sent  bool // its COMMIT may have been sent, so it may be settled in Postgres
}

// places returns the place of each buyer who has a ticket in this process's queue.
func (q *orderQueue) places(buyers []order.Buyer) map[order.Buyer]place {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := map[order.Buyer]place{}
	for _, b := range buyers {
		s := q.bySale[b.SaleID]
		if s == nil {
			continue
		}
		if n, ok := s.position[b.UserID]; ok {
			ahead := int(n - s.gone - 1)
			places[b] = place{ahead, s.claimed[b.UserID] || s.sent && ahead < len(s.batch)}
		}
	}
	return places
}

// ticket returns the id of the user's ticket in this process's queue, "" if there is none.
func (q *orderQueue) ticket(sale, user int64) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.bySale[sale]
	if s == nil || s.position[user] == 0 {
		return ""
	}
	at := int(s.position[user] - s.gone - 1)
	if at < len(s.batch) {
		return s.batch[at].ID
	}
	return s.waiting[at-len(s.batch)].ID
}

// users returns the users with a ticket in this process's queue.
func (q *orderQueue) users(sale int64) map[int64]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	users := map[int64]struct{}{}
	if s := q.bySale[sale]; s != nil {
		for user := range s.position {
			users[user] = struct{}{}
		}
	}
	return users
}

// pendingOf returns the journal entries of a sale whose tickets are in this process's queue.
func (q *orderQueue) pendingOf(sale int64) map[string]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := map[string]bool{}
	if s := q.bySale[sale]; s != nil {
		for _, tickets := range [][]order.Ticket{s.batch, s.waiting} {
			for _, t := range tickets {
				if entry, ok := gate.EntryID(t.ID); ok {
					entries[entry] = true
				}
			}
		}
	}
	return entries
}

// queued returns the number of tickets in the queue.
func (q *orderQueue) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.capacity - q.room
}

// Run serves the queue until it is drained, or ctx ends.
func (q *orderQueue) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range q.workers {
		workers.Go(func() { q.work(ctx) })
	}
	workers.Wait()
}

func (q *orderQueue) work(ctx context.Context) {
	for ctx.Err() == nil {
		s, batch := q.next()
		if s == nil {
			return
		}
		n, err := q.settle(ctx, s.sale, batch, s.lockWait(), func() { q.send(s) })
		if errors.Is(err, goods.ErrLocked) {
			q.putBack(s, n)
			continue
		}
		failpoint.Hit(failpoint.AfterAck)
		q.done(s)
	}
}

func (q *orderQueue) next() (*saleQueue, []order.Ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := func() int {
		return slices.IndexFunc(q.ready, func(s *saleQueue) bool {
			if s.slow() {
				return q.slow < q.slowPlaces && q.trying < q.missPlaces
			}
			return s.missed == 0 || q.trying < q.missPlaces && q.trying-q.slow < max(1, q.missPlaces-1)
		})
	}
	i := first()
	for ; i < 0 && !q.ended; i = first() {
		q.wake.Wait()
	}
	if i < 0 || q.quit {
		return nil, nil
	}
	s := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	q.count(s, 1)
	if len(s.batch) > 0 { // it was put back
		return s, s.batch
	}
	n := min(len(s.waiting), q.batch)
	for n < len(s.waiting) && gate.SameEntry(s.waiting[n-1], s.waiting[n]) {
		n++
	}
	s.batch, s.waiting = s.waiting[:n:n], s.waiting[n:]
	return s, s.batch
}

// count counts a worker that settles a sale, or does so no more, unless the sale is one that has its lock. mu must be held.
func (q *orderQueue) count(s *saleQueue, n int) {
	if s.missed > 0 {
		q.trying += n
	}
	if s.slow() {
		q.slow += n
	}
}

// slow reports whether the sale has missed its lock twice in a row. In a rush of many processes once is nothing.
func (s *saleQueue) slow() bool { return s.missed > 1 }

// lockWait returns how long a batch of the sale waits for its lock: in a rush of many processes each of them would miss a short wait first.
// Only its worker may ask.
func (s *saleQueue) lockWait() time.Duration {
	if s.missed > 0 || time.Now().Before(s.hotUntil) {
		return goods.LongLockWait
	}
	return goods.LockWait
}

// send notes that a COMMIT of the batch is about to be sent.
func (q *orderQueue) send(s *saleQueue) {
	q.mu.Lock()
	s.sent = true
	q.mu.Unlock()
}

// putBack leaves a batch whose sale is locked for later. Its first n tickets are settled. The others are tried again as they are: a
// COMMIT of a part of them may have been sent.
func (q *orderQueue) putBack(s *saleQueue, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled(s, n)
	if s.missed == 0 {
		q.missed += len(s.batch) + len(s.waiting)
	}
	s.missed++
	q.readyAfter(s, min(retryFirst<<min(s.missed-1, 10), retryLast))
	q.wake.Broadcast()
}

// settled takes the first n tickets out of the batch that a worker has settled. mu must be held.
func (q *orderQueue) settled(s *saleQueue, n int) {
	q.room += n
	s.gone += uint64(n)
	for _, t := range s.batch[:n] {
		if s.position[t.UserID] <= s.gone {
			delete(s.position, t.UserID)
			delete(s.claimed, t.UserID)
		}
	}
	s.batch = s.batch[n:]
	q.count(s, -1)
	if s.missed > 0 {
		q.missed -= n
	}
}

// done ends a batch. If more tickets of the sale wait, the sale goes to the end of ready, at once or when it has gathered more.
func (q *orderQueue) done(s *saleQueue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	gather := len(s.batch) >= gatherFrom && len(s.waiting) < q.batch
	q.settled(s, len(s.batch))
	if s.missed > 0 {
		q.missed -= len(s.waiting)
		s.hotUntil = time.Now().Add(hotFor)
	}
	s.batch, s.sent, s.missed = nil, false, 0
	switch {
	case len(s.waiting) == 0:
		delete(q.bySale, s.sale)
	case gather:
		q.readyAfter(s, gatherFor)
	default:
		q.ready = append(q.ready, s)
	}
	q.wake.Broadcast()
}

// readyAfter puts a sale at the end of ready when d is over, or at once if the process stops. mu must be held.
func (q *orderQueue) readyAfter(s *saleQueue, d time.Duration) {
	if q.ended {
		q.ready = append(q.ready, s)
		return
	}
	s.pauses = true
	time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.endPause(s)
		q.wake.Signal()
	})
}

// endPause puts a sale that pauses at the end of ready. mu must be held.
func (q *orderQueue) endPause(s *saleQueue) {
	if s.pauses {
		s.pauses = false
		q.ready = append(q.ready, s)
	}
}

// drain lets the workers settle what is queued, for at most limit. No ticket may be submitted after it is called.
func (q *orderQueue) drain(limit time.Duration) {
	timer := time.AfterFunc(limit, func() {
		q.mu.Lock()
		q.quit = true
		q.mu.Unlock()
		q.wake.Broadcast()
	})
	defer timer.Stop()
	failpoint.Hit(failpoint.BeforeDrain)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	for _, s := range q.bySale { // a worker leaves when no sale is ready
		q.endPause(s)
	}
	q.wake.Broadcast()
	for len(q.bySale) > 0 && !q.quit {
		q.wake.Wait()
	}
}
