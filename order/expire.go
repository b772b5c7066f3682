package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/seckill/failpoint"
	"miaosha/seckill/rounds"
)

const (
	expireBatch = 500              // orders in one transaction
	sweepEvery  = time.Second      // on average
	sweepLimit  = 10 * time.Second // for one round
	sweepMisses = 4                // sales in one round that are still locked
)

// Cancel cancels a user's pending order and puts the unit on sale. ErrNotFound,
// ErrWrongStatus, goods.ErrLocked.
//
// It looks at the status first: an order that is not pending never is again, so the look spares its
// sale's row the lock. The update decides.
func (s *Store) Cancel(ctx context.Context, userID int64, id uuid.UUID) error {
	o, err := s.ByID(ctx, userID, id)
	if err != nil {
		return err
	}
	if o.Status != Pending {
		return ErrWrongStatus
	}
	_, err = s.giveBack(ctx, s.locked.InTx, o.SaleID, fmt.Sprint("cancel order ", id), `
		update orders set status = 'cancelled'
		where  id = $1 and user_id = $2 and status || '' = 'pending'`, id, userID)
	return err
}

// inTx tries a transaction that locks a sale's row.
type inTx func(ctx context.Context, db goods.DB, sale int64, do func(pgx.Tx) error) error

// giveBack ends orders of a sale by one statement, and puts their units back on sale, in one transaction: it locks the
// sale's row, and then those of the orders. It returns the number of the orders, whose statuses the statement checks:
// ErrWrongStatus if it changes none. goods.ErrLocked. A fault is of what it was doing.
func (s *Store) giveBack(ctx context.Context, try inTx, sale int64, doing, end string, args ...any) (n int, err error) {
	err = try(ctx, s.db, sale, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, sale); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, end, args...)
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		if n = int(tag.RowsAffected()); n == 0 {
			return ErrWrongStatus
		}
		return goods.GiveBack(ctx, tx, sale, n)
	})
	if err != nil {
		return 0, err
	}
	s.unitsReturned(sale)
	return n, nil
}

// Expire cancels the pending orders whose payment deadline has passed, by the database's clock, puts their
// units back on sale, and returns their number. A transaction takes at most 500 orders of one sale.
// Any number of processes may run it: each order is cancelled once. A sale that fails does not stop
// the others; its error is returned at the end. One whose row is locked is left for a later round,
// and comes after the others in it; one that stays locked is an error once.
func (s *Store) Expire(ctx context.Context) (total int, err error) {
	slow, resting := s.expired.Slow()
	sales, err := s.overdueSales(ctx, resting)
	if err != nil {
		return 0, err
	}
	slices.SortStableFunc(sales, func(a, b int64) int {
		return cmp.Compare(slices.Index(slow, a), slices.Index(slow, b))
	})
	var faults []error
	for missed := 0; len(sales) > 0 && missed < sweepMisses; sales = sales[1:] {
		for n := expireBatch; n == expireBatch && ctx.Err() == nil; {
			n, err = s.expireSale(ctx, sales[0])
			switch {
			case !errors.Is(err, goods.ErrLocked):
				s.saidLocked.Delete(sales[0])
				faults = append(faults, err)
			case slices.Contains(slow, sales[0]):
				missed++
				if errors.Is(err, goods.ErrSaleLocked) { // it was tried
					if _, said := s.saidLocked.LoadOrStore(sales[0], true); !said {
						faults = append(faults, err)
					}
				}
			}
			total += n
		}
	}
	return total, errors.Join(faults...)
}

// overdueSales lists the sales that have overdue orders, but not those in except: at most 100, those first whose orders
// have waited longest. It goes through the index of pending orders from one sale to the next, and looks at the first to
// end of each: however many orders there are, paid or pending, it reads one of each sale.
func (s *Store) overdueSales(ctx context.Context, except []int64) ([]int64, error) {
	rows, _ := s.db.Query(ctx, `
		with recursive first as (
		     (select sale_id, expires_at from orders where status = 'pending' order by sale_id, expires_at limit 1)
		     union all
		     select following.*
		     from   first cross join lateral (
		            select sale_id, expires_at
		            from   orders
		            where  status = 'pending' and sale_id > first.sale_id
		            order  by sale_id, expires_at
		            limit  1) following
		)
		select sale_id
		from   first
		where  expires_at <= statement_timestamp() and sale_id <> all($1)
		order  by expires_at
		limit  100`, except)
	sales, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("list the sales with overdue orders: %w", err)
	}
	return sales, nil
}

// expireSale expires orders of one sale. It leaves an order whose row is locked: a payment may be under way.
func (s *Store) expireSale(ctx context.Context, sale int64) (n int, err error) {
	// The array is read once, and the text of the status keeps the planner from the index of pending orders: while its
	// statistics are from before a rush, it takes that for empty, and would read all pending orders, and the list
	// once for each.
	n, err = s.giveBack(ctx, s.expired.OnceInTx, sale, fmt.Sprint("expire orders of sale ", sale), `
		update orders set status = 'cancelled'
		where  status || '' = 'pending' and id = any (array(
		       select id
		       from   orders
		       where  sale_id = $1 and status = 'pending' and expires_at <= statement_timestamp()
		       order  by expires_at
		       limit  $2
		       for    no key update skip locked))`, sale, expireBatch)
	if err != nil && !errors.Is(err, ErrWrongStatus) { // it is, if others were faster
		return 0, err
	}
	return n, failpoint.Hit(failpoint.AfterExpire)
}

// Sweep expires orders until ctx ends, and asks each provider about the payments whose notice is missing
// and for the refunds that are due, about once a second. All run side by side, so a slow provider delays
// no unit and no other provider. A fault is reported and the next round tries again.
func (s *Store) Sweep(ctx context.Context, providers []Provider, report func(error)) error {
	var g errgroup.Group
	g.Go(func() error { return sweep(ctx, &s.expiring, report, s.Expire) })
	for _, p := range providers {
		g.Go(func() error {
			return sweep(ctx, &s.asking, report, func(ctx context.Context) (int, error) { return s.AskOpen(ctx, p) })
		})
		g.Go(func() error {
			return sweep(ctx, &s.refunding, report,
				func(ctx context.Context) (int, error) { return s.DrainRefunds(ctx, p) })
		})
	}
	return g.Wait()
}

func sweep(
	ctx context.Context, counts *sweepCounts, report func(error), round func(context.Context) (int, error),
) error {
	// The pause is random, so several processes share the work, and those that start together do not begin together.
	pause := func(time.Duration) time.Duration { return sweepEvery*3/4 + rand.N(sweepEvery/2) }
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(pause(0)):
	}
	rounds.New().Run(ctx, sweepLimit, pause, func(limited context.Context) {
		n, err := round(limited)
		counts.done.Add(int64(n))
		if err != nil && ctx.Err() == nil {
			counts.faults.Add(1)
			report(err)
		}
	})
	return nil
}
