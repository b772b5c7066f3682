package seckill

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const (
	reclaimEvery   = time.Second
	inheritEvery   = 200 * time.Millisecond
	inheritFor     = time.Second      // Redis may carry out the last call of a process some time after its death
	inheritPause   = time.Second      // while the queue has no room for the tickets of a process: a sale may be locked for long
	reclaimIdle    = 5 * time.Second  // after this silence of its owner, any process may claim an entry
	consumersEvery = 10 * time.Minute // how often idle consumers are removed, and how long they must have been silent
	claimBatch     = 500              // entries in one claim at most
	claimLeast     = 50               // and at least, if there are so many
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
	trace   Trace
	alive   *presence
	rounds  *rounds.Rounds
	looks   *rounds.Rounds // for processes that have died

	idle           time.Duration        // reclaimIdle, except in tests
	died           map[string]time.Time // when a process was first found dead
	busy           map[string]time.Time // when the queue had no room for its tickets
	consumersCheck time.Time            // when idle consumers were last removed
}

// Run reclaims once a second until ctx ends, and looks five times a second for processes that have died.
func (r *reclaimer) Run(ctx context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() { r.looks.Run(ctx, roundLimit, rounds.Every(inheritEvery), r.inherit) })
	r.rounds.Run(ctx, roundLimit, rounds.Every(reclaimEvery), r.tick)
	looking.Wait()
}

// inherit queues the tickets of processes that have surely died. It calls no store unless it finds one.
func (r *reclaimer) inherit(ctx context.Context) {
	for dead := range r.alive.dead() {
		if time.Since(r.busy[dead.name]) < inheritPause {
			dead.release(false)
			continue
		}
		if r.died[dead.name].IsZero() {
			r.died[dead.name] = time.Now()
		}
		err := r.inheritFrom(ctx, dead)
		if delete(r.busy, dead.name); errors.Is(err, ErrBusy) {
			r.busy[dead.name] = time.Now()
		}
		if err != nil && ctx.Err() == nil {
			r.metrics.logFault("inherit", err)
		}
		done := err == nil && time.Since(r.died[dead.name]) > inheritFor
		if dead.release(done); done {
			delete(r.died, dead.name)
		}
	}
}

// inheritFrom queues all tickets of a dead process. ErrBusy if the queue has no room for those of a sale.
func (r *reclaimer) inheritFrom(ctx context.Context, dead deadProcess) error {
	states, err := r.withJournals(ctx)
	if err != nil {
		return err
	}
	pending := r.queue.pendingEntries()
	for _, s := range states {
		for found := true; found; {
			if r.queue.full(s.ID) {
				err = ErrBusy
				break
			}
			n := min(claimBatch, max(1, r.queue.free(s.ID)/laneBatch))
			entries, err := r.gate.Inherit(ctx, s.ID, dead.name, dead.since, n)
			if err != nil {
				return err
			}
			if found = len(entries) > 0; found {
				r.enqueueClaimed(ctx, s.ID, entries, pending[s.ID], nil)
			}
		}
	}
	return err
}

// withJournals returns the sales that may have a journal, also those that were changed since, into a draft for example.
func (r *reclaimer) withJournals(ctx context.Context) ([]goods.SaleState, error) {
	changed, err := r.sales.Changed(ctx)
	if err != nil {
		return nil, err
	}
	return r.sales.SaleStates(ctx, journalLife, changed)
}

func (r *reclaimer) tick(ctx context.Context) {
	states, err := r.withJournals(ctx)
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
		g := gates[sale]
		if g.Entries > len(pending[sale]) {
			r.fault(ctx, r.claim(ctx, sale, g, pending[sale]))
		}
		if g.Former > 0 {
			r.fault(ctx, r.claimFormer(ctx, sale, pending[sale]))
		}
	}
}

// fault logs a fault, unless the round was cancelled.
func (r *reclaimer) fault(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		r.metrics.logFault("reclaim", err)
	}
}

// claim takes over idle entries of one sale, while the queue has room. A claim counts as a delivery, so all that is claimed is
// worked on.
func (r *reclaimer) claim(ctx context.Context, sale int64, g gate.State, pending map[string]bool) error {
	for !r.queue.full(sale) {
		// As many as fit, at the average size; not too few, because a claim looks at ten times as many of all entries.
		n := min(claimBatch, max(claimLeast, r.queue.free(sale)*g.Entries/max(1, g.InFlight-g.Former)))
		entries, err := r.gate.Claim(ctx, sale, r.idle, n)
		if len(entries) == 0 {
			return err
		}
		// Only a new owner counts. The heartbeats of an owner that keeps a ticket during an outage do not.
		owners := map[string]int64{}
		counts, failed := r.gate.Deliveries(ctx, sale, 0, r.qmax)
		for _, d := range counts {
			owners[d.EntryID] = d.Count
		}
		r.enqueueClaimed(ctx, sale, entries, pending, owners)
		if err = cmp.Or(err, failed); err != nil || len(entries) < n {
			return err
		}
	}
	return nil
}

// claimFormer is claim for the journal of a former release. Its entries wait until their owner has been silent for idle, also if
// it has surely died, and their deliveries are not counted.
func (r *reclaimer) claimFormer(ctx context.Context, sale int64, pending map[string]bool) error {
	for !r.queue.full(sale) {
		n := min(claimBatch, max(1, r.queue.free(sale)))
		entries, err := r.gate.ClaimFormer(ctx, sale, r.idle, n)
		r.enqueueClaimed(ctx, sale, entries, pending, nil)
		if err != nil || len(entries) < n {
			return err
		}
	}
	return nil
}

// recoverInDoubt queues the tickets that are pending under this process's name and not in its queue. Redis may carry out a
// reserve call that had no reply, even long after it, when a stopped Redis goes on. There is no reason to wait for
// reclaimIdle: this process knows that it does not work on these tickets.
func (r *reclaimer) recoverInDoubt(ctx context.Context, sale int64) error {
	pending := r.queue.pendingOf(sale)
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
	r.enqueueClaimed(ctx, sale, entries, r.queue.pendingOf(sale), nil)
	return nil
}

// enqueueClaimed queues the tickets of entries that are not in the queue yet. owners has how many owners an entry has had, where
// it is known.
func (r *reclaimer) enqueueClaimed(ctx context.Context, sale int64, entries []gate.Entry, pending map[string]bool, owners map[string]int64) {
	var tickets []order.Ticket
	var damaged, exhausted, suspects []gate.Entry
	for _, e := range entries {
		switch n := owners[e.ID]; {
		case pending[e.ID]:
		case e.Err != nil:
			damaged = append(damaged, e)
		case n > maxDeliveries:
			exhausted = append(exhausted, e)
		case n > aloneDeliveries:
			suspects = append(suspects, e)
		default:
			tickets = append(tickets, e.Tickets...)
		}
	}
	r.enqueue(sale, tickets)
	for _, e := range damaged {
		r.settleDamaged(ctx, sale, e)
	}
	for _, e := range exhausted {
		r.settler.rejectExhausted(ctx, sale, e.Tickets)
	}
	r.settleSuspects(ctx, sale, suspects)
}

func (r *reclaimer) enqueue(sale int64, tickets []order.Ticket) {
	if len(tickets) > 0 && r.queue.takeRoom(len(tickets)) {
		r.metrics.log.Info("claimed tickets that no process worked on", "sale", sale, "tickets", len(tickets))
		r.metrics.claims.Add(float64(len(tickets)))
		r.trace.Claim(sale, tickets)
		r.queue.submit(sale, tickets, false)
	}
}

// settleDamaged settles what can be read of an entry, and moves the entry to the dead letters. After a fault, the next claim tries
// again.
func (r *reclaimer) settleDamaged(ctx context.Context, sale int64, e gate.Entry) {
	r.metrics.log.Error("a journal entry holds no ticket", "sale", sale, "entry", e.ID, "err", e.Err)
	var results []order.Result
	for _, t := range e.Tickets {
		result, err := r.settler.settleAlone(ctx, sale, t)
		if err != nil {
			r.metrics.logFault("settle a damaged entry", err)
			return
		}
		results = append(results, result...)
	}
	err := r.gate.DeadLetterEntry(ctx, sale, e)
	if r.metrics.countDead(err); err == nil {
		r.settler.finish(ctx, sale, results)
	}
}

// settleSuspects settles the tickets of entries that have had many owners, who all died. Perhaps one of the tickets is why: each is
// settled alone, in an order drawn by lot, so the others get their results sooner or later. At the first fault the queue takes the
// rest, for as long as needed: another claim would count as an owner.
func (r *reclaimer) settleSuspects(ctx context.Context, sale int64, suspects []gate.Entry) {
	for i, e := range suspects {
		var ids []string
		for _, waits := range suspects[i:] {
			ids = append(ids, waits.ID)
		}
		var results []order.Result
		for _, n := range rand.Perm(len(e.Tickets)) {
			err := r.gate.Heartbeat(ctx, sale, ids)
			if err == nil {
				var result []order.Result
				result, err = r.settler.settleAlone(ctx, sale, e.Tickets[n])
				results = append(results, result...)
			}
			if err != nil {
				r.metrics.logFault("settle a ticket alone", err)
				for _, rest := range suspects[i:] {
					r.enqueue(sale, rest.Tickets)
				}
				return
			}
		}
		r.settler.finish(ctx, sale, results)
	}
}
