package gate

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The clock shows the time of Redis, and keeps the last offset while Redis is down.
func TestClockFollowsRedis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: m.Addr()})
	defer rdb.Close()
	m.SetTime(time.Now().Add(time.Hour))
	c := NewClock(New(rdb, "here", time.Second))
	ahead := func() time.Duration { return time.Until(c.Now()).Round(time.Minute) }
	if got := ahead(); got != 0 {
		t.Fatalf("%v ahead before Redis was asked", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	sandboxtest.Until(t, "the clock is an hour ahead, as Redis is", func() bool { return ahead() == time.Hour })
	m.SetError("away")
	m.SetTime(time.Now().Add(2 * time.Hour))
	if err := c.rounds.Now(ctx); err != nil {
		t.Fatal(err)
	}
	if got := ahead(); got != time.Hour {
		t.Errorf("%v ahead while Redis is away, want the last offset of an hour", got)
	}
	cancel()
	running.Wait()
	if offset, within := c.Offset(); (offset-time.Hour).Abs() > time.Minute || within <= 0 {
		t.Errorf("the offset is %v, within %v", offset, within)
	}
}
