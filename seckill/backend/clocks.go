package backend

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"miaosha/seckill/rounds"
)

const (
	clocksEvery = 5 * time.Second
	clocksLimit = time.Second // of one question: half of it is the error of a measurement at most

	// clocksApart is how far two clocks may be apart. It is more than the error of a measurement, and much more than
	// machines that keep their time (NTP) ever are, and less than a buyer notices of a countdown.
	clocksApart = 2 * time.Second
)

// Clocks compares the clocks of Postgres, Redis and this process. Sales open by that of Redis, and payment deadlines
// are checked by that of Postgres. A page counts by one of them, so it has to know how far the other is from it.
type Clocks struct {
	log    *slog.Logger
	now    func() time.Time
	stores [2]clock
	rounds *rounds.Rounds
	differ bool // at the last look
}

// clock is the clock of a store.
type clock struct {
	store string
	ask   func(context.Context) (time.Time, error)
	ahead atomic.Int64 // of this process's clock, in nanoseconds
	known atomic.Bool
}

// NewClocks returns the clocks of stores. It has looked at them once.
func NewClocks(ctx context.Context, s *Stores, log *slog.Logger) *Clocks {
	c := newClocks(log, time.Now, func(ctx context.Context) (at time.Time, err error) {
		return at, s.Web.QueryRow(ctx, `select clock_timestamp()`).Scan(&at)
	}, func(ctx context.Context) (time.Time, error) { return s.Redis.Time(ctx).Result() })
	c.look(ctx)
	return c
}

func newClocks(
	log *slog.Logger, now func() time.Time, postgres, redis func(context.Context) (time.Time, error),
) *Clocks {
	c := &Clocks{log: log, now: now, rounds: rounds.New()}
	c.stores[0].store, c.stores[0].ask = "postgres", postgres
	c.stores[1].store, c.stores[1].ask = "redis", redis
	return c
}

// PostgresAhead returns how far the clock of Postgres is ahead of this process's, as far as known.
func (c *Clocks) PostgresAhead() time.Duration { return time.Duration(c.stores[0].ahead.Load()) }

// Run looks at the clocks until ctx ends, and logs a line when they begin to differ, and when they agree again.
func (c *Clocks) Run(ctx context.Context) error {
	c.rounds.Run(ctx, 2*clocksLimit, rounds.Every(clocksEvery), c.look)
	return nil
}

func (c *Clocks) look(ctx context.Context) {
	for i := range c.stores {
		c.measure(ctx, &c.stores[i])
	}
	postgres, redis := time.Duration(c.stores[0].ahead.Load()), time.Duration(c.stores[1].ahead.Load())
	differ := max(postgres.Abs(), redis.Abs(), (postgres-redis).Abs()) > clocksApart
	switch {
	case differ && !c.differ:
		c.log.Warn(
			"the clocks of this process and its stores differ: keep them by NTP. Sales open by the clock of Redis, and orders expire by that of Postgres",
			"postgres_ahead", postgres.Round(time.Millisecond), "redis_ahead", redis.Round(time.Millisecond))
	case !differ && c.differ:
		c.log.Info("the clocks of this process and its stores agree again")
	}
	c.differ = differ
}

// measure assumes that the store read its clock in the middle of the round trip. One that does not answer keeps its
// last value.
func (c *Clocks) measure(ctx context.Context, of *clock) {
	ctx, cancel := context.WithTimeout(ctx, clocksLimit)
	defer cancel()
	asked := c.now()
	at, err := of.ask(ctx)
	took := c.now().Sub(asked)
	if err != nil || took > clocksLimit {
		return
	}
	of.ahead.Store(int64(at.Sub(asked.Add(took / 2))))
	of.known.Store(true)
}

var clockAhead = prometheus.NewDesc("miaosha_clock_ahead_seconds",
	"How far the clock of a store is ahead of this process's; below zero it is behind. Absent until it is known.",
	[]string{"store"}, nil)

// Describe implements prometheus.Collector.
func (c *Clocks) Describe(out chan<- *prometheus.Desc) { out <- clockAhead }

// Collect implements prometheus.Collector.
func (c *Clocks) Collect(out chan<- prometheus.Metric) {
	for i := range c.stores {
		if of := &c.stores[i]; of.known.Load() {
			out <- prometheus.MustNewConstMetric(clockAhead, prometheus.GaugeValue,
				time.Duration(of.ahead.Load()).Seconds(), of.store)
		}
	}
}
