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

const rebuildLimit = 10 * time.Second

// rebuilder sets gates up from Postgres if they are missing or older than the sale's row.
type rebuilder struct {
	db      *pgxpool.Pool
	gate    *gate.Gate
	orders  *order.Store
	qmax    int
	metrics *metrics
	locked  goods.LockedSales

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

// rebuild rebuilds one sale's gate. goods.ErrLocked, maybe while the sale rests.
func (r *rebuilder) rebuild(ctx context.Context, sale int64) error {
	return r.once(ctx, sale, "rebuild the gate", func(ctx context.Context, wait time.Duration) error {
		err := r.rebuildNow(ctx, sale, wait)
		if errors.Is(err, gate.ErrNoGate) { // Redis lost its data meanwhile
			err = r.rebuildNow(ctx, sale, wait)
		}
		return err
	})
}

// once does what needs the sale's row, once for all callers that wait for it. It goes on after ctx has ended.
func (r *rebuilder) once(ctx context.Context, sale int64, doing string, do func(ctx context.Context, wait time.Duration) error) error {
	done := r.calls.DoChan(fmt.Sprintf("%s of sale %d", doing, sale), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildLimit)
		defer cancel()
		if !r.running.TryRLock() {
			return nil, ErrBusy
		}
		defer r.running.RUnlock()
		waiting, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(r.closing, end)()
		return nil, r.locked.Once(waiting, sale, func(wait time.Duration) error { return do(ctx, wait) })
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
func (r *rebuilder) rebuildNow(ctx context.Context, sale int64, wait time.Duration) error {
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
	if created || gates[sale].Epoch == 0 {
		if err := r.seedOwners(ctx, sale, "", 0); err != nil {
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
		if has := gates[sale].Epoch; has == 0 {
			// The gate is new: a state that was read of the old one must not match it.
			if epoch, err = goods.NextEpoch(ctx, tx, sale); err != nil {
				return err
			}
		} else if has >= locked.Epoch {
			return nil
		}
		installed, err := r.gate.Install(ctx, locked, epoch, r.qmax)
		if installed {
			r.metrics.rebuilds.Inc()
			r.metrics.log.Debug("installed a gate", "sale", sale, "epoch", epoch, "stock", locked.Stock)
			err = failpoint.Hit(failpoint.BeforeInstallCommit)
		}
		return err
	})
}

// seedOwners adds the users to the gate whose order has a ticket that begins with prefix; "" means all owners. If known is not 0,
// the sale's row had so many bypasses before.
func (r *rebuilder) seedOwners(ctx context.Context, sale int64, prefix string, known int64) error {
	owners, err := r.orders.Owners(ctx, sale, prefix)
	if err != nil {
		return err
	}
	return r.gate.AddOwners(ctx, sale, owners, known)
}
