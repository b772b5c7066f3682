package gate

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	callLimit = 700 * time.Millisecond // for most calls, with a retry

	// ReserveLimit is the time of a Reserve, its second try included.
	ReserveLimit = 250 * time.Millisecond
)

// breaker keeps calls away from a Redis that fails. It opens after three failures in a row, or after five within ten
// seconds if these are at least a tenth of all calls. It also opens after a single timeout, because the next call, and
// every click behind it, would wait as long. While it is open, only background work probes Redis (see Gate.Background),
// so that no buyer waits for a probe.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	opened  atomic.Int64
	timeout bool // the call that ends now had no reply; guarded by the circuit breaker's own lock
}

func newBreaker(probeEvery time.Duration) *breaker {
	b := &breaker{}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         "redis",
		MaxRequests:  1,
		Interval:     10 * time.Second,
		Timeout:      probeEvery / 3, // so that every round of background work may probe
		IsSuccessful: func(fault error) bool { b.timeout = isTimeout(fault); return fault == nil },
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= 3 || c.TotalFailures >= 5 && c.TotalFailures*10 >= c.Requests || b.timeout
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				b.opened.Add(1)
			}
		},
	})
	return b
}

func (b *breaker) closed() bool { return b.State() == gobreaker.StateClosed }

// Available reports whether Redis is called at all at this moment.
func (g *Gate) Available() bool { return g.breaker.closed() }

// BreakerState returns closed, half-open or open. Redis is called while it is closed; otherwise background work alone
// probes it.
func (g *Gate) BreakerState() string { return g.breaker.State().String() }

// BreakerOpened returns how many times Redis was found away: an open breaker may be closed again before anyone looks.
func (g *Gate) BreakerOpened() int64 { return g.breaker.opened.Load() }

// call makes one guarded call with a time limit of its own, because a caller that stops waiting is not a failure of
// Redis. Its errors are those of f, ErrUnavailable if f was not called, or ErrBusy if ctx had ended before.
//
// A Gate has two views (see Background). A buyer's request never probes a Redis that may still be away. Background work
// probes it, and so finds out when Redis is back.
func (g *Gate) call(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	if !g.probes && !g.breaker.closed() {
		return ErrUnavailable
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	done, err := g.breaker.Allow()
	if err != nil {
		return ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err = f(ctx)
	fault := faultOf(err)
	if g.probes && g.breaker.closed() && isReply(fault) {
		fault = nil // background work may fail for one sale without taking the gate from all buyers
	}
	done(fault)
	return err
}

// manyReplies are those of a pipeline for many sales.
type manyReplies struct {
	read bool  // there was one
	err  error // of a sale
}

func (r *manyReplies) add(err error) {
	switch {
	case faultOf(err) == nil:
		r.read = true
	case r.err == nil || isTimeout(err):
		r.err = err
	}
}

// fault returns the failure of Redis that the pipeline shows: a timeout, or no reply for any sale. Where Redis has
// replied for some, what it refuses for another is no reason to keep all buyers away from it.
func (r *manyReplies) fault() error {
	if r.read && !isTimeout(r.err) {
		return nil
	}
	return r.err
}

// guarded is call for an f with a result.
func guarded[T any](
	ctx context.Context, g *Gate, limit time.Duration, f func(context.Context) (T, error),
) (result T, err error) {
	err = g.call(ctx, limit, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}
