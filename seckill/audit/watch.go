package audit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Watch runs Cheap each minute and makes metrics of it. Any number of processes may have one: each only reads, in one
// connection at a time.
type Watch struct {
	db         *pgxpool.Pool
	rdb        redis.UniversalClient
	log        *slog.Logger
	first      time.Duration // until the first audit
	every      time.Duration
	broken     *prometheus.GaugeVec   // invariant
	audits     *prometheus.CounterVec // result
	last       prometheus.Gauge
	invariants []string
	said       map[string]bool // meanings that the log has; Run's own
}

// NewWatch gives a Watch. rdb may be nil for a shop without gates.
func NewWatch(db *pgxpool.Pool, rdb redis.UniversalClient, log *slog.Logger) *Watch {
	w := &Watch{
		db: db, rdb: rdb, log: log, said: map[string]bool{},
		// Not in the midst of the start, nor all processes that start together at one moment.
		first: 5*time.Second + rand.N(5*time.Second), every: time.Minute,
		invariants: []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9"},
		broken: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "miaosha_invariant_broken",
			Help: "1 where the last audit found the invariant broken; miaosha audit shows the rows."}, []string{"invariant"}),
		audits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "miaosha_audits_total",
			Help: "Audits, by result: clean, broken, or failed because a store did not answer."}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "miaosha_audit_last_finished_seconds",
			Help: "Unix time at which an audit last came to its end; 0 before the first."}),
	}
	for _, i := range w.invariants {
		w.broken.WithLabelValues(i)
	}
	for _, r := range []string{"clean", "broken", "failed"} {
		w.audits.WithLabelValues(r)
	}
	return w
}

// Collectors are the metrics, to be registered once.
func (w *Watch) Collectors() []prometheus.Collector {
	return []prometheus.Collector{w.broken, w.audits, w.last}
}

// Run audits until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	next := time.NewTimer(w.first)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
		w.audit(ctx)
		next.Reset(w.every)
	}
}

// audit does one. One that failed takes nothing back: what it did not see may be broken still.
func (w *Watch) audit(ctx context.Context) {
	found, err := Cheap(ctx, w.db, w.rdb)
	if ctx.Err() != nil {
		return
	}
	broken, meanings := map[string]bool{}, map[string]bool{}
	for _, f := range found {
		broken[f.Invariant], meanings[f.Meaning] = true, true
		w.broken.WithLabelValues(f.Invariant).Set(1)
		if !w.said[f.Meaning] {
			w.said[f.Meaning] = true
			w.log.Error("an invariant is broken", "invariant", f.Invariant, "meaning", f.Meaning, "rows", f.Rows)
		}
	}
	if err != nil {
		w.audits.WithLabelValues("failed").Inc()
		w.log.Warn("an audit failed", "err", err)
		return
	}
	for _, i := range w.invariants {
		if !broken[i] {
			w.broken.WithLabelValues(i).Set(0)
		}
	}
	for m := range w.said {
		if !meanings[m] {
			delete(w.said, m)
			w.log.Info("an invariant holds again", "meaning", m)
		}
	}
	result := "clean"
	if len(found) > 0 {
		result = "broken"
	}
	w.audits.WithLabelValues(result).Inc()
	w.last.SetToCurrentTime()
}
