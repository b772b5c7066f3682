package seckill

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// metrics counts what the rush does, and logs its faults.
type metrics struct {
	log  *slog.Logger
	once rate.Sometimes // every fault is counted, but at most one a second is logged

	granted  prometheus.Counter
	settled  *prometheus.CounterVec // outcome
	retries  prometheus.Counter
	faults   *prometheus.CounterVec // doing
	claims   prometheus.Counter
	rebuilds prometheus.Counter
	fixes    *prometheus.CounterVec // direction
	dead     prometheus.Counter
	shed     *prometheus.CounterVec // why
	wasted   prometheus.Counter
	batch    prometheus.Histogram
	settling prometheus.Histogram
	held     prometheus.Histogram
	queued   prometheus.GaugeFunc
	inFlight prometheus.GaugeFunc
}

func newMetrics(log *slog.Logger, queued func() int, inFlight func() int64) *metrics {
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
		log:      log,
		once:     rate.Sometimes{Interval: time.Second},
		granted:  count("tickets_granted_total", "Tickets granted by the gate."),
		settled:  counts("tickets_settled_total", "Tickets settled in Postgres, by outcome. A repeated batch counts again.", "outcome"),
		retries:  count("settle_retries_total", "Settle transactions that failed and are repeated."),
		faults:   counts("gate_faults_total", "Requests answered with busy because the gate did not reply.", "doing"),
		claims:   count("tickets_claimed_total", "Tickets claimed from a process that left them."),
		rebuilds: count("gate_rebuilds_total", "Gates set up from Postgres."),
		fixes:    counts("gate_fixes_total", "Gates whose stock was corrected from Postgres.", "direction"),
		dead:     count("dead_letters_total", "Journal entries that could not be settled."),
		shed:     counts("shed_total", "Buy requests answered with busy because something was full.", "why"),
		wasted:   count("addresses_wasted_total", "Hidden addresses that ran out unused, counted when the next buyer asks for one."),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_lane_batch_users",
			Help: "Users in one reserve call.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
		settling: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_settle_batch_tickets",
			Help: "Tickets in one settle transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 12)}),
		held: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_settle_connection_seconds",
			Help: "How long one settle transaction held its connection.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12)}),
		queued:   gauge("queued_tickets", "Tickets in this process's queue.", func() float64 { return float64(queued()) }),
		inFlight: gauge("buys_in_flight", "Buy requests being worked on.", func() float64 { return float64(inFlight()) }),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.granted, m.settled, m.retries, m.faults, m.claims, m.rebuilds, m.fixes, m.dead, m.shed,
		m.wasted, m.batch, m.settling, m.held, m.queued, m.inFlight}
}

// shedFor counts a request that is refused because something is full, and returns ErrBusy.
func (m *metrics) shedFor(why string) error {
	m.shed.WithLabelValues(why).Inc()
	return ErrBusy
}

// logFault logs a fault that is tried again or answered with busy, at most once a second.
func (m *metrics) logFault(doing string, err error) {
	m.once.Do(func() { m.log.Warn("a store did not answer", "doing", doing, "err", err) })
}

// refusal returns err if it is a refusal. It logs and counts a fault and returns ErrBusy: an outage never looks like sold
// out.
func (m *metrics) refusal(doing string, err error) error {
	if err == nil || isRefusal(err) {
		return err
	}
	m.faults.WithLabelValues(doing).Inc()
	m.logFault(doing, err)
	return ErrBusy
}

// countDead counts a dead letter that was written, or logs why it was not.
func (m *metrics) countDead(err error) {
	if err != nil {
		m.logFault("dead letter", err)
		return
	}
	m.dead.Inc()
}
