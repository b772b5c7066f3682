package audit

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/rounds"
)

// Monitor runs Quick each minute and exports the result as metrics. Any number of processes may run one: a Monitor only
// reads, on one connection at a time.
type Monitor struct {
	db         *pgxpool.Pool
	rdb        redis.UniversalClient
	log        *slog.Logger
	first      time.Duration // until the first audit
	every      time.Duration
	broken     *prometheus.GaugeVec   // by invariant
	audits     *prometheus.CounterVec // by result
	last       prometheus.Gauge
	invariants []string
	logged     map[string]bool // the meanings of the last findings; only Run uses it
	rounds     *rounds.Rounds
}

// NewMonitor returns a Monitor. rdb may be nil for a shop without gates.
func NewMonitor(db *pgxpool.Pool, rdb redis.UniversalClient, log *slog.Logger) *Monitor {
	m := &Monitor{
		db: db, rdb: rdb, log: log, logged: map[string]bool{}, rounds: rounds.New(),
		// Not during the start of the process. The random part spreads processes that start together.
		first: 5*time.Second + rand.N(5*time.Second), every: time.Minute,
		invariants: []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "schema"},
		broken: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "miaosha_invariant_broken",
			Help: "1 where the last audit found the invariant broken, " +
				"or (schema) the database not as schema.sql makes it; miaosha audit shows the rows."},
			[]string{"invariant"}),
		audits: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "miaosha_audits_total",
			Help: "Audits, by result: clean, broken, or failed because a store did not answer."}, []string{"result"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{Name: "miaosha_audit_last_finished_seconds",
			Help: "Unix time at which the last audit finished; 0 before the first."}),
	}
	for _, i := range m.invariants {
		m.broken.WithLabelValues(i)
	}
	for _, r := range []string{"clean", "broken", "failed"} {
		m.audits.WithLabelValues(r)
	}
	return m
}

// Collectors returns the metrics. Register them once.
func (m *Monitor) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.broken, m.audits, m.last}
}

// Run audits until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(m.first):
		m.rounds.Run(ctx, m.every, rounds.Every(m.every), m.audit)
	}
	return nil
}

// audit runs one audit and updates the metrics. A failed audit clears no gauge: an invariant that it did not check may
// still be broken.
func (m *Monitor) audit(ctx context.Context) {
	found, err := Quick(ctx, m.db, m.rdb)
	if errors.Is(ctx.Err(), context.Canceled) { // the shop stops; an audit that runs out of time has failed
		return
	}
	broken, meanings := map[string]bool{}, map[string]bool{}
	for _, f := range found {
		broken[f.Invariant], meanings[f.Meaning] = true, true
		m.broken.WithLabelValues(f.Invariant).Set(1)
		if !m.logged[f.Meaning] {
			m.logged[f.Meaning] = true
			m.log.Error("an invariant is broken", "invariant", f.Invariant, "meaning", f.Meaning, "rows", f.Rows)
		}
	}
	if err != nil {
		m.audits.WithLabelValues("failed").Inc()
		m.log.Warn("an audit failed", "err", err)
		return
	}
	for _, i := range m.invariants {
		if !broken[i] {
			m.broken.WithLabelValues(i).Set(0)
		}
	}
	for meaning := range m.logged {
		if !meanings[meaning] {
			delete(m.logged, meaning)
			m.log.Info("an invariant holds again", "meaning", meaning)
		}
	}
	result := "clean"
	if len(found) > 0 {
		result = "broken"
	}
	m.audits.WithLabelValues(result).Inc()
	m.last.SetToCurrentTime()
}
