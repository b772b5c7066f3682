package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runHot sells one hot item, at which 100 buyers click again 5 ms after each reply, and beside it 50 cold items
// with one buyer each. All purchases share eight connections to Postgres.
//
// In one queue, a buyer of a cold item waits behind the whole crowd, although the row is free: the
// connections are all waiting for the row of the hot item. If that queue has a bound, the crowd keeps it full,
// and the buyer is refused.
//
// A lane for each item, as in the shop, has a bounded room of its own and uses one connection at a time. That costs
// the hot item little: the row lock lets its purchases through one by one in any case. Nothing has to find out which
// item is hot. The crowd beyond the hot item's room is refused, and no other buyer notices.
//
// The figures are cold: clicks on cold items; cold_refused: those that were refused; behind: hot purchases while a
// cold click waits, the median; cold_p99_ms, hot_p99_ms: the time that 99 in 100 of the served clicks waited at most;
// hot_per_s: hot purchases a second.
func runHot(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table item as select id, 0 as sold from generate_series(0, 50) id;
		alter table item add primary key (id)`, hotConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	//lab:here
	together := func(room int) []queue { return slices.Repeat([]queue{newQueue(room, hotConns)}, 1+coldItems) }
	var apart []queue
	for range 1 + coldItems {
		apart = append(apart, newQueue(hotRoom, 1))
	}
	//lab:end
	beside := func(queues []queue) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return sellBesideHot(ctx, w, seed, queues) }
	}
	return tryAll(ctx, []variant{
		{"one queue without a bound", beside(together(hotCrowd + coldItems))}, // room for all buyers
		{"one queue with a bound", beside(together(hotRoom))},
		{"a lane for each item", paced(beside(apart))},
	})
}

const (
	hotConns   = 8
	hotCrowd   = 100
	hotRoom    = 32                     // clicks in a bounded queue, those at work included
	hotWork    = time.Millisecond       // price, address and coupons, within the transaction
	hotBehind  = 10                     // hot purchases that a cold click may wait for
	coldItems  = 50                     // ids 1 to 50; the hot item is 0
	coldClicks = 2                      // on each
	coldPause  = 100 * time.Millisecond // before a cold click, at most
)

// queue lets clicks wait for their turn at Postgres, in the order in which they came.
type queue struct{ room, turns chan struct{} }

// newQueue returns a queue of at most room clicks, turns of which are at work.
func newQueue(room, turns int) queue {
	return queue{make(chan struct{}, room), make(chan struct{}, turns)}
}

// wait runs work when it is its turn. It reports false at once if the queue is full.
func (q queue) wait(work func() error) (served bool, err error) {
	//lab:here
	select {
	case q.room <- struct{}{}:
	default:
		return false, nil
	}
	defer func() { <-q.room }()
	q.turns <- struct{}{}
	defer func() { <-q.turns }()
	//lab:end
	return true, work()
}

// sellBesideHot lets the crowd click until each cold buyer has clicked twice. queues has the queue of each item.
func sellBesideHot(ctx context.Context, w workspace, seed uint64, queues []queue) (Finding, error) {
	buy := func(item int) (served bool, err error) {
		return queues[item].wait(func() error {
			return pgx.BeginFunc(ctx, w.db, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `update item set sold = sold + 1 where id = $1`, item)
				lab.Pause(ctx, hotWork) // with the row locked
				return err
			})
		})
	}
	var mu sync.Mutex
	var hotTook, coldTook []time.Duration
	var behind []int64
	var hotSold atomic.Int64
	var over atomic.Bool
	var crowd, others errgroup.Group
	began := time.Now()
	for range hotCrowd {
		crowd.Go(func() error {
			for !over.Load() && ctx.Err() == nil {
				clicked := time.Now()
				served, err := buy(0)
				if err != nil {
					return err
				}
				if served {
					hotSold.Add(1)
					mu.Lock()
					hotTook = append(hotTook, time.Since(clicked))
					mu.Unlock()
				}
				lab.Pause(ctx, lab.RetryPause)
			}
			return nil
		})
	}
	refused := 0
	show(ctx, func() map[string]float64 {
		mu.Lock()
		defer mu.Unlock()
		return map[string]float64{"cold": coldItems * coldClicks, "cold_refused": float64(refused),
			"behind": float64(lab.Percentile(behind, 50))}
	})
	draw := rand.New(rand.NewPCG(seed, 22))
	for item := 1; item <= coldItems; item++ {
		var pauses [coldClicks]time.Duration
		for i := range pauses {
			pauses[i] = time.Duration(draw.Int64N(int64(coldPause)))
		}
		others.Go(func() error {
			for _, before := range pauses {
				lab.Pause(ctx, before)
				clicked, sold := time.Now(), hotSold.Load()
				served, err := buy(item)
				if err != nil {
					return err
				}
				mu.Lock()
				if served {
					coldTook, behind = append(coldTook, time.Since(clicked)), append(behind, hotSold.Load()-sold)
				} else {
					refused++
				}
				mu.Unlock()
			}
			return nil
		})
	}
	err := others.Wait()
	over.Store(true)
	if err = errors.Join(err, crowd.Wait(), ctx.Err()); err != nil {
		return Finding{}, err
	}
	median := lab.Percentile(behind, 50)
	result := verdict(median <= hotBehind, Slow)
	if refused > 0 { // a buyer who would have had a unit
		result = Wrong
	}
	return Finding{Verdict: result, sure: refused > 0, Figures: map[string]float64{
		"cold": coldItems * coldClicks, "cold_refused": float64(refused), "behind": float64(median),
		"cold_p99_ms": float64(lab.Percentile(coldTook, 99).Milliseconds()),
		"hot_p99_ms":  float64(lab.Percentile(hotTook, 99).Milliseconds()),
		"hot_per_s":   lab.Round(float64(len(hotTook))/time.Since(began).Seconds(), 0)}}, nil
}
