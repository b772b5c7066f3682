package gate

import (
	"context"
	"sync/atomic"
	"time"

	"miaosha/seckill/rounds"
)

const clockEvery = time.Second

// Clock is the clock of Redis as seen from this process. Every process judges windows and expiries by it, so a machine
// whose own clock is wrong does no harm.
type Clock struct {
	gate   *Gate
	rounds *rounds.Rounds
	offset atomic.Int64 // nanoseconds to add to this machine's clock
	within atomic.Int64 // nanoseconds by which offset may be wrong: half of the round trip that measured it
}

// NewClock returns a Clock that shows this machine's time until Run has asked Redis.
func NewClock(g *Gate) *Clock { return &Clock{gate: g.Background(), rounds: rounds.New()} }

// Now returns the time of Redis, as far as known.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Offset returns what Now adds to this machine's clock, and by how much that may be wrong: a busy machine measures
// badly.
func (c *Clock) Offset() (offset, within time.Duration) {
	return time.Duration(c.offset.Load()), time.Duration(c.within.Load())
}

// Run asks Redis for the time once a second until ctx ends. While Redis does not reply, the last offset is used.
func (c *Clock) Run(ctx context.Context) {
	c.rounds.Run(ctx, callLimit, rounds.Every(clockEvery), c.sync)
}

// sync assumes that Redis read its clock in the middle of the round trip.
func (c *Clock) sync(ctx context.Context) {
	var asked, at time.Time
	err := c.gate.call(ctx, callLimit, func(ctx context.Context) (err error) {
		asked = time.Now()
		at, err = c.gate.rdb.Time(ctx).Result()
		return err
	})
	if err == nil {
		within := time.Since(asked) / 2
		c.offset.Store(int64(at.Sub(asked.Add(within))))
		c.within.Store(int64(within))
	}
}
