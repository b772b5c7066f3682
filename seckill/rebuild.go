package seckill

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

	calls   singleflight.Group // rebuilds under way, by sale
	running sync.RWMutex       // each rebuild holds a read lock; close locks it for ever
}

// close waits for the rebuilds under way. No other begins after it.
func (r *rebuilder) close() { r.running.Lock() }

// rebuild rebuilds one sale's gate, once for all callers that wait for it. It goes on after ctx has ended.
func (r *rebuilder) rebuild(ctx context.Context, sale int64) error {
	done := r.calls.DoChan(strconv.FormatInt(sale, 10), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rebuildLimit)
		defer cancel()
		if !r.running.TryRLock() {
			return nil, ErrBusy
		}
		defer r.running.RUnlock()
		err := r.rebuildNow(ctx, sale)
		if errors.Is(err, gate.ErrNoGate) { // Redis lost its data meanwhile
			err = r.rebuildNow(ctx, sale)
		}
		return nil, err
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("rebuild the gate of sale %d: %w", sale, ctx.Err())
	}
}

// rebuildNow first seeds the owners, without a lock. The tickets hash exists before the orders are read, so the Ack of a
// later order writes to it, and no owner is missed. Then it locks the row, so that no unit is taken meanwhile, and installs
// the gate unless it has come back. This is the only place that calls Redis inside a transaction: the lock is the point.
func (r *rebuilder) rebuildNow(ctx context.Context, sale int64) error {
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
	return pgx.BeginTxFunc(ctx, r.db, goods.ReadCommitted, func(tx pgx.Tx) error {
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
			err = failpoint.Hit(failpoint.F9)
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
