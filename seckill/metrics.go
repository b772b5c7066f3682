package seckill

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"miaosha/goods"
)

// metrics are the counters of the rush.
type metrics struct {
	granted  prometheus.Counter
	settled  *prometheus.CounterVec // outcome
	retries  prometheus.Counter
	faults   *prometheus.CounterVec // doing
	claims   prometheus.Counter
	rebuilds prometheus.Counter
	fixes    *prometheus.CounterVec // direction
	dead     prometheus.Counter
	shed     *prometheus.CounterVec // why
	batch    prometheus.Histogram
	queued   prometheus.GaugeFunc
	inFlight prometheus.GaugeFunc

	logs rate.Sometimes // faults are counted each, and logged once a second
}

func newMetrics(e *Engine) *metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help})
	}
	counts := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string, f func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_" + name, Help: help}, f)
	}
	return &metrics{
		granted:  count("tickets_granted_total", "Tickets granted by the gate."),
		settled:  counts("tickets_settled_total", "Tickets settled in Postgres, by outcome; replays count again.", "outcome"),
		retries:  count("settle_retries_total", "Settle transactions that failed and are tried again."),
		faults:   counts("gate_faults_total", "Requests told busy because the gate did not answer.", "doing"),
		claims:   count("tickets_claimed_total", "Tickets taken over from a process that left them."),
		rebuilds: count("gate_rebuilds_total", "Gates set up from Postgres."),
		fixes:    counts("gate_fixes_total", "Gates whose stock was moved to the truth.", "direction"),
		dead:     count("dead_letters_total", "Journal entries that could not be settled."),
		shed:     counts("shed_total", "Buy requests told busy because something was full.", "why"),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_lane_batch_users",
			Help: "Users in one call to the gate.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
		queued:   gauge("queued_tickets", "Tickets in this process's queue.", func() float64 { return float64(e.pool.queued()) }),
		inFlight: gauge("buys_in_flight", "Buy requests being worked on.", func() float64 { return float64(e.inFlight.Load()) }),
		logs:     rate.Sometimes{Interval: time.Second},
	}
}

// Collectors are the rush's metrics, to be registered once.
func (e *Engine) Collectors() []prometheus.Collector {
	m := e.metrics
	return []prometheus.Collector{m.granted, m.settled, m.retries, m.faults, m.claims, m.rebuilds, m.fixes, m.dead, m.shed,
		m.batch, m.queued, m.inFlight}
}

// shed counts what is turned away because something is full, and is ErrBusy.
func (e *Engine) shed(why string) error {
	e.metrics.shed.WithLabelValues(why).Inc()
	return ErrBusy
}

// logFault logs a fault that is tried again or answered with busy; of many in a second, one.
func (e *Engine) logFault(doing string, err error) {
	e.metrics.logs.Do(func() { e.log.Warn("a store did not answer", "doing", doing, "err", err) })
}

// isRefusal tells the answers that a healthy shop gives from faults.
func isRefusal(err error) bool {
	for _, r := range []error{goods.ErrNoSale, goods.ErrPaused, goods.ErrEnded, goods.ErrSoldOut, ErrBusy,
		ErrWrongCaptcha, ErrBadPath, errNoGate} {
		if errors.Is(err, r) {
			return true
		}
	}
	return errors.As(err, new(goods.NotStartedError)) || errors.As(err, new(TooManyError)) || errors.Is(err, context.Canceled)
}
