// Package queue is the order queue: the tickets that this process is to settle. It is memory alone: each of them is in
// a journal too, so a crash loses none.
package queue

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
)

const (
	hotFor     = 10 * time.Second      // so long a sale that missed its lock and had it then waits longer for it
	pauseFirst = 20 * time.Millisecond // of a sale that missed its lock once; each further miss doubles it
	pauseLast  = time.Second

	// If a batch had gatherFrom tickets or more, and more wait at its end, these gather others for gatherFor (group
	// commit): a transaction for 300 tickets costs Postgres and this process little more than one for 40.
	gatherFrom = 16
	gatherFor  = 10 * time.Millisecond
)

// Queue is bounded and served by a fixed number of workers. Each sale has a queue of its own, which one worker at a
// time serves. So a sale's tickets are settled in order, and only one transaction of this process locks its row at a
// time. The tickets of one journal entry come one after the other and are settled in one batch; where they are not,
// reclaim settles the entry again.
//
// Another transaction may keep a sale's row locked. Then the batch is put back, and tried again after a pause that
// grows, with more patience: in a rush of many processes the lock may take its time. A sale that misses the lock twice
// in a row is slow until a batch of it is settled: slow sales have few of the workers and half of the places, and what
// they hold beyond that does not count for others. Nor do sales that missed once take the last of these workers from
// them: in a rush there are always such. One worker alone has no other to leave: all sales take turns.
type Queue struct {
	capacity   int
	batch      int // tickets in a settle transaction, and the rest of the last one's journal entry
	workers    int // settle transactions at the same time, in this process
	missPlaces int // of them, for sales whose last try missed the lock
	slowPlaces int // of these, at most, for slow sales, and one of them for no other sale if there are two
	settle     Settler

	mu     sync.Mutex
	room   int             // free places
	missed int             // tickets of sales whose last try missed the lock
	busy   [3]int          // workers, by the misses in a row of the sale that they settle: none, one, more
	bySale map[int64]*Sale // sales with tickets, in waiting or in batch
	ready  []*Sale         // sales that wait for a worker, each at most once
	wake   sync.Cond       // on mu: ready grew, or ended or quit was set
	ended  bool            // workers leave when ready is empty, or at once if quit
	quit   bool
}

// Settler settles tickets of a sale, and waits for its row's lock for wait at most. It calls sent before each COMMIT,
// and returns how many of the first tickets are settled. goods.ErrLocked: the others are to be put back. It tries again
// after any other error, until ctx ends.
type Settler func(ctx context.Context, sale int64, batch []order.Ticket, wait time.Duration,
	sent func()) (settled int, err error)

// Sale is one sale's tickets. Guarded by Queue.mu.
type Sale struct {
	sale     int64
	waiting  []order.Ticket
	batch    []order.Ticket   // that a worker settles now, or that is put back
	sent     bool             // a COMMIT of batch may have been sent
	pauses   bool             // it is ready when its time is over
	missed   int              // tries in a row that missed the lock
	hotUntil time.Time        // until then its lock may take its time, though it comes
	position map[int64]uint64 // user -> number in the queue
	// users whose ticket comes from the journal: a COMMIT of it may have been sent before; nil for none
	claimed map[int64]bool
	came    uint64 // numbers handed out
	gone    uint64 // numbers settled
}

// New returns a queue with places for so many tickets. It settles nothing until Run.
func New(capacity, batch, workers int, settle Settler) *Queue {
	q := &Queue{capacity: capacity, batch: batch, workers: workers, missPlaces: max(1, workers*2/3),
		slowPlaces: max(1, workers/3),
		settle:     settle, room: capacity, bySale: map[int64]*Sale{}}
	q.wake.L = &q.mu
	return q
}

// ClaimRoom claims at most n places for a sale and returns how many it got.
func (q *Queue) ClaimRoom(sale int64, n int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return 0
	}
	n = max(0, min(n, q.roomFor(sale)))
	q.room -= n
	return n
}

// roomFor returns how many more tickets of a sale may be queued. What locked sales hold beyond half of the places is
// not counted for the others, so the queue has at most twice its capacity. A slow sale is held to half of the places
// only beside another that misses its lock: the places of the rest are safe from it anyway. mu must be held.
func (q *Queue) roomFor(sale int64) int {
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

// TakeRoom takes n places for tickets of a journal, also if fewer are free: the journal of a sale has at most as many
// tickets as the queue has places. It reports whether the queue takes any more.
func (q *Queue) TakeRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.room -= n
	}
	return !q.ended
}

// ReleaseRoom returns places that ClaimRoom has claimed.
func (q *Queue) ReleaseRoom(n int) {
	q.mu.Lock()
	q.room += n
	q.mu.Unlock()
}

// Full reports whether no place is free for a sale.
func (q *Queue) Full(sale int64) bool { return q.Free(sale) <= 0 }

// Free returns the number of places that are free for a sale.
func (q *Queue) Free(sale int64) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.roomFor(sale)
}

// Submit queues the tickets of journal entries whose places are claimed. It never blocks. It returns how many tickets
// are ahead of the first. fresh tickets were granted just now; others come from the journal.
func (q *Queue) Submit(sale int64, tickets []order.Ticket, fresh bool) (ahead int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.bySale[sale]
	if s == nil {
		if len(tickets) == 0 {
			return 0
		}
		s = &Sale{sale: sale, position: map[int64]uint64{}}
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

// Place is the place of a ticket in the queue.
type Place struct {
	Ahead int  // tickets that will be settled before it
	Sent  bool // its COMMIT may have been sent, so it may be settled in Postgres
}

// Places returns the place of each buyer who has a ticket in this process's queue.
func (q *Queue) Places(buyers []order.Buyer) map[order.Buyer]Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := map[order.Buyer]Place{}
	for _, b := range buyers {
		s := q.bySale[b.SaleID]
		if s == nil {
			continue
		}
		if n, ok := s.position[b.UserID]; ok {
			ahead := int(n - s.gone - 1)
			places[b] = Place{ahead, s.claimed[b.UserID] || s.sent && ahead < len(s.batch)}
		}
	}
	return places
}

// Ticket returns the id of the user's ticket in this process's queue, "" if there is none.
func (q *Queue) Ticket(sale, user int64) string {
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

// Users returns the users with a ticket in this process's queue.
func (q *Queue) Users(sale int64) map[int64]struct{} {
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

// PendingOf returns the journal entries of a sale whose tickets are in this process's queue.
func (q *Queue) PendingOf(sale int64) map[string]bool {
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

// Queued returns the number of tickets in the queue.
func (q *Queue) Queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.capacity - q.room
}

// Oldest returns how long the ticket that was granted first has been waiting. The id of its journal entry has the time.
// A ticket without an entry counts as new.
func (q *Queue) Oldest(now time.Time) (waits time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.bySale {
		for _, tickets := range [][]order.Ticket{s.batch, s.waiting} {
			if len(tickets) == 0 {
				continue
			}
			entry, _ := gate.EntryID(tickets[0].ID)
			granted, _, _ := strings.Cut(entry, "-")
			if ms, err := strconv.ParseInt(granted, 10, 64); err == nil {
				waits = max(waits, now.Sub(time.UnixMilli(ms)))
			}
		}
	}
	return waits
}

// Run serves the queue until it is drained, or ctx ends.
func (q *Queue) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range q.workers {
		workers.Go(func() { q.work(ctx) })
	}
	workers.Wait()
}

func (q *Queue) work(ctx context.Context) {
	for ctx.Err() == nil {
		s := q.Next()
		if s == nil {
			return
		}
		q.Settle(ctx, s)
	}
}

// Ready reports whether a sale waits for a worker. The simulation asks, which has no workers: it calls Next and Settle
// itself.
func (q *Queue) Ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready) > 0
}

// Next takes the sale whose turn it is, with a batch of its tickets. It waits until there is one, and returns nil if
// the queue is drained.
func (q *Queue) Next() *Sale {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := func() int {
		trying := q.busy[1] + q.busy[2]
		return slices.IndexFunc(q.ready, func(s *Sale) bool {
			if s.slow() {
				return trying < q.missPlaces && q.busy[2] < q.slowPlaces
			}
			return s.missed == 0 || trying < q.missPlaces && q.busy[1] < max(1, q.missPlaces-1)
		})
	}
	i := first()
	for ; i < 0 && !q.ended; i = first() {
		q.wake.Wait()
	}
	if i < 0 || q.quit {
		return nil
	}
	s := q.ready[i]
	q.ready = slices.Delete(q.ready, i, i+1)
	q.busy[min(s.missed, 2)]++
	if len(s.batch) > 0 { // it was put back
		return s
	}
	n := min(len(s.waiting), q.batch)
	for n < len(s.waiting) && gate.SameEntry(s.waiting[n-1], s.waiting[n]) {
		n++
	}
	s.batch, s.waiting = s.waiting[:n:n], s.waiting[n:]
	return s
}

// Settle settles the batch of a sale that Next has taken. It reports false if ctx has ended: the batch may be settled
// again.
func (q *Queue) Settle(ctx context.Context, s *Sale) bool {
	n, err := q.settle(ctx, s.sale, s.batch, s.lockWait(), func() { q.send(s) })
	switch {
	case errors.Is(err, goods.ErrLocked):
		q.putBack(s, n)
	case ctx.Err() != nil:
		return false
	default:
		failpoint.Hit(failpoint.AfterAck)
		q.done(s)
	}
	return true
}

// slow reports whether the sale has missed its lock twice in a row. In a rush of many processes once is nothing.
func (s *Sale) slow() bool { return s.missed > 1 }

// lockWait returns how long a batch of the sale waits for its lock: in a rush of many processes each of them would miss
// a short wait first. Only its worker may ask.
func (s *Sale) lockWait() time.Duration {
	if s.missed > 0 || time.Now().Before(s.hotUntil) {
		return goods.LongLockWait
	}
	return goods.LockWait
}

// send notes that a COMMIT of the batch is about to be sent.
func (q *Queue) send(s *Sale) {
	q.mu.Lock()
	s.sent = true
	q.mu.Unlock()
}

// putBack leaves a batch whose sale is locked for later. Its first n tickets are settled. The others are tried again as
// they are: a COMMIT of a part of them may have been sent.
func (q *Queue) putBack(s *Sale, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settled(s, n)
	if s.missed == 0 {
		q.missed += len(s.batch) + len(s.waiting)
	}
	s.missed++
	q.readyAfter(s, min(pauseFirst<<min(s.missed-1, 10), pauseLast))
	q.wake.Broadcast()
}

// settled takes the first n tickets out of the batch that a worker has settled. mu must be held.
func (q *Queue) settled(s *Sale, n int) {
	q.room += n
	s.gone += uint64(n)
	for _, t := range s.batch[:n] {
		if s.position[t.UserID] <= s.gone {
			delete(s.position, t.UserID)
			delete(s.claimed, t.UserID)
		}
	}
	s.batch = s.batch[n:]
	q.busy[min(s.missed, 2)]--
	if s.missed > 0 {
		q.missed -= n
	}
}

// done ends a batch. If more tickets of the sale wait, the sale goes to the end of ready, at once or when it has
// gathered more.
func (q *Queue) done(s *Sale) {
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
func (q *Queue) readyAfter(s *Sale, d time.Duration) {
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
func (q *Queue) endPause(s *Sale) {
	if s.pauses {
		s.pauses = false
		q.ready = append(q.ready, s)
	}
}

// Drain lets the workers settle what is queued, for at most limit. No ticket may be submitted after it is called.
func (q *Queue) Drain(limit time.Duration) {
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
