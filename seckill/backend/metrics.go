package backend

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Collectors returns the metrics of the pools. They are counted in this process, so a scrape asks no store. Register
// them once.
func (s *Stores) Collectors() []prometheus.Collector {
	pools := poolMetrics{"web": s.Web, "users": s.Users, "settle": s.Settle, "pay": s.Pay, "staff": s.Staff}
	if s.Replica != nil {
		pools["replica"] = s.Replica.Pool
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "miaosha_redis_pool_" + name, Help: help}, f)
	}
	count := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "miaosha_redis_pool_" + name, Help: help}, f)
	}
	stats := s.Redis.PoolStats
	return []prometheus.Collector{pools,
		gauge("connections", "Open connections to Redis; those of sessions are apart.",
			func() float64 { return float64(stats().TotalConns) }),
		gauge("connections_in_use", "Connections to Redis that a call has now.",
			func() float64 { return float64(stats().TotalConns - stats().IdleConns) }),
		count("waits_total", "Calls that waited for a connection to Redis.",
			func() float64 { return float64(stats().WaitCount) }),
		count("wait_seconds_total", "How long calls waited for a connection to Redis.",
			func() float64 { return float64(stats().WaitDurationNs) / 1e9 }),
		count("timeouts_total", "Calls that got no connection to Redis in time.",
			func() float64 { return float64(stats().Timeouts) }),
	}
}

// poolMetrics has the pools of Postgres by name.
type poolMetrics map[string]*pgxpool.Pool

func poolDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("miaosha_postgres_pool_"+name, help, []string{"pool"}, nil)
}

var (
	poolOpen     = poolDesc("connections", "Open connections of a pool.")
	poolInUse    = poolDesc("connections_in_use", "Connections of a pool that a caller has now.")
	poolMost     = poolDesc("connections_max", "Connections that a pool opens at most.")
	poolAcquires = poolDesc("acquires_total", "Connections that callers got from a pool.")
	poolWaits    = poolDesc("waits_total", "Callers that got a connection and waited for it, because none was free.")
	poolWaited   = poolDesc("wait_seconds_total", "How long these callers waited.")
	poolGaveUp   = poolDesc("canceled_acquires_total", "Callers whose time was over before they got a connection.")
)

// Describe implements prometheus.Collector.
func (p poolMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolOpen, poolInUse, poolMost, poolAcquires, poolWaits,
		poolWaited, poolGaveUp} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p poolMetrics) Collect(out chan<- prometheus.Metric) {
	for name, pool := range p {
		s := pool.Stat()
		for desc, n := range map[*prometheus.Desc]int32{poolOpen: s.TotalConns(), poolInUse: s.AcquiredConns(),
			poolMost: s.MaxConns()} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), name)
		}
		for desc, n := range map[*prometheus.Desc]float64{poolAcquires: float64(s.AcquireCount()),
			poolWaits:  float64(s.EmptyAcquireCount()),
			poolWaited: s.EmptyAcquireWaitTime().Seconds(), poolGaveUp: float64(s.CanceledAcquireCount())} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, n, name)
		}
	}
}
