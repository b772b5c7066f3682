// Package rebuild sets gates up from Postgres, and adds the owners that they lack: only Postgres ever refills Redis. It
// installs a gate under the lock of its sale's row, with all owners of the sale in it. So no buyer with an order is a
// stranger to a gate.
package rebuild

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	limit     = 10 * time.Second       // without progress
	page      = 10_000                 // owners that are read and written at once
	lookEvery = 100 * time.Millisecond // how often a process looks whether another one has seeded
)

// Deps has what a Rebuilder needs.
type Deps struct {
	DB     *pgxpool.Pool // for the transactions that lock a sale's row
	Gate   *gate.Gate
	Sales  *goods.Store
	Orders *order.Store
	QMax   int // the most tickets in a journal

	Log     *slog.Logger
	Fault   func(doing string, err error) // logs a fault that is tried again
	Rebuilt func()                        // counts a gate that was set up
}

// Rebuilder sets gates up from Postgres if they are missing or older than the sale's row.
type Rebuilder struct {
	Deps
	Page    int  // owners that are read and written at once
	NoLease bool // in tests: each process seeds

	locked  goods.LockedSales
	calls   singleflight.Group // under way, by what is done and sale
	running sync.RWMutex       // each holds a read lock; Close locks it for ever
	closing context.Context    // ended by end, when the process stops: none waits for its sale's turn any more
	end     context.CancelFunc
}

// New returns a Rebuilder.
func New(d Deps) *Rebuilder {
	r := &Rebuilder{Deps: d, Page: page}
	r.closing, r.end = context.WithCancel(context.Background())
	return r
}

// Slow reports whether the sale rests, because another transaction keeps its row.
func (r *Rebuilder) Slow(sale int64) bool {
	slow, _ := r.locked.Slow()
	return slices.Contains(slow, sale)
}

// Close waits for what is under way. No other begins after it, nor one that waits for its sale's turn.
func (r *Rebuilder) Close() {
	r.end()
	r.running.Lock()
}

// Rebuild rebuilds one sale's gate, or waits until another process has done so. goods.ErrLocked, maybe while the sale
// rests.
func (r *Rebuilder) Rebuild(ctx context.Context, sale int64) error {
	return r.rebuildOnce(ctx, sale, "rebuild the gate", r.awaitTurn)
}

// InTurn is Rebuild that waits for no other process: gate.ErrBusy while one seeds the owners.
func (r *Rebuilder) InTurn(ctx context.Context, sale int64) error {
	return r.rebuildOnce(ctx, sale, "rebuild the gate in turn", func(ctx progress, sale int64) (mine bool, err error) {
		if mine, err = r.Gate.BeginSeeding(ctx, sale); err == nil && !mine && !r.NoLease {
			err = gate.ErrBusy
		}
		return true, err
	})
}

func (r *Rebuilder) rebuildOnce(
	ctx context.Context, sale int64, doing string, turn func(ctx progress, sale int64) (bool, error),
) error {
	return r.once(ctx, sale, doing, func(ctx progress, wait time.Duration) error {
		err := r.rebuildNow(ctx, sale, wait, turn)
		if errors.Is(err, gate.ErrNoGate) { // Redis lost its data meanwhile
			err = r.rebuildNow(ctx, sale, wait, turn)
		}
		return err
	})
}

// progress is a context that ends limit after the last call of went.
type progress struct {
	context.Context
	timer *time.Timer
}

func (p progress) went() { p.timer.Reset(limit) }

// Once does what needs the sale's row, once for all callers that wait for it. It goes on after ctx has ended. do waits
// for the lock of the row for wait at most. goods.ErrLocked, maybe while the sale rests; ErrBusy when the process
// stops.
func (r *Rebuilder) Once(
	ctx context.Context, sale int64, doing string, do func(ctx context.Context, wait time.Duration) error,
) error {
	return r.once(ctx, sale, doing, func(ctx progress, wait time.Duration) error { return do(ctx, wait) })
}

func (r *Rebuilder) once(
	ctx context.Context, sale int64, doing string, do func(ctx progress, wait time.Duration) error,
) error {
	return r.beside(ctx, sale, doing, func(ctx progress) error {
		waiting, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(r.closing, end)()
		return r.locked.Once(waiting, sale, func(wait time.Duration) error { return do(ctx, wait) })
	})
}

// beside does what may take long, once for all callers that wait for it. It goes on after ctx has ended, while there is
// progress.
func (r *Rebuilder) beside(ctx context.Context, sale int64, doing string, do func(ctx progress) error) error {
	done := r.calls.DoChan(fmt.Sprintf("%s of sale %d", doing, sale), func() (any, error) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		limit := time.AfterFunc(limit, cancel)
		defer limit.Stop()
		if !r.running.TryRLock() {
			return nil, gate.ErrBusy
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

// rebuildNow first seeds the owners, without a lock. The tickets hash exists before the orders are read, so the Ack of
// a later order writes to it, and no owner is missed. Then it locks the row, so that no unit is taken meanwhile, and
// installs the gate unless it has come back. This is the only place that calls Redis inside a transaction: the lock is
// the point. After a try that missed the lock it is tried before the owners are read, who may be many.
func (r *Rebuilder) rebuildNow(
	ctx progress, sale int64, wait time.Duration, turn func(ctx progress, sale int64) (bool, error),
) error {
	if wait != goods.LockWait {
		err := goods.InTx(ctx, r.DB, wait, func(tx pgx.Tx) error {
			_, err := goods.Lock(ctx, tx, sale)
			return err
		})
		if err != nil {
			return err
		}
	}
	gates, err := r.Gate.States(ctx, []int64{sale})
	if err != nil {
		return err
	}
	created, err := r.Gate.CreateTickets(ctx, sale)
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
	return goods.InTx(ctx, r.DB, wait, func(tx pgx.Tx) error {
		locked, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		gates, err := r.Gate.States(ctx, []int64{sale})
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
		installed, err := r.Gate.Install(ctx, locked, epoch, r.QMax, seeded)
		if installed {
			r.Rebuilt()
			r.Log.Debug("installed a gate", "sale", sale, "epoch", epoch, "stock", locked.Stock)
			err = failpoint.Hit(failpoint.BeforeInstallCommit)
		}
		return err
	})
}

// awaitTurn takes the lease to seed the owners of a sale, or waits until another process has set its gate up: then it
// returns false. The lease only saves work: one that runs out, or is lost with all of Redis, lets two processes seed,
// which is right too.
func (r *Rebuilder) awaitTurn(ctx progress, sale int64) (mine bool, err error) {
	for mine = r.NoLease; !mine; {
		if mine, err = r.Gate.BeginSeeding(ctx, sale); mine || err != nil {
			return mine, err
		}
		select {
		case <-time.After(lookEvery):
		case <-r.closing.Done():
			return false, gate.ErrBusy
		case <-ctx.Done():
			return false, ctx.Err()
		}
		gates, err := r.Gate.States(ctx, []int64{sale})
		if err != nil || gates[sale].Epoch != 0 {
			return false, err
		}
		ctx.went()
	}
	return true, nil
}

func (r *Rebuilder) endTurn(ctx context.Context, sale int64) {
	if err := r.Gate.EndSeeding(context.WithoutCancel(ctx), sale); err != nil {
		r.Fault("seed the owners", err)
	}
}

// Reseed seeds all owners of a gate that was rolled back, and was read before, and then notes an epoch that was drawn
// before they were read, so that the other processes do not repeat it. Before that it calls resettle. gate.ErrBusy
// while another process does it. bypasses are those of the sale's row, ops those of the gate that was read.
func (r *Rebuilder) Reseed(
	ctx context.Context, sale, bypasses, ops int64, resettle func(ctx context.Context, sale int64) error,
) error {
	return r.beside(ctx, sale, "recover a gate that was rolled back", func(ctx progress) error {
		mine, err := r.Gate.BeginSeeding(ctx, sale)
		if err != nil {
			return err
		}
		if !mine && !r.NoLease {
			return gate.ErrBusy
		}
		defer r.endTurn(ctx, sale)
		if err := resettle(ctx, sale); err != nil {
			return err
		}
		epoch, err := r.Sales.DrawEpoch(ctx)
		if err != nil {
			return err
		}
		return r.seedOwners(ctx, sale, "", gate.Knows{Bypasses: bypasses, Seeded: epoch, Ops: ops})
	})
}

// SeedDirect adds those users to the gate whose order has a ticket that begins with prefix, and then notes what the
// gate knows.
func (r *Rebuilder) SeedDirect(ctx context.Context, sale int64, prefix string, knows gate.Knows) error {
	return r.beside(ctx, sale, "seed the owners that bought without the gate", func(ctx progress) error {
		return r.seedOwners(ctx, sale, prefix, knows)
	})
}

// seedOwners adds the users to the gate whose order has a ticket that begins with prefix; "" means all owners. The gate
// learns the rest with the last of them: an order that is placed meanwhile counts a bypass later, or is acknowledged.
// With knows.Ops each page shows that the one before is not lost.
func (r *Rebuilder) seedOwners(ctx progress, sale int64, prefix string, knows gate.Knows) error {
	for behind := int64(0); ; {
		owners, err := r.Orders.Owners(ctx, sale, prefix, behind, r.Page)
		if err != nil {
			return err
		}
		if r.closing.Err() != nil {
			return gate.ErrBusy
		}
		if len(owners) < r.Page {
			return r.Gate.AddOwners(ctx, sale, owners, knows)
		}
		if err := r.Gate.AddOwners(ctx, sale, owners, gate.Knows{Ops: knows.Ops}); err != nil {
			return err
		}
		if knows.Ops > 0 {
			knows.Ops++
		}
		if err := r.Gate.KeepSeeding(ctx, sale); err != nil {
			return err
		}
		ctx.went()
		behind = owners[len(owners)-1].UserID
	}
}
