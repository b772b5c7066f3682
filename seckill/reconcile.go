package seckill

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
	"miaosha/seckill/rebuild"
	"miaosha/seckill/rounds"
	"miaosha/seckill/watch"
)

const (
	followEvery = time.Second // how often the gates of all changed sales are compared, near or not
	fixAgain    = 3           // how often a tick tries again to fix the gates that moved

	// a process repairs a gate that another one reads if that one has not repaired it for longer
	repairAfter = 2 * time.Second

	reconcileGap = 5 * time.Millisecond // between two ticks at least
)

// reconciler compares the gates of near and of changed sales with Postgres: it observes, diagnoses (diagnose.go) and
// repairs. This is how cancelled and expired units come back on sale in every process, how a missing gate is rebuilt,
// and how a change of a sale's state, window or total reaches the gate. Any number of processes may do it at once:
// there is no leader.
//
// A change may move a sale out of the query of the sales that are near: into a draft, far ahead, or into the past. The
// tick after it still sees the sale, because it asks for the sales of the last tick too, and follows it until its gate
// has the row's epoch, also through an outage of Redis. What no process has seen (a crash between the change and the
// gate, a first start, a Redis that came back with an older gate) is found by goods.Store.Changed, when a process
// starts and once a second: the change itself has noted in the row until when such a gate can live.
type reconciler struct {
	cfg       Config
	sales     *goods.Store
	gate      *gate.Gate
	acks      *acks
	readings  *watch.Readings
	rebuilder *rebuild.Rebuilder
	reclaimer *reclaimer
	metrics   *metrics
	rounds    *rounds.Rounds
	every     time.Duration // watch.Every, except in tests

	left atomic.Pointer[unitsLeft] // as of the last tick

	rows     map[int64]goods.SaleState // of the last tick
	ailing   map[int64]time.Time       // since when a gate that another process reads needs a repair
	drifted  map[int64]int             // by sale: units by which a gate has drifted and could not be fixed in this tick
	last     []int64                   // the sales whose gates the next tick reads
	followed time.Time                 // when the changed sales were last among them
}

// unitsLeft has the units left of each sale, as the tick that began then knew them: the reading of a calm gate may be
// two seconds old.
type unitsLeft struct {
	at     time.Time
	bySale map[int64]int
}

// Run reconciles about seven times a second until ctx ends.
func (r *reconciler) Run(ctx context.Context) {
	r.rounds.Run(ctx, roundLimit, rounds.Every(r.every), func(ctx context.Context) {
		r.tick(ctx)
		time.Sleep(reconcileGap)
	})
}

// leave tells the other processes that this one no longer reads gates for them.
func (r *reconciler) leave(ctx context.Context) {
	if !r.cfg.gateOff() {
		r.fault(ctx, "publish", r.readings.Leave(ctx))
	}
}

// leftOf returns the units left of a sale, or false if the last tick did not see it.
func (r *reconciler) leftOf(sale int64) (n int, ok bool) {
	if m := r.left.Load(); m != nil {
		n, ok = m.bySale[sale]
	}
	return n, ok
}

// soldOut reports whether a sale had no unit left at a tick that began at most watch.SureFor ago. After an outage of
// Postgres, or a pause, it reports false until the next tick.
func (r *reconciler) soldOut(sale int64) bool {
	m := r.left.Load()
	if m == nil || time.Since(m.at) > watch.SureFor {
		return false
	}
	n, known := m.bySale[sale]
	return known && n == 0
}

func (r *reconciler) tick(ctx context.Context) {
	began := time.Now()
	r.drifted = map[int64]int{}
	observed, err := r.observe(ctx)
	if r.readings.Rows = err == nil; err != nil {
		r.metrics.drift.Reset()
		r.fault(ctx, "reconcile", err)
		return
	}
	left, sales, moved := make(map[int64]int, len(observed)), make([]int64, 0, len(observed)), []int64(nil)
	note := func(sale int64, is fixing) {
		left[sale], r.drifted[sale] = is.stock, is.drift
	}
	rows, ailing, stirred := make(map[int64]goods.SaleState, len(observed)), map[int64]time.Time{}, map[int64]bool{}
	for _, o := range observed {
		cures := diagnose(o)
		rows[o.sale.ID] = o.sale
		was := r.rows[o.sale.ID]
		stirred[o.sale.ID] = len(cures) > 0 || was.Epoch != o.sale.Epoch || was.Stock != o.sale.Stock ||
			was.Bypass != o.sale.Bypass
		if unknown := !o.gateRead && !r.cfg.gateOff(); o.sale.Near || len(cures) > 0 || unknown {
			sales = append(sales, o.sale.ID)
		}
		if o.sale.Near {
			left[o.sale.ID] = o.sale.Stock
			if o.gateRead && o.gate.Epoch >= o.sale.Epoch {
				left[o.sale.ID] = max(0, o.gate.Stock)
			}
		}
		if len(cures) > 0 && !r.readings.Reads(o.sale.ID) {
			since, was := r.ailing[o.sale.ID]
			if !was {
				since = began
			}
			if ailing[o.sale.ID] = since; began.Sub(since) < repairAfter {
				// the reader does the others
				cures = slices.DeleteFunc(cures, func(c repair) bool { return c != recoverRollback })
			}
		}
		for _, cure := range cures {
			r.metrics.log.Debug("a gate is repaired", "sale", o.sale.ID, "repair", cure)
			if cure != fixStock {
				r.repair(ctx, o, cure)
				continue
			}
			is := r.fix(ctx, o)
			note(o.sale.ID, is)
			if is.moved {
				moved = append(moved, o.sale.ID)
			}
		}
	}
	r.lookAgain(ctx, moved, note)
	r.rows, r.ailing, r.readings.Stirred = rows, ailing, stirred
	r.left.Store(&unitsLeft{began, left})
	r.showDrift(observed)
	r.last = r.andChanged(ctx, sales)
}

// showDrift exports the drift that the tick left. It is not known if a gate of the tick could not be read.
func (r *reconciler) showDrift(observed []observation) {
	if r.cfg.gateOff() || slices.ContainsFunc(observed,
		func(o observation) bool { return !o.gateRead && slices.Contains(r.last, o.sale.ID) }) {
		r.metrics.drift.Reset()
		return
	}
	units := 0
	for _, n := range r.drifted {
		units += n
	}
	r.metrics.drift.WithLabelValues().Set(float64(units))
}

// andChanged adds the sales that were changed, once in followEvery.
func (r *reconciler) andChanged(ctx context.Context, sales []int64) []int64 {
	if r.cfg.gateOff() || time.Since(r.followed) < followEvery {
		return sales
	}
	changed, err := r.sales.Changed(ctx)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return sales
	}
	r.followed = time.Now()
	sales = append(sales, changed...)
	slices.Sort(sales)
	return slices.Compact(sales)
}

// observe has the gates of the last tick's sales, and then reads these sales and all that are near in one query. The
// ops of a gate show whether it has moved since it was read. Without Redis, only the sales are observed.
func (r *reconciler) observe(ctx context.Context) ([]observation, error) {
	began := time.Now()
	var gates map[int64]watch.Reading
	if !r.cfg.gateOff() {
		var err error
		if gates, err = r.readings.Read(ctx, r.last, r.acks.waits()); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			r.fault(ctx, "reconcile", err)
		} else {
			r.acks.retry(ctx) // each adds to ops: before Read compares, it would hide that Redis lost an earlier one
		}
	}
	sales, err := r.sales.SaleStates(ctx, 0, r.last)
	if err != nil {
		return nil, err
	}
	observed := make([]observation, len(sales))
	for i, s := range sales {
		g, read := gates[s.ID]
		if s.Near {
			r.readings.Facts.Looked(s, g, began)
		}
		observed[i] = observation{sale: s, gate: g.State, gateRead: read, own: g.Own,
			facts: r.readings.Facts.Of(s.ID), at: began}
	}
	return observed, nil
}

func (r *reconciler) repair(ctx context.Context, o observation, cure repair) {
	if ctx.Err() != nil { // the next tick does the rest
		return
	}
	sale, err := o.sale.ID, error(nil)
	limit := watch.Every
	if r.rebuilder.Slow(sale) {
		limit = reconcileGap
	}
	// the tick has to look at the other sales; what is under way goes on
	beside, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch cure {
	case rebuildGate:
		err = r.rebuilder.InTurn(beside, sale)
	case recoverRollback:
		r.metrics.log.Warn("a gate was rolled back: Redis has lost data", "sale", sale)
		err = r.rebuilder.Reseed(beside, sale, o.sale.Bypasses, o.gate.Ops, r.reclaimer.resettle)
	case seedDirectOwners:
		err = r.rebuilder.SeedDirect(beside, sale, directTicket, gate.Knows{Bypasses: o.sale.Bypasses, Ops: o.gate.Ops})
	case clearBypass:
		err = r.rebuilder.Once(beside, sale, string(clearBypass), func(ctx context.Context, wait time.Duration) error {
			return r.sales.GateKnows(ctx, sale, o.sale.Bypasses, wait)
		})
	}
	if errors.Is(err, context.DeadlineExceeded) && beside.Err() != nil || limit != reconcileGap &&
		errors.Is(err, goods.ErrLocked) || errors.Is(err, ErrBusy) {
		return // the tick has left it, the lock was missed once, which is nothing, or another process does it
	}
	r.fault(ctx, string(cure), err)
}

// fixing is what became of a gate whose stock was wrong.
type fixing struct {
	stock int  // of the gate
	drift int  // units by which it is still wrong
	moved bool // the gate has moved since it was read
}

// fix corrects a gate's stock.
func (r *reconciler) fix(ctx context.Context, o observation) fixing {
	drift, fixed, err := r.gate.Fix(ctx, o.sale.ID, o.gate, o.sale.Stock)
	is := fixing{stock: max(0, o.gate.Stock+drift), drift: o.drift(), moved: !fixed && err == nil}
	switch {
	case err != nil: // the next tick tries again
		r.fault(ctx, string(fixStock), err)
	case drift > 0:
		r.metrics.fixes.WithLabelValues("up").Inc()
	case drift < 0:
		r.metrics.fixes.WithLabelValues("down").Inc()
	}
	if fixed {
		is.drift = 0
	}
	return is
}

// look reads gates, then their rows, and fixes the stocks that are wrong, of whichever process the sales are. It
// returns what it has found, without the gates that are missing.
func (r *reconciler) look(ctx context.Context, sales []int64) map[int64]fixing {
	gates, err := r.gate.States(ctx, sales)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return nil
	}
	states, err := r.sales.StatesOf(ctx, sales)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return nil
	}
	found := map[int64]fixing{}
	for _, s := range states {
		if o := (observation{sale: s, gate: gates[s.ID], gateRead: gates[s.ID].Epoch != 0, own: true}); o.gateRead {
			found[s.ID] = fixing{stock: max(0, o.gate.Stock)}
			if slices.Contains(diagnose(o), fixStock) {
				found[s.ID] = r.fix(ctx, o)
			}
		}
	}
	return found
}

// lookAgain looks at the gates that moved before they could be fixed, a few times: a busy sale moves its gate all the
// time, so waiting for the next tick would not help. found is told what each look has found.
func (r *reconciler) lookAgain(ctx context.Context, moved []int64, found func(sale int64, is fixing)) {
	for n := 0; n < fixAgain && len(moved) > 0; n++ {
		looked := r.look(ctx, moved)
		moved = nil
		for _, sale := range slices.Sorted(maps.Keys(looked)) {
			if found(sale, looked[sale]); looked[sale].moved {
				moved = append(moved, sale)
			}
		}
	}
}

// fault logs a fault, unless the tick was cancelled.
func (r *reconciler) fault(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		r.metrics.logFault(doing, err)
	}
}
