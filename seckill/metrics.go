package seckill

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"miaosha/order"
	"miaosha/seckill/gate"
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
	kinds    *prometheus.CounterVec        // kind
	replies  map[string]prometheus.Counter // those of kinds
	batch    prometheus.Histogram
	waited   prometheus.Histogram
	reserve  prometheus.Histogram
	settling prometheus.Histogram
	settle   prometheus.Histogram
	held     prometheus.Histogram
	drift    *prometheus.GaugeVec // without labels, because it can be absent
	queued   prometheus.GaugeFunc
	inFlight prometheus.GaugeFunc
	breaker  prometheus.GaugeFunc
}

func newMetrics(log *slog.Logger, queued func() int, inFlight func() int64, gateAvailable func() bool) *metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help})
	}
	counts := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help}, []string{label})
	}
	gauge := func(name, help string, f func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_" + name, Help: help}, f)
	}
	timed := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_" + name, Help: help,
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12)})
	}
	m := &metrics{
		log:     log,
		once:    rate.Sometimes{Interval: time.Second},
		granted: count("tickets_granted_total", "Tickets granted by the gate."),
		settled: counts("tickets_settled_total",
			"Tickets settled in Postgres, by outcome. A repeated batch counts again.", "outcome"),
		retries: count("settle_retries_total", "Settle transactions that failed and are repeated."),
		faults:  counts("gate_faults_total", "Requests answered with busy because the gate did not reply.", "doing"),
		claims: count("tickets_claimed_total",
			"Tickets queued from a journal: of a dead process, in doubt, or settled again after Redis went back."),
		rebuilds: count("gate_rebuilds_total", "Gates set up from Postgres."),
		fixes:    counts("gate_fixes_total", "Gates whose stock was corrected from Postgres.", "direction"),
		dead:     count("dead_letters_total", "Journal entries that could not be settled."),
		shed:     counts("shed_total", "Buy requests answered with busy because something was full.", "why"),
		wasted: count("addresses_wasted_total",
			"Hidden addresses that ran out unused, counted when the next buyer asks for one."),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_lane_batch_users",
			Help: "Users in one reserve call.", Buckets: prometheus.ExponentialBuckets(1, 2, 9)}),
		settling: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "miaosha_settle_batch_tickets",
			Help: "Tickets in one settle transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 12)}),
		kinds:   counts("gate_replies_total", "What gates replied to clicks, by kind.", "kind"),
		replies: map[string]prometheus.Counter{},
		waited:  timed("lane_wait_seconds", "How long the first click of a reserve call waited in its lane."),
		reserve: timed("gate_reserve_seconds",
			"How long one reserve call took, its second try and a rebuild of the gate included."),
		settle: timed("settle_seconds",
			"How long one settle transaction took that was committed, the wait for its connection included."),
		held: timed("settle_connection_seconds", "How long one settle transaction held its connection."),
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "miaosha_reconcile_drift_units",
			Help: "Units by which gates still differed from Postgres after the last tick of reconcile. Absent " +
				"while they cannot be compared."},
			nil),
		queued: gauge("queued_tickets", "Tickets in this process's queue.",
			func() float64 { return float64(queued()) }),
		inFlight: gauge("buys_in_flight", "Buy requests being worked on.",
			func() float64 { return float64(inFlight()) }),
		breaker: gauge("gate_breaker_open", "1 while this process sells without Redis, because it does not answer.",
			func() float64 {
				if gateAvailable() {
					return 0
				}
				return 1
			}),
	}
	for _, outcome := range []string{order.Ordered, order.Duplicate, order.SoldOut, order.Closed, order.Invalid} {
		m.settled.WithLabelValues(outcome)
	}
	for _, why := range []string{"in flight", "journal", "lane", "late", "queue", "results"} {
		m.shed.WithLabelValues(why)
	}
	for _, doing := range []string{"captcha", "path", "reserve"} {
		m.faults.WithLabelValues(doing)
	}
	for _, direction := range []string{"up", "down"} {
		m.fixes.WithLabelValues(direction)
	}
	for _, kind := range gate.Kinds {
		m.replies[kind] = m.kinds.WithLabelValues(kind)
	}
	return m
}

// countReplies counts the replies to the clicks of a reserve call.
func (m *metrics) countReplies(replies []gate.Reply) {
	n := map[string]int{}
	for _, r := range replies {
		n[r.Kind()]++
	}
	for kind, n := range n {
		m.replies[kind].Add(float64(n))
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.granted, m.settled, m.retries, m.faults, m.claims, m.rebuilds,
		m.fixes, m.dead, m.shed,
		m.wasted, m.batch, m.waited, m.reserve, m.settling, m.settle, m.held, m.drift, m.queued, m.inFlight,
		m.breaker, m.kinds}
}

// countSettled counts the results of a settle transaction.
func (m *metrics) countSettled(results []order.Result) {
	for _, r := range results {
		m.settled.WithLabelValues(r.Outcome).Inc()
	}
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

// refusal returns err if it is a refusal. It logs and counts a fault and returns ErrBusy: an outage never looks like
// sold out.
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
