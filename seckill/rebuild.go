package seckill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/singleflight"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/gate"
)

const (
	rebuildLimit = 10 * time.Second       // without progress
	seedPage     = 10_000                 // owners that are read and written at once
	seedingLook  = 100 * time.Millisecond // how often a process looks whether another one has seeded
)

// rebuilder sets gates up from Postgres if they are missing or older than the sale's row.
type rebuilder struct {
	db      *pgxpool.Pool
	gate    *gate.Gate
	orders  *order.Store
	qmax    int
	metrics *metrics
	locked  goods.LockedSales
	page    int  // seedPage, except in tests
	noLease bool // in tests: each process seeds

	calls   singleflight.Group // under way, by what is done and sale
	running sync.RWMutex       // each holds a read lock; close locks it for ever
	closing context.Context    // ended by end, when the process stops: none waits for its sale's turn any more
	end     context.CancelFunc
}

// close waits for what is under way. No other begins after it, nor one that waits for its sale's turn.
func (r *rebuilder) close() {
	r.end()
	r.running.Lock()
}

// rebuild rebuilds one sale's gate, or waits until another process has done so. goods.ErrLocked, maybe while the sale rests.
func (r *rebuilder) rebuild(ctx context.Context, sale int64) error {
	return r.rebuildOnce(ctx, sale, "rebuild the gate", r.awaitTurn)
}

// rebuildInTurn is rebuild that waits for no other process: ErrBusy while one seeds the owners.
func (r *rebuilder) rebuildInTurn(ctx context.Context, sale int64) error {
	return r.rebuildOnce(ctx, sale, "rebuild the gate in turn", func(ctx progress, sale int64) (mine bool, err error) {
		if mine, err = r.gate.BeginSeeding(ctx, sale); err == nil && !mine && !r.noLease {
			err = ErrBusy
		}
		return true, err
	})
}

func (r *rebuilder) rebuildOnce(ctx context.Context, sale int64, doing string, turn func(ctx progress, sale int64) (bool, error)) error {
	return r.once(ctx, sale, doing, func(ctx progress, wait time.Duration) error {
		err := r.rebuildNow(ctx, sale, wait, turn)
		if errors.Is(err, gate.ErrNoGate) { // Redis lost its data meanwhile
			err = r.rebuildNow(ctx, sale, wait, turn)
		}
		return err
	})
}

// progress is a context that ends rebuildLimit after the last call of went.
type progress struct {
	context.Context
	timer *time.Timer
}

func (p progress) went() { p.timer.Reset(rebuildLimit) }

// once does what needs the sale's row, once for all callers that wait for it. It goes on after ctx has ended.
func (r *rebuilder) once(ctx context.Context, sale int64, doing string, do func(ctx progress, wait time.Duration) error) error {
	return r.beside(ctx, sale, doing, func(ctx progress) error {
		waiting, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(r.closing, end)()
		return r.locked.Once(waiting, sale, func(wait time.Duration) error { return do(ctx, wait) })
	})
}

// beside does what may take long, once for all callers that wait for it. It goes on after ctx has ended, while there is progress.
func (r *rebuilder) beside(ctx context.Context, sale int64, doing string, do func(ctx progress) error) error {
	done := r.calls.DoChan(fmt.Sprintf("%s of sale %d", doing, sale), func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		limit := time.AfterFunc(rebuildLimit, cancel)
		defer limit.Stop()
		if !r.running.TryRLock() {
			return nil, ErrBusy
		}
		defer r.running.RUnlock()
		return nil, do(progress{ctx, limit})
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("%s of sale %d: %w", doing, sale, ctx.Err())
	}
}

// rebuildNow first seeds the owners, without a lock. The tickets hash exists before the orders are read, so the Ack of a
// later order writes to it, and no owner is missed. Then it locks the row, so that no unit is taken meanwhile, and installs
// the gate unless it has come back. This is the only place that calls Redis inside a transaction: the lock is the point. After a
// try that missed the lock it is tried before the owners are read, who may be many.
func (r *rebuilder) rebuildNow(ctx progress, sale int64, wait time.Duration, turn func(ctx progress, sale int64) (bool, error)) error {
	if wait != goods.LockWait {
		err := goods.InTx(ctx, r.db, wait, func(tx pgx.Tx) error {
			_, err := goods.Lock(ctx, tx, sale)
			return err
		})
		if err != nil {
			return err
		}
	}
	gates, err := r.gate.States(ctx, []int64{sale})
	if err != nil {
		return err
	}
	created, err := r.gate.CreateTickets(ctx, sale)
	if err != nil {
		return err
	}
	seeded := created || gates[sale].Epoch == 0
	if seeded && gates[sale].Epoch == 0 {
		if mine, err := turn(ctx, sale); err != nil || !mine {
			return err // another process has set it up
		}
		defer r.endTurn(ctx, sale) // after the install: those who wait look for the gate
	}
	if seeded {
		if err := r.seedOwners(ctx, sale, "", gate.Knows{}); err != nil {
			return err
		}
	}
	return goods.InTx(ctx, r.db, wait, func(tx pgx.Tx) error {
		locked, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		gates, err := r.gate.States(ctx, []int64{sale})
		if err != nil {
			return err
		}
		epoch := locked.Epoch
		if has := gates[sale].Epoch; has == 0 && !seeded {
			return gate.ErrNoGate // lost just now, with its owners
		} else if has == 0 {
			// The gate is new: a state that was read of the old one must not match it.
			if epoch, err = goods.NextEpoch(ctx, tx, sale); err != nil {
				return err
			}
		} else if has >= locked.Epoch {
			return nil
		}
		installed, err := r.gate.Install(ctx, locked, epoch, r.qmax, seeded)
		if installed {
			r.metrics.rebuilds.Inc()
			r.metrics.log.Debug("installed a gate", "sale", sale, "epoch", epoch, "stock", locked.Stock)
			err = failpoint.Hit(failpoint.BeforeInstallCommit)
		}
		return err
	})
}

// awaitTurn takes the lease to seed the owners of a sale, or waits until another process has set its gate up: then it returns false.
// The lease only saves work: one that runs out, or is lost with all of Redis, lets two processes seed, which is right too.
func (r *rebuilder) awaitTurn(ctx progress, sale int64) (mine bool, err error) {
	for mine = r.noLease; !mine; {
		if mine, err = r.gate.BeginSeeding(ctx, sale); mine || err != nil {
			return mine, err
		}
		select {
		case <-time.After(seedingLook):
		case <-r.closing.Done():
			return false, ErrBusy
		case <-ctx.Done():
			return false, ctx.Err()
		}
		gates, err := r.gate.States(ctx, []int64{sale})
		if err != nil || gates[sale].Epoch != 0 {
			return false, err
		}
		ctx.went()
	}
	return true, nil
}

func (r *rebuilder) endTurn(ctx context.Context, sale int64) {
	if err := r.gate.EndSeeding(context.WithoutCancel(ctx), sale); err != nil {
		r.metrics.logFault("seed the owners", err)
	}
}

// reseed seeds all owners of a gate that was rolled back, and was read before, and then notes an epoch that was drawn before they were
// read, so that the other processes do not repeat it. Before that it calls resettle. ErrBusy while another process does it.
func (r *rebuilder) reseed(ctx context.Context, sales *goods.Store, o observation, resettle func(ctx context.Context, sale int64) error) error {
	return r.beside(ctx, o.sale.ID, string(recoverRollback), func(ctx progress) error {
		mine, err := r.gate.BeginSeeding(ctx, o.sale.ID)
		if err != nil {
			return err
		}
		if !mine && !r.noLease {
			return ErrBusy
		}
		defer r.endTurn(ctx, o.sale.ID)
		if err := resettle(ctx, o.sale.ID); err != nil {
			return err
		}
		epoch, err := sales.DrawEpoch(ctx)
		if err != nil {
			return err
		}
		return r.seedOwners(ctx, o.sale.ID, "", gate.Knows{Bypasses: o.sale.Bypasses, Seeded: epoch, Ops: o.gate.Ops})
	})
}

// seedOwners adds the users to the gate whose order has a ticket that begins with prefix; "" means all owners. The gate learns the
// rest with the last of them: an order that is placed meanwhile counts a bypass later, or is acknowledged. With knows.Ops each page
// shows that the one before is not lost.
func (r *rebuilder) seedOwners(ctx progress, sale int64, prefix string, knows gate.Knows) error {
	for behind := int64(0); ; {
		owners, err := r.orders.Owners(ctx, sale, prefix, behind, r.page)
		if err != nil {
			return err
		}
		if r.closing.Err() != nil {
			return ErrBusy
		}
		if len(owners) < r.page {
			return r.gate.AddOwners(ctx, sale, owners, knows)
		}
		if err := r.gate.AddOwners(ctx, sale, owners, gate.Knows{Ops: knows.Ops}); err != nil {
			return err
		}
		if knows.Ops > 0 {
			knows.Ops++
		}
		if err := r.gate.KeepSeeding(ctx, sale); err != nil {
			return err
		}
		ctx.went()
		behind = owners[len(owners)-1].UserID
	}
}
