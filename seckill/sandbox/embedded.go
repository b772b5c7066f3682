package sandbox

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// runEmbedded starts a Redis inside this process, on a free port of 127.0.0.1. It returns the URL
// and a function that stops the Redis. A goroutine advances its clock every second so that keys
// expire: the clock does not move on its own.
func runEmbedded(password string) (at string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	m.RequireAuth(password)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var clock sync.WaitGroup
	clock.Go(func() { advanceClock(ctx, m.FastForward) })
	return redisURL(m.Addr(), password), func() {
		cancel()
		clock.Wait()
		m.Close()
	}, nil
}

// advanceClock calls forward once a second with the time that has passed, until ctx ends.
func advanceClock(ctx context.Context, forward func(time.Duration)) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			forward(now.Sub(last))
			last = now
		}
	}
}
