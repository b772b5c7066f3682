package user

import (
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

// Collectors returns the metrics of sessions. Register them once.
func (s *Sessions) Collectors() []prometheus.Collector {
	const help = "Sessions that were looked up: hit, in a copy of this process; miss, in Redis; " +
		"stale, in an old copy, because Redis did not answer."
	looked := func(result string, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "miaosha_session_lookups_total", Help: help,
			ConstLabels: prometheus.Labels{"result": result}},
			func() float64 { return float64(n.Load()) })
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_session_" + name, Help: help}, f)
	}
	count := func(name, help string, f func(redis.PoolStats) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "miaosha_session_redis_pool_" + name, Help: help},
			func() float64 { return f(s.copies.remote.pool.Stats()) })
	}
	c := s.copies
	return []prometheus.Collector{
		looked("hit", &c.hits), looked("miss", &c.misses), looked("stale", &c.stale),
		gauge("breaker_open", "1 while the Redis of sessions is not called, because it does not answer.",
			func() float64 {
				if c.remote.breaker.State() == gobreaker.StateClosed {
					return 0
				}
				return 1
			}),
		gauge("redis_pool_connections_in_use", "Connections to the Redis of sessions that a call has now.",
			func() float64 {
				stats := c.remote.pool.Stats()
				return float64(stats.ActiveCount - stats.IdleCount)
			}),
		count("waits_total", "Calls that waited for a connection to the Redis of sessions.",
			func(s redis.PoolStats) float64 { return float64(s.WaitCount) }),
		count("wait_seconds_total", "How long they waited.",
			func(s redis.PoolStats) float64 { return s.WaitDuration.Seconds() }),
	}
}
