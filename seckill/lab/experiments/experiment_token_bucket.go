package experiments

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"miaosha/seckill/lab"
)

const (
	bucketCrowd  = 1500
	bucketArrive = 100 * time.Millisecond // in which the crowd comes
	bucketRate   = 1000                   // tokens a second
	bucketBurst  = 100
	bucketBound  = 100 * time.Millisecond // that a request waits at most, if the wait is bounded
	// bytes that a waiting HTTP request keeps in a Go server: connection, buffers and stack
	bucketForm = 20 << 10
)

// crowdAtBucket sends 1,500 requests within a tenth of a second to one token bucket. wait is how long a request
// waits for its token at most: a request whose token would come later is refused at once.
//
// A request that waits is kept, with its body and its connection. So a bucket that makes all wait (acquire of Guava's
// RateLimiter) is a queue without a bound: it refuses no one, and the last one waits for more than a second. A bucket
// for which none waits (tryAcquire) keeps nothing. The shop takes the third way, tryAcquire with a timeout: its queues
// have a bound, and a request beyond it hears so at once.
//
// The figures are asked: requests; served, refused; kept: requests that waited at one time; kb: about what they keep in
// a server; p99_ms: the time until the answer, of 99 in 100 requests.
func crowdAtBucket(ctx context.Context, seed uint64, wait time.Duration) (Finding, error) {
	bucket, draw := rate.NewLimiter(bucketRate, bucketBurst), rand.New(rand.NewPCG(seed, 21))
	var mu sync.Mutex
	var took []time.Duration
	kept, most, refused := 0, 0, 0
	show(ctx, func() map[string]float64 {
		mu.Lock()
		defer mu.Unlock()
		return map[string]float64{"asked": bucketCrowd, "served": float64(len(took)), "refused": float64(refused),
			"kept": float64(most)}
	})
	began := time.Now()
	var all errgroup.Group
	for range bucketCrowd {
		at := time.Duration(draw.Int64N(int64(bucketArrive)))
		all.Go(func() error {
			lab.Pause(ctx, time.Until(began.Add(at)))
			mu.Lock()
			defer mu.Unlock()
			arrived := time.Now()
			token := bucket.ReserveN(arrived, 1)
			//lab:here
			switch delay := token.DelayFrom(arrived); {
			case delay > wait:
				token.CancelAt(arrived)
				refused++
			case delay > 0:
				kept++
				most = max(most, kept)
				mu.Unlock()
				lab.Pause(ctx, delay)
				mu.Lock()
				kept--
			}
			//lab:end
			took = append(took, time.Since(arrived))
			return ctx.Err()
		})
	}
	if err := all.Wait(); err != nil {
		return Finding{}, fmt.Errorf("the crowd at the bucket: %w", err)
	}
	p99 := lab.Percentile(took, 99)
	return Finding{Verdict: verdict(most <= bucketCrowd/3 && p99 < time.Second, Unbounded),
		Figures: map[string]float64{"asked": bucketCrowd,
			"served": float64(bucketCrowd - refused), "refused": float64(refused), "kept": float64(most),
			"kb": float64(most * bucketForm / 1024), "p99_ms": float64(p99.Milliseconds())}}, nil
}
