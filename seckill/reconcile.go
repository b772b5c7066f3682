package seckill

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

const (
	reconcileEvery = 150 * time.Millisecond
	fixAgain       = 3 // how often a tick tries again to fix the gates that moved
)

// reconciler compares every open sale's gate with Postgres: it observes, diagnoses (diagnose.go) and repairs. This is how
// cancelled and expired units come back on sale in every process, how a missing gate is rebuilt, and how a change of a
// sale's state, window or total reaches the gate. Any number of processes may do it at once: there is no leader.
type reconciler struct {
	cfg       Config
	sales     *goods.Store
	gate      *gate.Gate
	acks      *acks
	facts     *facts
	rebuilder *rebuilder
	reclaimer *reclaimer
	metrics   *metrics
	early     chan struct{} // has room for one

	left  atomic.Pointer[map[int64]int] // units left, by sale, as of the last tick
	opens atomic.Pointer[[]time.Time]   // when the sales open that were not open at the last tick
	last  []int64                       // sales of the last tick, in ascending order
}

// Run reconciles about seven times a second, and when early receives, until ctx ends.
func (r *reconciler) Run(ctx context.Context) { every(ctx, reconcileEvery, r.early, r.tick) }

// leftOf returns the units left of a sale, or false if the last tick did not see it.
func (r *reconciler) leftOf(sale int64) (n int, ok bool) {
	if m := r.left.Load(); m != nil {
		n, ok = (*m)[sale]
	}
	return n, ok
}

// openings returns when the sales open that were not open at the last tick, but are to open within ten minutes.
func (r *reconciler) openings() []time.Time {
	if opens := r.opens.Load(); opens != nil {
		return *opens
	}
	return nil
}

func (r *reconciler) tick(ctx context.Context) {
	observed, err := r.observe(ctx)
	if err != nil {
		r.fault(ctx, "reconcile", err)
		return
	}
	left, sales, moved := make(map[int64]int, len(observed)), make([]int64, 0, len(observed)), []int64(nil)
	var opens []time.Time
	for _, o := range observed {
		sales = append(sales, o.sale.ID)
		if o.sale.State == goods.Published && !o.sale.Open {
			opens = append(opens, o.sale.StartsAt)
		}
		left[o.sale.ID] = o.sale.Stock
		if o.gateRead && o.gate.Epoch >= o.sale.Epoch {
			left[o.sale.ID] = max(0, o.gate.Stock)
		}
		for _, cure := range diagnose(o) {
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
	r.left.Store(&left)
	r.opens.Store(&opens)
	r.last = sales
}

// observe reads all gates in one pipeline and then all sales in one query. The ops of a gate show whether it has moved since
// it was read. Without Redis, only the sales are observed.
func (r *reconciler) observe(ctx context.Context) ([]observation, error) {
	var gates map[int64]gate.State
	gatesRead := !r.cfg.gateOff()
	if gatesRead {
		r.acks.retry(ctx)
		if len(r.last) > 0 {
			var err error
			if gates, err = r.gate.States(ctx, r.last); err != nil {
				if ctx.Err() != nil {
					return nil, err
				}
				r.fault(ctx, "reconcile", err)
				r.facts.keepDoubt()
				gatesRead = false
			}
		}
	}
	if gatesRead {
		r.facts.compare(gates)
	}
	began := time.Now()
	sales, err := r.sales.SaleStates(ctx, 0)
	if err != nil {
		return nil, err
	}
	observed := make([]observation, len(sales))
	for i, s := range sales {
		g, read := gates[s.ID]
		r.facts.looked(s, g, began)
		observed[i] = observation{sale: s, gate: g, gateRead: read, facts: r.facts.of(s.ID), at: began}
	}
	return observed, nil
}

func (r *reconciler) repair(ctx context.Context, o observation, cure repair) {
	sale, err := o.sale.ID, error(nil)
	switch cure {
	case rebuildGate:
		err = r.rebuilder.rebuild(ctx, sale)
	case recoverInDoubt:
		err = r.reclaimer.recoverInDoubt(ctx, sale)
	case recoverRollback:
		r.metrics.log.Warn("a gate was rolled back: Redis has lost data", "sale", sale)
		if err = r.reclaimer.resettle(ctx, sale); err == nil {
			err = r.seed(ctx, o, "")
		}
	case seedDirectOwners:
		err = r.seed(ctx, o, directTicket)
	case clearBypass:
		err = r.sales.GateKnows(ctx, sale, o.sale.Bypasses)
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
		r.fault(ctx, string(fixStock), err)
		return true // the next tick tries again
	case drift > 0:
		r.metrics.fixes.WithLabelValues("up").Inc()
	case drift < 0:
		r.metrics.fixes.WithLabelValues("down").Inc()
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
	states, err := r.sales.SaleStates(ctx, 0)
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
