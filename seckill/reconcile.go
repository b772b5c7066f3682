package seckill

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const (
	reconcileEvery = 150 * time.Millisecond
	followEvery    = time.Second // how often the gates of all changed sales are compared, near or not
	fixAgain       = 3           // how often a tick tries again to fix the gates that moved

	reconcileGap = 5 * time.Millisecond // between two ticks at least: many units that come back do not keep the stores busy
)

// reconciler compares every open sale's gate with Postgres: it observes, diagnoses (diagnose.go) and repairs. This is how
// cancelled and expired units come back on sale in every process, how a missing gate is rebuilt, and how a change of a
// sale's state, window or total reaches the gate. Any number of processes may do it at once: there is no leader.
//
// A change may move a sale out of the query of the sales that are near: into a draft, far ahead, or into the past. The tick
// after it still sees the sale, because it asks for the sales of the last tick too, and follows it until its gate has the row's
// epoch, also through an outage of Redis. What no process has seen (a crash between the change and the gate, a first start, a
// Redis that came back with an older gate) is found by goods.Store.Changed, when a process starts and once a second: the change
// itself has noted in the row until when such a gate can live.
type reconciler struct {
	cfg       Config
	sales     *goods.Store
	gate      *gate.Gate
	acks      *acks
	facts     *facts
	rebuilder *rebuilder
	reclaimer *reclaimer
	metrics   *metrics
	rounds    *rounds.Rounds
	every     time.Duration // reconcileEvery, except in tests

	left  atomic.Pointer[unitsLeft]   // as of the last tick
	opens atomic.Pointer[[]time.Time] // when the sales open that were not open at the last tick

	drifted  map[int64]int // by sale: units by which a gate has drifted and could not be fixed in this tick
	last     []int64       // the sales whose gates the next tick reads
	followed time.Time     // when the changed sales were last among them
}

// unitsLeft has the units left of each sale, as they were when a tick began or later.
type unitsLeft struct {
	at     time.Time
	bySale map[int64]int
}

// Run reconciles about seven times a second, and when a round is asked for, until ctx ends.
func (r *reconciler) Run(ctx context.Context) {
	r.rounds.Run(ctx, roundLimit, rounds.Every(r.every), func(ctx context.Context) {
		r.tick(ctx)
		time.Sleep(reconcileGap)
	})
}

// leftOf returns the units left of a sale, or false if the last tick did not see it.
func (r *reconciler) leftOf(sale int64) (n int, ok bool) {
	if m := r.left.Load(); m != nil {
		n, ok = m.bySale[sale]
	}
	return n, ok
}

// soldOut reports whether a sale had no unit left at a tick that began at most sureFor ago. After an outage of Postgres, or a
// pause, it reports false until the next tick.
func (r *reconciler) soldOut(sale int64) bool {
	m := r.left.Load()
	if m == nil || time.Since(m.at) > sureFor {
		return false
	}
	n, known := m.bySale[sale]
	return known && n == 0
}

// openings returns when the sales open that were not open at the last tick, but are to open within ten minutes.
func (r *reconciler) openings() []time.Time {
	if opens := r.opens.Load(); opens != nil {
		return *opens
	}
	return nil
}

func (r *reconciler) tick(ctx context.Context) {
	began := time.Now()
	r.drifted = map[int64]int{}
	observed, err := r.observe(ctx)
	if err != nil {
		r.metrics.drift.Reset()
		r.fault(ctx, "reconcile", err)
		return
	}
	left, sales, moved := make(map[int64]int, len(observed)), make([]int64, 0, len(observed)), []int64(nil)
	var opens []time.Time
	for _, o := range observed {
		cures := diagnose(o)
		if unknown := !o.gateRead && !r.cfg.gateOff(); o.sale.Near || len(cures) > 0 || unknown {
			sales = append(sales, o.sale.ID)
		}
		if o.sale.Near {
			left[o.sale.ID] = o.sale.Stock
			if o.gateRead && o.gate.Epoch >= o.sale.Epoch {
				left[o.sale.ID] = max(0, o.gate.Stock)
			}
			if o.sale.State == goods.Published && !o.sale.Open {
				opens = append(opens, o.sale.StartsAt)
			}
		}
		for _, cure := range cures {
			r.metrics.log.Debug("a gate is repaired", "sale", o.sale.ID, "repair", cure)
			if cure != fixStock {
				r.repair(ctx, o, cure)
			} else if !r.fix(ctx, o, left) {
				moved = append(moved, o.sale.ID)
			}
		}
	}
	for n := 0; n < fixAgain && len(moved) > 0; n++ {
		moved = r.fixMoved(ctx, moved, left)
	}
	r.left.Store(&unitsLeft{began, left})
	r.opens.Store(&opens)
	r.showDrift(observed)
	r.last = r.andChanged(ctx, sales)
}

// showDrift exports the drift that the tick left. It is not known if a gate of the tick could not be read.
func (r *reconciler) showDrift(observed []observation) {
	if r.cfg.gateOff() || slices.ContainsFunc(observed, func(o observation) bool { return !o.gateRead && slices.Contains(r.last, o.sale.ID) }) {
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

// observe reads the gates of the last tick's sales in one pipeline, and then these sales and all that are near in one query.
// The ops of a gate show whether it has moved since it was read. Without Redis, only the sales are observed.
func (r *reconciler) observe(ctx context.Context) ([]observation, error) {
	began := time.Now()
	var gates map[int64]gate.State
	gatesRead := !r.cfg.gateOff()
	if gatesRead && len(r.last) > 0 {
		var err error
		if gates, err = r.gate.States(ctx, r.last); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			r.fault(ctx, "reconcile", err)
			gatesRead = false
		}
	}
	if gatesRead {
		r.facts.compare(gates)
		r.acks.retry(ctx) // each adds to ops: before the comparison it would hide that Redis lost an earlier one
	}
	sales, err := r.sales.SaleStates(ctx, 0, r.last)
	if err != nil {
		return nil, err
	}
	observed := make([]observation, len(sales))
	for i, s := range sales {
		g, read := gates[s.ID]
		if s.Near {
			r.facts.looked(s, g, began)
		}
		observed[i] = observation{sale: s, gate: g, gateRead: read, facts: r.facts.of(s.ID), at: began}
	}
	return observed, nil
}

func (r *reconciler) repair(ctx context.Context, o observation, cure repair) {
	sale, err := o.sale.ID, error(nil)
	beside, cancel := ctx, func() {}
	slow, _ := r.rebuilder.locked.Slow()
	missed := slices.Contains(slow, sale)
	if missed { // the tick has to look at the other sales
		beside, cancel = context.WithTimeout(ctx, reconcileGap)
	}
	defer cancel()
	switch cure {
	case rebuildGate:
		err = r.rebuilder.rebuild(beside, sale)
	case recoverRollback:
		r.metrics.log.Warn("a gate was rolled back: Redis has lost data", "sale", sale)
		if err = r.reclaimer.resettle(ctx, sale); err == nil {
			err = r.seed(ctx, o, "")
		}
	case seedDirectOwners:
		err = r.seed(ctx, o, directTicket)
	case clearBypass:
		err = r.rebuilder.once(beside, sale, string(clearBypass), func(ctx context.Context, wait time.Duration) error {
			return r.sales.GateKnows(ctx, sale, o.sale.Bypasses, wait)
		})
	}
	if missed && errors.Is(err, context.DeadlineExceeded) && beside.Err() != nil || !missed && errors.Is(err, goods.ErrLocked) {
		return // the tick has left it, or the lock was missed once, which is nothing
	}
	r.fault(ctx, string(cure), err)
}

func (r *reconciler) seed(ctx context.Context, o observation, prefix string) error {
	err := r.rebuilder.seedOwners(ctx, o.sale.ID, prefix, o.sale.Bypasses)
	if err == nil {
		r.facts.recovered(o.sale.ID)
	}
	return err
}

// fix corrects a gate's stock and what Left shows. It returns false if the gate has moved since it was read.
func (r *reconciler) fix(ctx context.Context, o observation, left map[int64]int) bool {
	drift, fixed, err := r.gate.Fix(ctx, o.sale.ID, o.gate, o.sale.Stock)
	left[o.sale.ID] = max(0, o.gate.Stock+drift)
	switch {
	case err != nil:
		r.drifted[o.sale.ID] = o.drift()
		r.fault(ctx, string(fixStock), err)
		return true // the next tick tries again
	case drift > 0:
		r.metrics.fixes.WithLabelValues("up").Inc()
	case drift < 0:
		r.metrics.fixes.WithLabelValues("down").Inc()
	}
	if r.drifted[o.sale.ID] = o.drift(); fixed {
		delete(r.drifted, o.sale.ID)
	}
	return fixed
}

// fixMoved observes and fixes again the gates that moved before they could be fixed. It returns those that moved once more.
// A busy sale moves its gate all the time, so waiting for the next tick would not help.
func (r *reconciler) fixMoved(ctx context.Context, sales []int64, left map[int64]int) (moved []int64) {
	gates, err := r.gate.States(ctx, sales)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return nil
	}
	states, err := r.sales.SaleStates(ctx, 0, nil)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return nil
	}
	for _, s := range states {
		o := observation{sale: s, gate: gates[s.ID], gateRead: gates[s.ID].Epoch != 0}
		if !o.gateRead {
			continue
		}
		left[s.ID] = max(0, o.gate.Stock)
		delete(r.drifted, s.ID)
		if slices.Contains(diagnose(o), fixStock) && !r.fix(ctx, o, left) {
			moved = append(moved, s.ID)
		}
	}
	return moved
}

// fault logs a fault, unless the tick was cancelled.
func (r *reconciler) fault(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		r.metrics.logFault(doing, err)
	}
}
