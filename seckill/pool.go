package seckill

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"miaosha/order"
	"miaosha/seckill/failpoint"
)

const (
	poolWorkers = 6    // settle transactions at once, in this process
	poolBatch   = 2000 // tickets in one of them
	retryFirst  = 20 * time.Millisecond
	retryLast   = time.Second
	slowTries   = 3
	drainLimit  = 10 * time.Second // for what is queued when the process stops
)

// pool is the order queue: bounded, in this process, worked on by a fixed number of goroutines. Each sale has a line;
// a line is with one worker at a time, so a sale's tickets are settled in their order and its row is locked by one
// transaction of ours at a time. What the queue holds is in the journals too: a crash loses none of it.
type pool struct {
	e *Engine

	mu    sync.Mutex
	room  int             // tickets that may still be promised a place
	lines map[int64]*line // sales with tickets, waiting or in a worker's hands
	ready []*line         // lines that wait for a worker, each at most once
	wake  sync.Cond       // on mu: ready grew, or the pool is to end
	ended bool            // workers leave when ready is empty, or at once if quit
	quit  bool
}

// line is one sale's tickets. Guarded by pool.mu.
type line struct {
	sale    int64
	waiting []order.Ticket
	batch   []order.Ticket   // with a worker now
	place   map[int64]uint64 // user -> his number in the line
	came    uint64           // numbers given
	gone    uint64           // numbers settled
}

func newPool(e *Engine) *pool {
	p := &pool{e: e, room: e.cfg.QMax, lines: map[int64]*line{}}
	p.wake.L = &p.mu
	return p
}

// reserve promises room for up to n tickets and gives for how many; release gives room back that wasn't needed.
func (p *pool) reserve(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0
	}
	n = min(n, p.room)
	p.room -= n
	return n
}

func (p *pool) release(n int) {
	p.mu.Lock()
	p.room += n
	p.mu.Unlock()
}

// full tells that there is no room at all.
func (p *pool) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.room <= 0
}

// submit queues tickets whose room is reserved. It never blocks. It gives how many were ahead of the first.
func (p *pool) submit(sale int64, tickets []order.Ticket) (ahead int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[sale]
	if l == nil {
		if len(tickets) == 0 {
			return 0
		}
		l = &line{sale: sale, place: map[int64]uint64{}}
		p.lines[sale] = l
	}
	ahead = int(l.came - l.gone)
	if len(tickets) == 0 {
		return ahead
	}
	for _, t := range tickets {
		l.came++
		l.place[t.UserID] = l.came
	}
	idle := len(l.waiting) == 0 && len(l.batch) == 0
	l.waiting = append(l.waiting, tickets...)
	if idle {
		p.ready = append(p.ready, l)
		p.wake.Signal()
	}
	return ahead
}

// ahead tells how many tickets are settled before a user's, for those who have one in this process's queue.
func (p *pool) ahead(sale int64, users []int64) map[int64]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[sale]
	if l == nil {
		return nil
	}
	ahead := make(map[int64]int, len(users))
	for _, u := range users {
		if n, ok := l.place[u]; ok {
			ahead[u] = int(n - l.gone - 1)
		}
	}
	return ahead
}

// held lists the journal entries that are in this process's queue, by sale.
func (p *pool) held() map[int64]map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make(map[int64]map[string]bool, len(p.lines))
	for sale, l := range p.lines {
		entries := make(map[string]bool, len(l.waiting)+len(l.batch))
		for _, ts := range [][]order.Ticket{l.batch, l.waiting} {
			for _, t := range ts {
				if entry, ok := entryOf(t.ID); ok {
					entries[entry] = true
				}
			}
		}
		held[sale] = entries
	}
	return held
}

// queued is the number of tickets in the queue.
func (p *pool) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.e.cfg.QMax - p.room
}

// work settles lines until the pool is drained, or ctx ends.
func (p *pool) work(ctx context.Context) error {
	for {
		l, batch := p.next()
		if l == nil {
			return nil
		}
		p.settle(ctx, l.sale, batch)
		failpoint.Hit(failpoint.F6)
		p.done(l)
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (p *pool) next() (*line, []order.Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.ready) == 0 && !p.ended {
		p.wake.Wait()
	}
	if len(p.ready) == 0 || p.quit {
		return nil, nil
	}
	l := p.ready[0]
	p.ready = p.ready[1:]
	n := min(len(l.waiting), poolBatch)
	l.batch, l.waiting = l.waiting[:n:n], l.waiting[n:]
	return l, l.batch
}

// done takes a line back from a worker: to the end of the ready ones if more waits in it.
func (p *pool) done(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room += len(l.batch)
	l.gone += uint64(len(l.batch))
	for _, t := range l.batch {
		if l.place[t.UserID] <= l.gone {
			delete(l.place, t.UserID)
		}
	}
	l.batch = nil
	if len(l.waiting) > 0 {
		p.ready = append(p.ready, l)
		p.wake.Signal()
	} else {
		delete(p.lines, l.sale)
	}
	p.wake.Broadcast()
}

// settle sees a batch through: decided in Postgres, told to the gate, told to who listens. A fault means the same
// batch again, for as long as it takes: an outage is never the ticket's fault. A batch that meets poison is halved
// until the poisoned ticket is alone, and so is one that Postgres thrice had no time for. It gives up only with ctx; the
// journal keeps what is then undecided.
func (p *pool) settle(ctx context.Context, sale int64, batch []order.Ticket) {
	slow := 0
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		results, err := p.e.settle(ctx, sale, batch, true)
		if isSlow(err) {
			slow++
		}
		if len(batch) > 1 && (isPoison(err) || slow == slowTries) {
			p.settle(ctx, sale, batch[:len(batch)/2])
			p.settle(ctx, sale, batch[len(batch)/2:])
			return
		}
		if isPoison(err) {
			p.e.log.Error("a ticket can't be settled", "sale", sale, "ticket", batch[0].ID, "user", batch[0].UserID, "err", err)
			results, err = p.e.reject(ctx, sale, batch)
			if isPoison(err) { // can't even be refused: nothing is stored of it, but it must not hold up its sale's line
				results, err = []order.Result{{Ticket: batch[0].ID, UserID: batch[0].UserID, Outcome: order.Invalid}}, nil
			}
			if err == nil {
				p.e.bury(ctx, sale, batch[0])
			}
		}
		if err == nil {
			p.e.tell(ctx, sale, results)
			return
		}
		p.e.metrics.retries.Inc()
		p.e.logFault("settle", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// tell passes results on.
func (e *Engine) tell(ctx context.Context, sale int64, results []order.Result) {
	if e.cfg.Gate == "redis" && failpoint.Hit(failpoint.F5) == nil {
		if err := e.tellGate(ctx, sale, results); err != nil {
			e.logFault("settle at the gate", err)
			e.untold.add(sale, results, e.cfg.QMax)
		}
	}
	e.watchers.tell(sale, results)
}

// drain lets the workers finish what is queued, for at most limit. Nothing may be submitted any more.
func (p *pool) drain(limit time.Duration) {
	timer := time.AfterFunc(limit, func() {
		p.mu.Lock()
		p.quit = true
		p.mu.Unlock()
		p.wake.Broadcast()
	})
	defer timer.Stop()
	failpoint.Hit(failpoint.F10)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.wake.Broadcast()
	for len(p.lines) > 0 && !p.quit {
		p.wake.Wait()
	}
}
