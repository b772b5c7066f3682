package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
)

// newBreaker opens after three failures of Redis in a row, or five within ten seconds, and lets one call try every half
// second. A Redis that is silent rather than gone fails each call only after 0.7 s, and a lane makes one call at a time:
// to ask for five in one second would never open it.
func newBreaker() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	return gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "redis",
		MaxRequests: 1,
		Interval:    10 * time.Second,
		Timeout:     500 * time.Millisecond,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 3 || c.TotalFailures >= 5 },
	})
}

// errBreaker is ErrBusy before Redis was asked anything.
var errBreaker = fmt.Errorf("%w: the breaker is open", ErrBusy)

// ask makes one call to Redis if the breaker allows it; otherwise errBreaker at once.
func (e *Engine) ask(call func() error) error {
	done, err := e.breaker.Allow()
	if err != nil {
		return errBreaker
	}
	err = call()
	fault := faultOf(err)
	if fault != nil {
		e.view.doubts.Add(1)
	}
	done(fault)
	return err
}

// faultOf is err if Redis is to blame for it, else nil: neither a refusal nor a caller who went away counts.
func faultOf(err error) error {
	if err == nil || isRefusal(err) || errors.Is(err, context.Canceled) {
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
