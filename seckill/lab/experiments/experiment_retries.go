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

// runRetries lets the store behind a shop fail for half a second, and compares how the buyers' programs try again. A
// buyer comes every 4 ms. The shop has eight connections, each busy for 8 ms with a purchase: it could serve more than
// three times as many. A buyer's program waits for 80 ms for the reply. The shop does not notice that it has gone: the
// purchase stays in the queue and is carried out.
//
// No bound: a program that has no reply tries again at once, until it has one. In the outage the queue fills with tries
// of buyers who have already tried again. When the store is back, the shop works on them, in the order in which they
// came. Each is out of date before its turn comes, so its buyer tries once more, and the shop is busy for no one. The
// outage is over and the storm is not: it feeds itself.
//
// Backoff and jitter: each wait is twice as long as the one before, and random, and there are five tries at most. So
// the tries no longer come together. But they are not fewer: while replies are late, each new buyer brings five tries,
// which is more than the shop can serve. In a crowd of new buyers, backoff moves the load to later and does not take it
// away.
//
// A retry budget: all programs (or the balancer before the shop) share a purse. A first try puts a tenth of a coin in,
// a retry takes one out. So retries are at most a tenth of the load, however many fail. Without a coin the buyer is
// told to come back later. The queue that the outage has left is a queue of first tries.
//
// Goodput is what counts: replies to buyers who still wait for them, not purchases carried out. The figures are asked:
// buyers; tries; good: buyers who had a reply in time; wasted: purchases that the shop carried out for a program that
// had gone; end_good: the share of good replies among the buyers who came in the last 160 ms, in percent.
func runRetries(ctx context.Context, s lab.Stores, seed uint64) (rows []Finding, err error) {
	w, err := openWorkspace(ctx, s, `create table orders (user_id int primary key)`, stormConns)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	draw := rand.New(rand.NewPCG(seed, 23))
	var mu sync.Mutex
	var purse float64
	jittered := func(tries int) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(draw.Int64N(int64(stormBackoff << tries)))
	}
	beside := func(again func(tries int) (after time.Duration, ok bool)) func(context.Context) (Finding, error) {
		return func(ctx context.Context) (Finding, error) { return retryInOutage(ctx, w, again) }
	}
	return tryAll(ctx, []variant{
		//lab:here
		{"retry at once, without a bound", paced(beside(func(int) (time.Duration, bool) { return 0, true }))},
		{"backoff and jitter, five tries", paced(beside(
			func(tries int) (time.Duration, bool) { return jittered(tries), tries < 5 }))},
		{"backoff, jitter and a retry budget", paced(beside(func(tries int) (time.Duration, bool) {
			after := jittered(tries)
			mu.Lock()
			defer mu.Unlock()
			if tries == 0 {
				purse += 0.1
				return 0, true
			}
			if purse < 1 {
				return 0, false
			}
			purse--
			return after, true
		}))},
		//lab:end
	})
}

const (
	stormConns = 8
	stormWork  = 8 * time.Millisecond
	// that a purchase may take, on average: beyond it, the shop is not the one described
	stormMost     = 12 * time.Millisecond
	stormPause    = 4 * time.Millisecond    // from one buyer to the next
	stormPatience = 80 * time.Millisecond   // a program waits this long for a reply
	stormBackoff  = 50 * time.Millisecond   // the first wait is this long on average
	stormDown     = 50 * time.Millisecond   // the outage begins
	stormUp       = 550 * time.Millisecond  // and ends
	stormEnd      = 1000 * time.Millisecond // the last buyer comes
	stormLast     = 160 * time.Millisecond  // the last buyers are those who come in this time before it
	stormSlice    = 50 * time.Millisecond   // of the drawing
)

// stormTry is one request of a buyer's program. done is closed when it was carried out.
type stormTry struct {
	user int
	gone atomic.Bool // the program no longer waits
	done chan struct{}
}

// storm counts what happens to the tries of one variant.
type storm struct {
	began         time.Time
	queue         chan *stormTry
	tries, wasted atomic.Int64
	done, worked  atomic.Int64 // purchases, and the nanoseconds that they took

	mu         sync.Mutex
	sent, good []time.Duration // since it began
	late       int             // good replies to the last buyers
}

// retryInOutage sends the buyers and lets the store be away in the middle. again returns after which pause a program
// tries again that had no reply to so many tries, and whether it does. Before the first try it is called with 0.
func retryInOutage(
	ctx context.Context, w workspace, again func(tries int) (time.Duration, bool),
) (row Finding, err error) {
	if _, err := w.db.Exec(ctx, `truncate orders`); err != nil {
		return row, err
	}
	t := &storm{began: time.Now(), queue: make(chan *stormTry, 1_000_000)}
	show(ctx, func() map[string]float64 { return t.finding().Figures })
	running, stop := context.WithCancel(ctx)
	defer stop()
	var workers errgroup.Group
	for range stormConns {
		workers.Go(func() error { return t.work(ctx, running.Done(), w) })
	}
	var buyers sync.WaitGroup
	for came := time.Duration(0); came < stormEnd && ctx.Err() == nil; came += stormPause {
		lab.Pause(ctx, came-time.Since(t.began))
		user := int(came / stormPause)
		buyers.Go(func() { t.buy(running, user, again) })
	}
	lab.Pause(ctx, stormPatience)
	stop() // the buyers who still try have no reply
	buyers.Wait()
	return t.finding(), errors.Join(workers.Wait(), ctx.Err())
}

// buy is the program of one buyer.
func (t *storm) buy(ctx context.Context, user int, again func(tries int) (time.Duration, bool)) {
	again(0)
	for tries := 1; ctx.Err() == nil; tries++ {
		p := &stormTry{user: user, done: make(chan struct{})}
		t.mu.Lock()
		t.sent = append(t.sent, time.Since(t.began))
		t.mu.Unlock()
		t.tries.Add(1)
		t.queue <- p
		select {
		case <-p.done:
			t.mu.Lock()
			t.good = append(t.good, time.Since(t.began))
			if time.Duration(user)*stormPause >= stormEnd-stormLast {
				t.late++
			}
			t.mu.Unlock()
			return
		case <-time.After(stormPatience):
			p.gone.Store(true)
		case <-ctx.Done():
			return
		}
		after, ok := again(tries)
		if !ok {
			return
		}
		lab.Pause(ctx, after)
	}
}

// work carries out tries, one after the other, on one connection. While the store is away it waits. It ends
// when over is closed.
func (t *storm) work(ctx context.Context, over <-chan struct{}, w workspace) error {
	for {
		select {
		case <-over:
			return nil
		case p := <-t.queue:
			if now := time.Since(t.began); now >= stormDown && now < stormUp {
				lab.Pause(ctx, stormUp-now)
			}
			took := time.Now()
			//lab:here
			// a second try finds the order
			_, err := w.db.Exec(ctx, `insert into orders values ($1) on conflict do nothing`, p.user)
			lab.Pause(ctx, stormWork)
			if err != nil {
				return err
			}
			if p.gone.Load() {
				t.wasted.Add(1)
			}
			close(p.done)
			//lab:end
			t.done.Add(1)
			t.worked.Add(int64(time.Since(took)))
		}
	}
}

func (t *storm) finding() Finding {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := float64(stormLast / stormPause)
	share := lab.Round(100*float64(t.late)/last, 0)
	result := verdict(share >= 50, Slow)
	if share < 50 && time.Duration(t.worked.Load()) > time.Duration(t.done.Load())*stormMost {
		result = Busy
	}
	return Finding{Verdict: result, Figures: map[string]float64{"asked": float64(
		min(time.Since(t.began), stormEnd) / stormPause),
		"tries": float64(t.tries.Load()), "good": float64(len(t.good)), "wasted": float64(t.wasted.Load()),
		"end_good": share},
		Span: &Span{"outage", lab.Millis(stormDown), lab.Millis(stormUp)}, Series: []Series{{"tries_s",
			perSecond(t.sent, stormEnd, stormSlice)}, {"good_s", perSecond(t.good, stormEnd, stormSlice)}}}
}

// perSecond returns the rate of events in each slice of the time from 0 to end.
func perSecond(events []time.Duration, end, slice time.Duration) (points [][2]float64) {
	for from := time.Duration(0); from < end; from += slice {
		points = append(points, [2]float64{lab.Millis(from), 0})
	}
	for _, at := range events {
		points[min(at, end-1)/slice][1] += lab.Round(1/slice.Seconds(), 3)
	}
	return points
}
