package seckill

import (
	"context"
	"time"
)

// roundLimit is the time limit of one round of a background loop: a store that hangs ends the round, not the loop.
const roundLimit = 5 * time.Second

// earlyGap is the time by which an early call is late, so that many in a row do not keep the stores busy.
const earlyGap = 5 * time.Millisecond

// every calls f at once and then once every d, or when early receives, until ctx ends. f logs its own faults; the next call
// tries again.
func every(ctx context.Context, d time.Duration, early <-chan struct{}, f func(context.Context)) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		round, cancel := context.WithTimeout(ctx, roundLimit)
		f(round)
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-early:
			time.Sleep(earlyGap)
		}
	}
}
