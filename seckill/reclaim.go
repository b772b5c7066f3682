package seckill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/alive"
	"miaosha/seckill/gate"
	"miaosha/seckill/queue"
	"miaosha/seckill/rounds"
	"miaosha/seckill/watch"
)

const (
	reclaimEvery = time.Second
	inheritEvery = 200 * time.Millisecond
	inheritFor   = time.Second    // Redis may carry out the last call of a process some time after its death
	inheritPause = time.Second    // after a look that did not finish: a store is down, or the queue has no room
	journalLife  = 25 * time.Hour // gates and journals live a day after their sale's end
)

// reclaimer queues the tickets that no process works on. Each look reads the journals: an entry of this process that is
// not in its queue was granted by a call that had no reply, however late Redis has carried it out; an entry of another
// process is taken over when that has died. Two processes may do it at once without harm, because settling is safe to
// repeat; the heir is first (Beats.Takes).
type reclaimer struct {
	sales   *goods.Store
	gate    *gate.Gate
	queue   *queue.Queue
	settler *settler
	acks    *acks
	qmax    int
	metrics *metrics
	trace   Trace
	beats   *alive.Beats
	alive   *alive.Presence
	reads   *watch.Readings
	rounds  *rounds.Rounds
	looks   *rounds.Rounds // for processes of this machine that have died

	died map[string]time.Time // when a process was first found dead
	busy map[string]time.Time // when a look did not finish

	looking chan struct{} // has room for one look: two at a time would queue the same tickets
	turn    int           // of looks, so that one that ends early does not always leave the same sales out
}

// errFull says that the queue has no room for the tickets of a sale.
var errFull = fmt.Errorf("%w: no room for tickets that no process works on", ErrBusy)

// Run reclaims once a second until ctx ends, and looks five times a second for processes of this machine that have
// died.
func (r *reclaimer) Run(ctx context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() { r.looks.Run(ctx, roundLimit, rounds.Every(inheritEvery), r.inherit) })
	r.rounds.Run(ctx, roundLimit, rounds.Every(reclaimEvery), r.tick)
	looking.Wait()
}

// inherit queues the tickets of processes that have surely died. It calls no store unless it finds one.
func (r *reclaimer) inherit(ctx context.Context) {
	for dead := range r.alive.Dead() {
		if time.Since(r.busy[dead.Name]) < inheritPause {
			dead.Release(false)
			continue
		}
		if r.died[dead.Name].IsZero() {
			r.died[dead.Name] = time.Now()
		}
		err := r.look(ctx, dead.Name)
		if delete(r.busy, dead.Name); err != nil {
			r.busy[dead.Name] = time.Now()
		}
		r.fault(ctx, "inherit", err)
		done := err == nil && time.Since(r.died[dead.Name]) > inheritFor
		if dead.Release(done); done {
			delete(r.died, dead.Name)
		}
	}
}

func (r *reclaimer) tick(ctx context.Context) {
	if err := r.look(ctx, ""); !errors.Is(err, errFull) {
		r.fault(ctx, "reclaim", err)
	}
}

// look looks at the journals of all sales that may have one. surely is a process that has surely died, or "".
func (r *reclaimer) look(ctx context.Context, surely string) error {
	select {
	case r.looking <- struct{}{}:
		defer func() { <-r.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	sales, err := r.withJournals(ctx)
	if err == nil && surely == "" {
		sales = r.reads.WithEntries(sales)
	}
	if err != nil || len(sales) == 0 {
		return err
	}
	gates, err := r.gate.States(ctx, sales)
	if err != nil {
		return err
	}
	r.turn++
	for i := range sales {
		if sale := sales[(i+r.turn)%len(sales)]; gates[sale].Entries > 0 {
			err = cmp.Or(r.lookAt(ctx, sale, surely), err)
		}
	}
	return err
}

// CheckJournals returns an error if a sale has tickets in a journal of a release that this one does not read any more:
// they would never be settled. Call it before Run.
func (e *Engine) CheckJournals(ctx context.Context) error {
	r := e.reclaimer
	sales, err := r.withJournals(ctx)
	if err != nil || len(sales) == 0 || e.cfg.gateOff() {
		return err
	}
	with, err := r.gate.FormerJournals(ctx, sales)
	if err == nil && len(with) > 0 {
		err = fmt.Errorf(
			"sales %v have tickets in the journal of a release of before 23 November 2026 (ms:{...}:journal): let a release "+
				"of 23 to 27 November 2026 (commit ea6db2d to c40b7e4) run until its journals are empty, then "+
				"start this one", with)
	}
	return err
}

// withJournals returns the sales that may have a journal, also those that were changed since, into a draft for example.
func (r *reclaimer) withJournals(ctx context.Context) ([]int64, error) {
	changed, err := r.sales.Changed(ctx)
	if err != nil {
		return nil, err
	}
	states, err := r.sales.SaleStates(ctx, journalLife, changed)
	sales := make([]int64, len(states))
	for i, s := range states {
		sales[i] = s.ID
	}
	return sales, err
}

// lookAt queues the tickets of one sale that are this process's to queue. A reserve call is over after
// gate.ReserveLimit: until then an entry of this process may still come into its queue. An entry from the future was
// written before the clock of Redis went back.
func (r *reclaimer) lookAt(ctx context.Context, sale int64, surely string) error {
	pending, kept := r.queue.PendingOf(sale), r.acks.kept(sale)
	entries, now, err := r.gate.Journal(ctx, sale, r.qmax)
	if err != nil {
		return err
	}
	var own, left []gate.Entry
	for _, e := range entries {
		held := now.Sub(e.Since).Abs()
		switch {
		case pending[e.ID] || kept[e.ID]:
		case e.Owner == r.alive.Name:
			if held > gate.ReserveLimit {
				own = append(own, e)
			}
		case surely != "" && e.Owner == surely, r.beats.Takes(e.Owner, held):
			left = append(left, e)
		}
	}
	r.enqueueEntries(ctx, sale, own)
	return r.takeOver(ctx, sale, left)
}

// takeOver takes entries over while the queue has room for their tickets. All that is taken over is worked on.
func (r *reclaimer) takeOver(ctx context.Context, sale int64, left []gate.Entry) error {
	for len(left) > 0 {
		free, n := r.queue.Free(sale), 0
		if free <= 0 {
			return errFull
		}
		for n < len(left) && free > 0 {
			free -= len(left[n].Tickets)
			n++
		}
		taken, err := r.gate.TakeOver(ctx, sale, left[:n])
		r.enqueueEntries(ctx, sale, taken)
		if err != nil {
			return err
		}
		left = left[n:]
	}
	return nil
}

// fault logs a fault, unless the round was cancelled.
func (r *reclaimer) fault(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		r.metrics.logFault(doing, err)
	}
}

// resettle queues the tickets of a journal, whichever process owns them. If Redis was restored from older data, most of
// them were settled long ago, and the gate offers too much until this is known. It takes nothing over: settling is safe
// to repeat.
func (r *reclaimer) resettle(ctx context.Context, sale int64) error {
	pending := r.queue.PendingOf(sale)
	entries, _, err := r.gate.Journal(ctx, sale, r.qmax)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e gate.Entry) bool { return pending[e.ID] })
	for i := range entries {
		entries[i].Owners = 1 // to judge an entry by its owners is for the one who has it
	}
	r.enqueueEntries(ctx, sale, entries)
	return nil
}

// enqueueEntries queues the tickets of entries that are not in the queue yet.
func (r *reclaimer) enqueueEntries(ctx context.Context, sale int64, entries []gate.Entry) {
	var tickets []order.Ticket
	var damaged, exhausted, suspects []gate.Entry
	for _, e := range entries {
		switch {
		case e.Err != nil:
			damaged = append(damaged, e)
		case e.Owners > maxOwners:
			exhausted = append(exhausted, e)
		case e.Owners > aloneOwners:
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
	if len(tickets) > 0 && r.queue.TakeRoom(len(tickets)) {
		r.metrics.log.Info("queued tickets from the journal", "sale", sale, "tickets", len(tickets))
		r.metrics.claims.Add(float64(len(tickets)))
		r.trace.Claim(sale, tickets)
		r.queue.Submit(sale, tickets, false)
	}
}

// settleDamaged settles what can be read of an entry, and moves the entry to the dead letters. After a fault, the next
// look tries again.
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

// settleSuspects settles the tickets of entries that have had many owners, who all died. Perhaps one of the tickets is
// why: each is settled alone, in random order, so the others get their results sooner or later. At the first fault the
// queue takes the rest, for as long as needed.
func (r *reclaimer) settleSuspects(ctx context.Context, sale int64, suspects []gate.Entry) {
	for i, e := range suspects {
		var results []order.Result
		for _, n := range rand.Perm(len(e.Tickets)) {
			result, err := r.settler.settleAlone(ctx, sale, e.Tickets[n])
			if err != nil {
				r.metrics.logFault("settle a ticket alone", err)
				for _, rest := range suspects[i:] {
					r.enqueue(sale, rest.Tickets)
				}
				return
			}
			results = append(results, result...)
		}
		r.settler.finish(ctx, sale, results)
	}
}
