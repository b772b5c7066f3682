package experiments

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
)

// runLittle sends clicks to a shop that needs 20 or 40 ms of Postgres for each, and measures three figures apart: how
// many clicks come in a second (λ), how long each stays (W), and how many are inside at one time (L). Little's law says
// L = λW, of any system that is neither filled nor emptied for good: whatever the order, the number of connections, or
// the pattern of arrivals.
//
// λ is the number of clicks divided by the time, W the mean of what each click measured for itself. L is read by an
// observer that looks once a millisecond how many are inside. So the law could fail here: none of the three is made
// from the others.
//
// The law says how many connections a pool needs: λ times the time for which each is used. 400 clicks a second of 40 ms
// keep 16 busy. The last row has 8: they serve 200 a second, so clicks wait, and W grows until the rush is over. The
// law holds there too. It does not say that the shop is well, only what it costs to be slow.
//
// The figures are per_second: λ; stay_ms: W; law: λW, what should be inside; inside: L, what the observer saw; conns:
// connections.
func runLittle(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, ``, littleConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	stay := func(every, work time.Duration, conns int) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return stayInShop(ctx, w, seed, every, work, conns) }
	}
	return tryAll(ctx, []variant{
		{"200 clicks a second, 20 ms each", paced(stay(5*time.Millisecond, 20*time.Millisecond, littleConns))},
		{"400 clicks a second, 20 ms each", paced(stay(2500*time.Microsecond, 20*time.Millisecond, littleConns))},
		{"400 clicks a second, 40 ms each", paced(stay(2500*time.Microsecond, 40*time.Millisecond, littleConns))},
		{"the same with 8 connections", paced(stay(2500*time.Microsecond, 40*time.Millisecond, 8))},
	})
}

const (
	littleConns = 26
	littleTime  = 400 * time.Millisecond // in which clicks come
)

// stayInShop sends a click every so often, on average, and measures until the last one has left. A click holds one of
// conns connections while Postgres works. It is right if clicks wait for a connection less than they are served, on
// average.
func stayInShop(ctx context.Context, w workspace, seed uint64, every, work time.Duration, conns int) (Finding, error) {
	draw := rand.New(rand.NewPCG(seed, 24))
	pool := make(chan struct{}, conns)
	var inside, clicks atomic.Int64
	var mu sync.Mutex
	var stayed, full time.Duration // full: clicks inside, times the time for which they were
	began := time.Now()
	figures := func() map[string]float64 {
		mu.Lock()
		defer mu.Unlock()
		seconds, n := time.Since(began).Seconds(), float64(max(1, clicks.Load()))
		return map[string]float64{"conns": float64(conns), "per_second": lab.Round(n/seconds, 0),
			"stay_ms": inMS(stayed / time.Duration(n)),
			"law":     lab.Round(stayed.Seconds()/seconds, 1), "inside": lab.Round(full.Seconds()/seconds, 1)}
	}
	show(ctx, figures)
	over := make(chan struct{})
	var observer sync.WaitGroup
	observer.Go(func() {
		for last := began; ; {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			now := time.Now()
			mu.Lock()
			//lab:here
			full += time.Duration(inside.Load()) * now.Sub(last)
			//lab:end
			mu.Unlock()
			last = now
		}
	})
	var all errgroup.Group
	for at := time.Duration(0); at < littleTime && ctx.Err() == nil; at += time.Duration(
		draw.ExpFloat64() * float64(every)) {
		lab.Pause(ctx, at-time.Since(began))
		all.Go(func() error {
			//lab:here
			came := time.Now()
			inside.Add(1)
			pool <- struct{}{}
			_, err := w.db.Exec(ctx, `select pg_sleep($1)`, work.Seconds())
			<-pool
			inside.Add(-1)
			clicks.Add(1)
			//lab:end
			mu.Lock()
			stayed += time.Since(came)
			mu.Unlock()
			return err
		})
	}
	err := errors.Join(all.Wait(), ctx.Err())
	close(over)
	observer.Wait()
	found := figures()
	off := found["inside"] / max(found["law"], 0.1)
	result := verdict(found["stay_ms"] < 2*lab.Millis(work), Slow)
	if off < 0.7 || off > 1.4 { // the law holds: the observer has looked too seldom
		result = Busy
	}
	return Finding{Verdict: result, Figures: found}, err
}
