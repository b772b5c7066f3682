package experiments

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runHold lets 40 buyers click again and again at a pool of four connections. Each purchase needs a price from another
// service, which takes 20 ms, and a transaction of about a millisecond.
//
// A call inside the transaction holds what the transaction holds. With the row locked, purchases of this item pass one
// by one, one in 20 ms, and three of the connections wait for the fourth. Before the write the row is free, but the
// connection is not: it is idle in transaction, and all other buyers wait for it, those of other items too. Four
// connections of 20 ms each are 200 purchases a second at most (Little's law), and Postgres does nothing meanwhile.
//
// Outside the transaction the same call holds nothing. The connection is taken for the two statements alone, and what
// the price was based on is checked in the write.
//
// The shop makes no call inside a transaction: no Redis, no HTTP, no queue. Frameworks hide this: one annotation on a
// method makes all that it calls part of the transaction.
//
// The figures are per_second: purchases a second; held_ms: for how long a purchase holds a connection, the median;
// wait_ms: for how long it waits for one, the median; p99_ms: the whole purchase.
func runHold(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table item (stock int not null); insert into item values (1000000);
		create table orders (price int not null)`, holdConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	look := func(context.Context) { lab.Pause(ctx, holdLook) }
	with := func(first, inside, locked func(context.Context)) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return holdConnections(ctx, w, first, inside, locked) }
	}
	nothing := func(context.Context) {}
	return tryAll(ctx, []variant{
		{"look up with the row locked", with(nothing, nothing, look)},
		{"look up in the transaction, before the write", with(nothing, look, nothing)},
		{"look up before the transaction", paced(with(look, nothing, nothing))},
	})
}

const (
	holdConns  = 4
	holdBuyers = 40
	holdLook   = 20 * time.Millisecond // the answer of the other service
	holdTime   = 400 * time.Millisecond
)

// holdConnections lets the buyers click for a while. first, inside and locked are the three places where a purchase may
// look up its price. It is right if a connection is held for less time than the look-up takes, and slow if it is not:
// it sells exactly in any case.
func holdConnections(ctx context.Context, w workspace, first, inside, locked func(context.Context)) (Finding, error) {
	var mu sync.Mutex
	var waited, held, took []time.Duration
	began := time.Now()
	figures := func() map[string]float64 {
		mu.Lock()
		defer mu.Unlock()
		return map[string]float64{"per_second": lab.Round(float64(len(took))/time.Since(began).Seconds(), 0),
			"held_ms": inMS(lab.Percentile(slices.Clone(held), 50)), "wait_ms": inMS(
				lab.Percentile(slices.Clone(waited), 50)), "p99_ms": inMS(lab.Percentile(slices.Clone(took), 99))}
	}
	show(ctx, figures)
	buy := func() error {
		clicked := time.Now()
		first(ctx)
		asked := time.Now()
		conn, err := w.db.Acquire(ctx)
		if err != nil {
			return err
		}
		got := time.Now()
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			//lab:here
			inside(ctx)
			if _, err := tx.Exec(ctx, `update item set stock = stock - 1 where stock > 0`); err != nil {
				return err
			}
			locked(ctx)
			_, err := tx.Exec(ctx, `insert into orders values (1)`)
			//lab:end
			return err
		})
		conn.Release()
		mu.Lock()
		defer mu.Unlock()
		waited, held, took = append(waited, got.Sub(asked)), append(held, time.Since(got)), append(took,
			time.Since(clicked))
		return err
	}
	var buyers errgroup.Group
	for range holdBuyers {
		buyers.Go(func() error {
			for time.Since(began) < holdTime && ctx.Err() == nil {
				if err := buy(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := errors.Join(buyers.Wait(), ctx.Err())
	found := figures()
	return Finding{Verdict: verdict(found["held_ms"] < lab.Millis(holdLook), Slow), Figures: found}, err
}
