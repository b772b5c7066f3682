package seckill

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/singleflight"

	"miaosha/goods"
	"miaosha/seckill/failpoint"
)

const (
	reconcileEvery = 300 * time.Millisecond
	rebuildLimit   = 10 * time.Second
	layChunk       = 1000
	fixAgain       = 3 // times a tick looks again at a gate that has moved before it could be fixed
)

// view is what this process knows of the gates: the units left, for showing, and what they have to be told.
type view struct {
	left atomic.Pointer[map[int64]int]
	asks singleflight.Group // rebuilds under way, by sale
	was  []int64            // sales of the last tick; reconcile's own
	ops  map[int64]int64    // how far each gate was at the last tick; reconcile's own

	rebuilding sync.RWMutex // read-locked by each rebuild; locked when Run has ended

	astray sync.Map // sale id -> number: it sold past its gate, which doesn't know those buyers yet
	sold   atomic.Int64
	late   sync.Map       // sale id -> ticks to go: a reserve call got no answer, and may yet be carried out
	lost   map[int64]bool // sales whose gate was set back, and may know none of its buyers; reconcile's own
}

// soldPast takes note, after the commit, that a sale sold without telling its gate.
func (v *view) soldPast(sale int64) { v.astray.Store(sale, v.sold.Add(1)) }

// look takes note of how far the gates are, and of those that have gone back: their Redis came back with older data, or
// with none and somebody has set them up again.
func (v *view) look(gates map[int64]Reading) {
	if v.lost == nil {
		v.lost = map[int64]bool{}
	}
	ops := make(map[int64]int64, len(gates))
	for sale, g := range gates {
		n, err := strconv.ParseInt(g.Ops, 10, 64)
		if err != nil {
			continue // no gate: who rebuilds it tells it everybody
		}
		if ops[sale] = n; n < v.ops[sale] {
			v.lost[sale] = true
		}
	}
	v.ops = ops
}

// Left is how many units of a sale can still be had, as far as this process has heard: at most half a second old for
// an open sale.
func (e *Engine) Left(s goods.Sale) int {
	if m := e.view.left.Load(); m != nil {
		if n, ok := (*m)[s.ID]; ok {
			return n
		}
	}
	return s.Stock
}

// reconcile holds every open sale's gate against Postgres: one look at all gates, then one query, then a fix where they
// differ. This is how cancelled and expired units come back on sale in every process, how a gate that is gone is set
// up again, and how a change of a sale's state, window or total reaches the gate.
//
// The gates are read before the truth: had a gate moved in between, its ops tell, and it is looked at again.
func (e *Engine) reconcile(ctx context.Context) {
	var gates map[int64]Reading
	gateless := e.cfg.Gate == "off"
	if !gateless {
		e.catchUpUntold(ctx)
	}
	if !gateless && len(e.view.was) > 0 {
		if err := e.try(ctx, redisLimit, func(ctx context.Context) (err error) { gates, err = ReadGates(ctx, e.gate.rdb, e.view.was); return err }); err != nil {
			if ctx.Err() != nil {
				return
			}
			e.logFault("reconcile", err)
			gateless = true
		}
	}
	if !gateless {
		e.view.look(gates)
	}
	truths, err := e.sales.Truths(ctx, 0)
	if err != nil {
		if ctx.Err() == nil {
			e.logFault("reconcile", err)
		}
		return
	}
	left, was, moved := make(map[int64]int, len(truths)), make([]int64, 0, len(truths)), []int64(nil)
	for _, t := range truths {
		if _, seen := slices.BinarySearch(e.view.was, t.ID); !seen && !gateless {
			e.view.soldPast(t.ID) // perhaps, by a process that died before it told the gate
		}
		was = append(was, t.ID)
		g, read := gates[t.ID]
		switch epoch, _ := strconv.ParseInt(g.Epoch, 10, 64); {
		case gateless || !read:
			left[t.ID] = t.Stock
		case g.Epoch == "" || epoch < t.Epoch:
			left[t.ID] = t.Stock
			if err := e.rebuild(ctx, t.ID); err != nil && ctx.Err() == nil {
				e.logFault("rebuild", err)
			}
		default:
			drift, fixed := e.reconcileOne(ctx, t, g)
			left[t.ID] = max(0, g.Stock+drift)
			if !fixed {
				moved = append(moved, t.ID)
			}
			if err := e.adopt(ctx, t.ID); err != nil && ctx.Err() == nil {
				e.logFault("adopt", err)
			}
			if err := e.catchUp(ctx, t.ID); err != nil && ctx.Err() == nil {
				e.logFault("catch up", err)
			}
		}
	}
	for n := 0; n < fixAgain && len(moved) > 0; n++ {
		if moved, err = e.reconcileAgain(ctx, moved, left); err != nil && ctx.Err() == nil {
			e.logFault("reconcile", err)
		}
	}
	e.view.left.Store(&left)
	e.view.was = was
}

// reconcileAgain is another try at gates that have moved since the last one, and gives those that have moved once more. A
// sale at its height moves its gate all the time: the next tick would find it no stiller.
func (e *Engine) reconcileAgain(ctx context.Context, sales []int64, left map[int64]int) (moved []int64, err error) {
	var gates map[int64]Reading
	err = e.try(ctx, redisLimit, func(ctx context.Context) (err error) {
		gates, err = ReadGates(ctx, e.gate.rdb, sales)
		return err
	})
	if err != nil {
		return nil, err
	}
	truths, err := e.sales.Truths(ctx, 0)
	if err != nil {
		return nil, err
	}
	for _, t := range truths {
		if g := gates[t.ID]; g.Epoch != "" {
			drift, fixed := e.reconcileOne(ctx, t, g)
			left[t.ID] = max(0, g.Stock+drift)
			if !fixed {
				moved = append(moved, t.ID)
			}
		}
	}
	return moved, nil
}

// reconcileOne fixes one gate where it may differ, and gives by how much it moved it. It is not fixed if it has moved by
// itself since it was read.
func (e *Engine) reconcileOne(ctx context.Context, t goods.Truth, g Reading) (drift int, fixed bool) {
	if t.Stock-g.Waiting <= g.Stock && g.Stock <= t.Stock {
		return 0, true
	}
	drift, fixed, err := e.gate.fix(ctx, t.ID, g, t.Stock)
	switch {
	case err != nil && ctx.Err() == nil:
		e.logFault("fix", err)
	case drift > 0:
		e.metrics.fixes.WithLabelValues("up").Inc()
	case drift < 0:
		e.metrics.fixes.WithLabelValues("down").Inc()
	}
	return drift, fixed || err != nil
}

// catchUp tells a gate who bought past it while Redis was away, or everybody if it was set back.
func (e *Engine) catchUp(ctx context.Context, sale int64) error {
	number, astray := e.view.astray.Load(sale)
	who := directTicket
	if e.view.lost[sale] {
		e.log.Warn("a gate was set back: Redis has lost data", "sale", sale)
		who = ""
		if err := e.settleAgain(ctx, sale); err != nil {
			return err
		}
	} else if !astray {
		return nil
	}
	if err := e.layOwners(ctx, sale, who); err != nil {
		return err
	}
	delete(e.view.lost, sale)
	e.view.astray.CompareAndDelete(sale, number) // unless it sold again meanwhile
	return nil
}

func (e *Engine) layOwners(ctx context.Context, sale int64, prefix string) error {
	owners, err := e.orders.Owners(ctx, sale, prefix)
	if err != nil {
		return err
	}
	return e.gate.lay(ctx, sale, owners)
}

// rebuild sets a sale's gate up from Postgres, if it is missing or older than the sale's row says. First the users with
// orders are laid, outside any lock, into a hash that exists from before the look at the orders: who buys meanwhile is
// written there by his settle, so nobody who has an order is missed. Then, under the row's lock, so that no unit is
// taken in between: stop if the gate has come back, else install. This is the one place that speaks to Redis inside a
// transaction: the lock is the point.
func (e *Engine) rebuild(ctx context.Context, sale int64) error {
	done := e.view.asks.DoChan(strconv.FormatInt(sale, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildLimit)
		defer cancel()
		if !e.view.rebuilding.TryRLock() {
			return nil, ErrBusy
		}
		defer e.view.rebuilding.RUnlock()
		return nil, e.rebuildNow(ctx, sale)
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return fmt.Errorf("rebuild the gate of sale %d: %w", sale, ctx.Err())
	}
}

func (e *Engine) rebuildNow(ctx context.Context, sale int64) error {
	gates, err := ReadGates(ctx, e.gate.rdb, []int64{sale})
	if err != nil {
		return err
	}
	fresh, err := e.gate.found(ctx, sale)
	if err != nil {
		return err
	}
	if fresh || gates[sale].Epoch == "" {
		if err := e.layOwners(ctx, sale, ""); err != nil {
			return err
		}
	}
	return pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		l, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		gates, err := ReadGates(ctx, e.gate.rdb, []int64{sale})
		if err != nil {
			return err
		}
		epoch := l.Epoch
		if has := gates[sale].Epoch; has == "" {
			// A new life of the gate: what was read of the old one must not match it.
			if epoch, err = goods.NextEpoch(ctx, tx, sale); err != nil {
				return err
			}
		} else if n, err := strconv.ParseInt(has, 10, 64); err == nil && n >= l.Epoch {
			return nil
		}
		installed, err := e.gate.install(ctx, l, epoch, e.cfg.QMax)
		if installed {
			e.metrics.rebuilds.Inc()
			e.log.Debug("installed a gate", "sale", sale, "epoch", epoch, "stock", l.Stock)
			err = failpoint.Hit(failpoint.F9)
		}
		return err
	})
}
