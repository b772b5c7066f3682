package seckill

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is Redis's clock as seen from here: every process judges windows and expiries by the same one, so that a
// machine whose clock is wrong does no harm.
type clock struct{ offset atomic.Int64 } // nanoseconds to add to ours

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Now is the time by which the rush judges.
func (e *Engine) Now() time.Time { return e.clock.now() }

// setClock asks Redis for the time, and takes the middle of the round trip for the moment of the answer. While Redis
// does not answer, the last offset stands.
func (e *Engine) setClock(ctx context.Context) {
	var asked, at time.Time
	if e.try(ctx, redisLimit, func(ctx context.Context) (err error) {
		asked = time.Now()
		at, err = e.gate.rdb.Time(ctx).Result()
		return err
	}) != nil {
		return
	}
	e.clock.offset.Store(int64(at.Sub(asked.Add(time.Since(asked) / 2))))
}
