package seckill

import (
	"context"
	"sync"

	"miaosha/order"
)

// untold are results that are committed and that the gate could not be told. Reconcile tells them when it answers
// again, so that nobody stays queued for as long as a claim takes. It is a shortcut and no more: their entries are in the
// journal all the while, and whoever claims one finds its result stored.
type untold struct {
	mu     sync.Mutex
	bySale map[int64][]order.Result
	n      int
}

// add keeps results as long as there are at most limit of them.
func (u *untold) add(sale int64, results []order.Result, limit int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n+len(results) > limit {
		return
	}
	if u.bySale == nil {
		u.bySale = map[int64][]order.Result{}
	}
	u.bySale[sale] = append(u.bySale[sale], results...)
	u.n += len(results)
}

func (u *untold) take() map[int64][]order.Result {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.bySale
	u.bySale, u.n = nil, 0
	return all
}

// tellGate takes tickets out of the journal, whatever becomes of the caller.
func (e *Engine) tellGate(ctx context.Context, sale int64, results []order.Result) error {
	err := e.ask(context.WithoutCancel(ctx), redisLimit, func(ctx context.Context) error { return e.gate.settle(ctx, sale, results) })
	if err == nil { // not before the gate knows: the next question may go to another process
		e.looks.remember(sale, results...)
	}
	return err
}

// catchUpUntold tells the gates what they missed; what fails again is kept.
func (e *Engine) catchUpUntold(ctx context.Context) {
	for sale, results := range e.untold.take() {
		for len(results) > 0 {
			n := min(len(results), poolBatch)
			if err := e.tellGate(ctx, sale, results[:n]); err != nil {
				e.untold.add(sale, results, e.cfg.QMax)
				break
			}
			results = results[n:]
		}
	}
}
