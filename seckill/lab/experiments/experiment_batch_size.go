package experiments

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runBatchSize sells units of one row for a quarter of a second: with transactions of 1, 8, 64 and 512 orders, on eight
// connections.
//
// A row is changed by one transaction at a time, and what it costs is the turn: the lock goes from one transaction to
// the next, and each holds it until its commit is on disk. That is a fixed time, whether the transaction sells one unit
// or 512. More connections do not help, since they wait for the same row.
//
// So a batch shares one turn. But each order still has a price of its own, its row and its entry in the index, and with
// growing batches that is what remains: the first step gains most. The price of a large batch is the wait: an order is
// there when its whole batch is, and an error in the batch (a poisoned order) is an error of all of it.
//
// The shop does not wait until a batch is full. It takes what has come while the last batch was at work, up to a bound:
// a lone buyer is a batch of one, and a crowd makes batches large by itself.
//
// The figures are orders; per_second: orders per second; turns: transactions per second; p99_ms: the time that 99 in
// 100 transactions took at most.
func runBatchSize(ctx context.Context, s lab.Stores, _ uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table item (stock int not null);
		create table orders (user_id int primary key)`, batchConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	var variants []variant
	for _, size := range []int{1, 8, 64, 512} {
		name := fmt.Sprintf("%d orders in a transaction", size)
		if size == 1 {
			name = "1 order in a transaction"
		}
		variants = append(variants, variant{name, paced(
			func(ctx context.Context) (Finding, error) { return sellBatches(ctx, w, size) })})
	}
	return tryAll(ctx, variants)
}

const (
	batchConns = 8
	batchTime  = 250 * time.Millisecond
	batchStock = 1_000_000_000 // more than any machine sells
)

// sellBatches sells with transactions of size orders. It is right if the row and the orders agree in the end.
func sellBatches(ctx context.Context, w workspace, size int) (Finding, error) {
	if _, err := w.db.Exec(ctx, `truncate orders, item`); err != nil {
		return Finding{}, err
	}
	if _, err := w.db.Exec(ctx, `insert into item values ($1)`, batchStock); err != nil {
		return Finding{}, err
	}
	var mu sync.Mutex
	var took []time.Duration
	var next, sold atomic.Int64
	began := time.Now()
	show(ctx, func() map[string]float64 {
		return map[string]float64{"orders": float64(sold.Load()),
			"per_second": lab.Round(float64(sold.Load())/time.Since(began).Seconds(), 0)}
	})
	var workers errgroup.Group
	for range batchConns {
		workers.Go(func() error {
			for time.Since(began) < batchTime && ctx.Err() == nil {
				last, sent := next.Add(int64(size)), time.Now()
				err := pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
					//lab:here
					_, err := tx.Exec(ctx, `insert into orders select generate_series($1::int, $2::int)`, last-int64(size)+1, last)
					if err != nil {
						return err
					}
					_, err = tx.Exec(ctx, `update item set stock = stock - $1 where stock >= $1`, size)
					//lab:end
					return err
				})
				if err != nil {
					return err
				}
				sold.Add(int64(size))
				mu.Lock()
				took = append(took, time.Since(sent))
				mu.Unlock()
			}
			return nil
		})
	}
	err := errors.Join(workers.Wait(), ctx.Err())
	seconds := time.Since(began).Seconds()
	var orders, stock int64
	if err == nil {
		err = w.db.QueryRow(ctx, `select (select count(*) from orders), stock from item`).Scan(&orders, &stock)
	}
	exact := orders == sold.Load() && orders == batchStock-stock
	return Finding{Verdict: verdict(exact, Wrong), sure: !exact, Figures: map[string]float64{"orders": float64(orders),
		"per_second": lab.Round(float64(orders)/seconds, 0), "turns": lab.Round(float64(len(took))/seconds, 0),
		"p99_ms": inMS(lab.Percentile(took, 99))}}, err
}
