package seckill

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/failpoint"
)

// settleLimit is the time one settle transaction has.
const settleLimit = 1500 * time.Millisecond

// settle decides a batch of tickets of one sale in one transaction: take the sale's row, place what can be placed, and
// give each ticket its stored result. After an error nothing is decided, or everything is and the answer was lost: the
// same batch again finds out which.
//
// A gated ticket was granted inside the window, so the state and the window are not asked again, but a closed sale
// places nothing. Without a gate they are asked here, under the row's lock, by the database's clock: goods' refusals.
func (e *Engine) settle(ctx context.Context, sale int64, tickets []order.Ticket, gated bool) (results []order.Result, err error) {
	if e.cfg.SettlePause > 0 {
		select {
		case <-time.After(e.cfg.SettlePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := failpoint.Hit(failpoint.F3); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		l, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		if !gated {
			if err := l.Window(); err != nil {
				return err
			}
		}
		if results, err = e.orders.Place(ctx, tx, l, tickets); err != nil {
			return err
		}
		return failpoint.Hit(failpoint.F4)
	})
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		e.metrics.settled.WithLabelValues(r.Outcome).Inc()
	}
	return results, nil
}

// reject gives tickets that Postgres refuses the result invalid.
func (e *Engine) reject(ctx context.Context, sale int64, tickets []order.Ticket) (results []order.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err = pgx.BeginFunc(ctx, e.db, func(tx pgx.Tx) error {
		// The lock keeps out another owner who places the same tickets.
		if _, err := goods.Lock(ctx, tx, sale); err != nil && !errors.Is(err, goods.ErrNoSale) {
			return err
		}
		results, err = e.orders.Reject(ctx, tx, sale, tickets)
		return err
	})
	return results, err
}

// isPoison tells errors that the tickets themselves cause, however often they are tried: data that Postgres refuses
// (SQLSTATE classes 22 and 23), or a sale that isn't there.
func isPoison(err error) bool {
	pg := new(pgconn.PgError)
	return errors.Is(err, goods.ErrNoSale) || errors.As(err, &pg) && len(pg.Code) == 5 && (pg.Code[:2] == "22" || pg.Code[:2] == "23")
}

// isSlow tells that a transaction did not end in its time.
func isSlow(err error) bool {
	pg := new(pgconn.PgError)
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &pg) && pg.Code == "57014"
}
