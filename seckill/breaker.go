package seckill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker keeps calls away from a Redis that fails. It opens after three failures in a row, or five within ten seconds if
// that is a tenth of all calls; and after a single one for want of an answer, because the next call would wait as long,
// and behind it everybody who clicks. Three times a second one of the loops in the background tries again, so that no
// buyer waits for that.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	silent atomic.Bool // the call that is being judged got no answer
}

func newBreaker() *breaker {
	b := &breaker{}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "redis",
		MaxRequests: 1,
		Interval:    10 * time.Second,
		Timeout:     reconcileEvery / 3, // so that each tick may try, also the one after a tick that took too long
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= 3 || c.TotalFailures >= 5 && c.TotalFailures*10 >= c.Requests || b.silent.Load()
		},
	})
	return b
}

func (b *breaker) closed() bool { return b.State() == gobreaker.StateClosed }

// errBreaker is ErrBusy before Redis was asked anything.
var errBreaker = fmt.Errorf("%w: the breaker is open", ErrBusy)

// redisLimit is the time most calls have, a retry included. A call's time is its own: who gives up waiting for it is not
// Redis's fault.
const redisLimit = 700 * time.Millisecond

// ask makes one call to Redis for somebody who waits, unless the breaker is open: then errBreaker at once.
func (e *Engine) ask(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	if !e.breaker.closed() {
		return errBreaker
	}
	return e.try(ctx, limit, call)
}

// try is ask for the loops in the background: they find out whether Redis is back.
func (e *Engine) try(ctx context.Context, limit time.Duration, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
	}
	done, err := e.breaker.Allow()
	if err != nil {
		return errBreaker
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err = call(ctx)
	fault := faultOf(err)
	if isSilence(fault) {
		e.breaker.silent.Store(true)
	}
	done(fault)
	e.breaker.silent.Store(false)
	return err
}

// isSilence tells a failure for want of an answer from one that came at once.
func isSilence(err error) bool {
	var late net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late) && late.Timeout()
}

// faultOf is err if Redis is to blame for it, else nil: neither a refusal nor a caller who went away counts.
func faultOf(err error) error {
	if err == nil || isRefusal(err) || isWrongType(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// asRefusal lets refusals pass and turns a fault into ErrBusy, once it is logged and counted: an outage never reads
// as sold out.
func (e *Engine) asRefusal(doing string, err error) error {
	if err == nil || isRefusal(err) && !errors.Is(err, errNoGate) {
		return err
	}
	e.metrics.faults.WithLabelValues(doing).Inc()
	e.logFault(doing, err)
	return ErrBusy
}
