package seckill

import (
	"context"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/gate"
)

const (
	reclaimEvery   = time.Second
	inheritEvery   = 200 * time.Millisecond
	inheritFor     = time.Second      // Redis may carry out the last call of a process some time after its death
	reclaimIdle    = 5 * time.Second  // after this silence of its owner, any process may claim an entry
	consumersEvery = 10 * time.Minute // how often idle consumers are removed, and how long they must have been silent
	claimBatch     = 500              // entries in one claim
	journalLife    = 25 * time.Hour   // gates and journals live a day after their sale's end

	_ = uint(reclaimIdle - 3*settleLimit) // does not compile if an owner has no time for three tries
)

// reclaimer queues the tickets that no process works on: entries whose owner has died, and entries that never had an owner.
// Any process may do it at any time, because settling is safe to repeat.
type reclaimer struct {
	sales   *goods.Store
	gate    *gate.Gate
	queue   *orderQueue
	settler *settler
	qmax    int
	metrics *metrics
	alive   *presence

	idle           time.Duration        // reclaimIdle, except in tests
	died           map[string]time.Time // when a process was first found dead
	consumersCheck time.Time            // when idle consumers were last removed
}

// Run reclaims once a second until ctx ends, and looks five times a second for processes that have died.
func (r *reclaimer) Run(ctx context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() { every(ctx, inheritEvery, nil, r.inherit) })
	every(ctx, reclaimEvery, nil, r.tick)
	looking.Wait()
}

// inherit queues the tickets of processes that have surely died. It calls no store unless it finds one.
func (r *reclaimer) inherit(ctx context.Context) {
	for dead := range r.alive.dead() {
		if r.died[dead.name].IsZero() {
			r.died[dead.name] = time.Now()
		}
		err := r.inheritFrom(ctx, dead)
		if err != nil && ctx.Err() == nil {
			r.metrics.logFault("inherit", err)
		}
		done := err == nil && time.Since(r.died[dead.name]) > inheritFor
		if dead.release(done); done {
			delete(r.died, dead.name)
		}
	}
}

// inheritFrom queues all tickets of a dead process. ErrBusy if the queue has no room for them.
func (r *reclaimer) inheritFrom(ctx context.Context, dead deadProcess) error {
	states, err := r.sales.SaleStates(ctx, journalLife)
	if err != nil {
		return err
	}
	for _, s := range states {
		for found := true; found; {
			room := r.queue.claimRoom(claimBatch)
			r.queue.releaseRoom(room)
			if room == 0 {
				return ErrBusy
			}
			entries, err := r.gate.Inherit(ctx, s.ID, dead.name, dead.since, room)
			if err != nil {
				return err
			}
			if found = len(entries) > 0; found {
				r.enqueueClaimed(ctx, s.ID, entries, r.queue.pendingEntries()[s.ID], nil)
			}
		}
	}
	return nil
}

func (r *reclaimer) tick(ctx context.Context) {
	states, err := r.sales.SaleStates(ctx, journalLife)
	if err != nil {
		r.metrics.logFault("reclaim", err)
		return
	}
	sales := make([]int64, len(states))
	for i, s := range states {
		sales[i] = s.ID
	}
	if len(sales) == 0 {
		return
	}
	gates, err := r.gate.States(ctx, sales)
	if err != nil {
		r.metrics.logFault("reclaim", err)
		return
	}
	if time.Since(r.consumersCheck) > consumersEvery {
		r.consumersCheck = time.Now()
		for _, sale := range sales {
			if err := r.gate.RemoveIdleConsumers(ctx, sale, consumersEvery); err != nil && ctx.Err() == nil {
				r.metrics.logFault("remove idle consumers", err)
			}
		}
	}
	pending := r.queue.pendingEntries()
	for _, sale := range sales {
		if gates[sale].InFlight > len(pending[sale]) {
			for n := claimBatch; n == claimBatch; {
				if n, err = r.claim(ctx, sale, pending[sale]); err != nil && ctx.Err() == nil {
					r.metrics.logFault("reclaim", err)
				}
			}
		}
	}
}

// claim takes over idle entries of one sale and returns how many it claimed. It claims none for which the queue has no
// room, because a claim counts as a delivery.
func (r *reclaimer) claim(ctx context.Context, sale int64, pending map[string]bool) (n int, err error) {
	room := r.queue.claimRoom(claimBatch)
	if room == 0 {
		return 0, nil
	}
	entries, err := r.gate.Claim(ctx, sale, r.idle, room)
	r.queue.releaseRoom(room)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	counts, err := r.gate.Deliveries(ctx, sale, 0, r.qmax)
	if err != nil {
		return 0, err
	}
	// Only a new owner counts. The heartbeats of an owner that keeps a ticket during an outage do not.
	exhausted := map[string]bool{}
	for _, d := range counts {
		exhausted[d.EntryID] = d.Count > maxDeliveries
	}
	r.enqueueClaimed(ctx, sale, entries, pending, exhausted)
	return len(entries), nil
}

// recoverInDoubt queues the tickets that are pending under this process's name and not in its queue. Redis may carry out a
// reserve call that had no reply, even long after it, when a stopped Redis goes on. There is no reason to wait for
// reclaimIdle: this process knows that it does not work on these tickets.
func (r *reclaimer) recoverInDoubt(ctx context.Context, sale int64) error {
	pending := r.queue.pendingEntries()[sale]
	own, err := r.gate.Deliveries(ctx, sale, gate.ReserveLimit, r.qmax)
	if err != nil {
		return err
	}
	ids := make([]string, 0, len(own))
	for _, d := range own {
		if !pending[d.EntryID] {
			ids = append(ids, d.EntryID)
		}
	}
	entries, err := r.gate.Entries(ctx, sale, ids)
	if err != nil {
		return err
	}
	r.enqueueClaimed(ctx, sale, entries, pending, nil)
	return nil
}

// resettle queues the tickets of a journal, whichever process owns them. If Redis was restored from older data, most of them
// were settled long ago, and the gate offers too much until this is known. It claims nothing: settling is safe to repeat.
func (r *reclaimer) resettle(ctx context.Context, sale int64) error {
	entries, err := r.gate.Journal(ctx, sale, r.qmax)
	if err != nil {
		return err
	}
	r.enqueueClaimed(ctx, sale, entries, r.queue.pendingEntries()[sale], nil)
	return nil
}

// enqueueClaimed queues the tickets of entries that are not in the queue yet, while there is room. A later round finds the
// others.
func (r *reclaimer) enqueueClaimed(ctx context.Context, sale int64, entries []gate.Entry, pending, exhausted map[string]bool) {
	tickets := make([]order.Ticket, 0, len(entries))
	for _, e := range entries {
		switch {
		case pending[e.ID]:
		case e.Err != nil:
			r.metrics.log.Error("a journal entry holds no ticket", "sale", sale, "entry", e.ID, "err", e.Err)
			r.metrics.countDead(r.gate.DeadLetterEntry(ctx, sale, e))
		case exhausted[e.ID]:
			r.settler.rejectExhausted(ctx, sale, e.Ticket)
		default:
			tickets = append(tickets, e.Ticket)
		}
	}
	if tickets = tickets[:r.queue.claimRoom(len(tickets))]; len(tickets) > 0 {
		r.metrics.log.Info("claimed tickets that no process worked on", "sale", sale, "tickets", len(tickets))
		r.metrics.claims.Add(float64(len(tickets)))
		r.queue.submit(sale, tickets, false)
	}
}
