package order

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/seckill/failpoint"
)

const (
	expireBatch = 500              // orders in one transaction
	sweepEvery  = time.Second      // on average
	sweepLimit  = 10 * time.Second // for one round of a sweeper
)

// Cancel ends a pending order at its owner's wish and puts the unit back on sale. ErrNotFound, ErrWrongStatus.
func (s *Store) Cancel(ctx context.Context, userID int64, id uuid.UUID) error {
	o, err := s.ByID(ctx, userID, id)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, o.SaleID); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			update orders set status = 'cancelled'
			where  id = $1 and user_id = $2 and status = 'pending'`, id, userID)
		if err != nil {
			return fmt.Errorf("cancel order %s: %w", id, err)
		}
		if tag.RowsAffected() != 1 {
			return ErrWrongStatus
		}
		return goods.GiveBack(ctx, tx, o.SaleID, 1)
	})
}

// Expire cancels the pending orders whose time to pay is over, by the database's clock, and puts their units back on
// sale: in transactions of at most 500 orders of one sale. It gives how many. Any number of processes may run it: each
// order is cancelled once. A sale that fails is passed over and told of at the end, so that it holds up no other.
func (s *Store) Expire(ctx context.Context) (total int, err error) {
	rows, err := s.db.Query(ctx, `
		select distinct sale_id
		from   orders
		where  status = 'pending' and expires_at <= clock_timestamp()
		limit  100`)
	var sales []int64
	if err == nil {
		sales, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return 0, fmt.Errorf("look for overdue orders: %w", err)
	}
	var faults []error
	for _, sale := range sales {
		for n := expireBatch; n == expireBatch && ctx.Err() == nil; {
			var err error
			if n, err = s.expireOf(ctx, sale); err != nil {
				faults = append(faults, err)
			}
			total += n
		}
	}
	return total, errors.Join(faults...)
}

func (s *Store) expireOf(ctx context.Context, sale int64) (n int, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, sale); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			update orders set status = 'cancelled'
			where  status = 'pending' and id in (
			       select id
			       from   orders
			       where  sale_id = $1 and status = 'pending' and expires_at <= clock_timestamp()
			       order  by expires_at
			       limit  $2)`, sale, expireBatch)
		if err != nil {
			return fmt.Errorf("expire orders of sale %d: %w", sale, err)
		}
		if n = int(tag.RowsAffected()); n == 0 {
			return nil
		}
		return goods.GiveBack(ctx, tx, sale, n)
	})
	if err != nil {
		return 0, err
	}
	return n, failpoint.Hit(failpoint.F7)
}

// Sweep expires orders and drains refunds, each once a second, until ctx ends: a provider that is slow to take money back
// holds up no unit. A fault is told to report and tried again: what is overdue stays overdue. Without refund, what is due
// back stays due: somebody has to give it back by hand.
func (s *Store) Sweep(ctx context.Context, refund func(context.Context, Payment) error, report func(error)) error {
	var g errgroup.Group
	g.Go(func() error { return sweep(ctx, report, s.Expire) })
	if refund != nil {
		g.Go(func() error {
			return sweep(ctx, report, func(ctx context.Context) (int, error) { return s.DrainRefunds(ctx, refund) })
		})
	}
	return g.Wait()
}

func sweep(ctx context.Context, report func(error), round func(context.Context) (int, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepEvery*3/4 + rand.N(sweepEvery/2)): // so that of several processes not always the same does all
		}
		limited, cancel := context.WithTimeout(ctx, sweepLimit)
		if _, err := round(limited); err != nil && ctx.Err() == nil {
			report(err)
		}
		cancel()
	}
}
