package seckill

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures are the state of the rush in this process at one moment.
type Figures struct {
	Queued   int               // tickets in the order queue
	Oldest   time.Duration     // since the oldest of them was granted, by the clock of Redis; 0 if none has waited
	Breaker  string            // of Redis: closed, half-open or open; off without a gate
	Opened   int64             // times that the breaker opened, also again while it was half open
	Reserve  prometheus.Metric // a histogram: seconds of a reserve call, Redis's part of a purchase
	Settling prometheus.Metric // the same of a settle transaction, Postgres's part
}

// Figures returns the figures of this moment. It calls no store.
func (e *Engine) Figures() Figures {
	f := Figures{Breaker: "off", Reserve: e.metrics.reserve, Settling: e.metrics.settle}
	if !e.cfg.gateOff() {
		f.Breaker, f.Opened = e.lanes.gate.BreakerState(), e.lanes.gate.BreakerOpened()
	}
	f.Queued = e.queue.Queued()
	f.Oldest = e.queue.Oldest(e.clock.Now())
	return f
}
