package sandbox

import (
	"context"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// runEmbedded starts a Redis inside this process, on a free port of 127.0.0.1, and returns its URL and what stops it. Its
// keys expire because a goroutine moves its clock on each second: left alone, time stands still there.
func runEmbedded(password string) (at string, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	m.RequireAuth(password)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx, m.FastForward)
	}()
	at = (&url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: m.Addr(), Path: "/0"}).String()
	return at, func() {
		cancel()
		<-done
		m.Close()
	}, nil
}

// run tells forward once a second how much time has passed, until ctx ends.
func run(ctx context.Context, forward func(time.Duration)) {
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
