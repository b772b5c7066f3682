package order

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// sweepCounts counts one of the things that Sweep does.
type sweepCounts struct {
	done   atomic.Int64 // orders expired, payments that moved, or refunds made
	faults atomic.Int64 // rounds that failed in part
}

// Collectors returns the metrics of Sweep. Register those of one Store.
func (s *Store) Collectors() []prometheus.Collector {
	count := func(name, help string, labels prometheus.Labels, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "miaosha_" + name, Help: help,
			ConstLabels: labels},
			func() float64 { return float64(n.Load()) })
	}
	const faults = "Rounds of the sweeper that failed in part, and are repeated."
	return []prometheus.Collector{
		count("orders_expired_total", "Pending orders that this process cancelled because they were not paid in time.",
			nil, &s.expiring.done),
		count("payments_refunded_total", "Payments that this process has given back.", nil, &s.refunding.done),
		count("sweep_faults_total", faults, prometheus.Labels{"doing": "expire"}, &s.expiring.faults),
		count("sweep_faults_total", faults, prometheus.Labels{"doing": "refund"}, &s.refunding.faults),
		count("payments_found_total", "Open payments that moved because this process asked their provider.", nil,
			&s.asking.done),
		count("sweep_faults_total", faults, prometheus.Labels{"doing": "ask"}, &s.asking.faults),
	}
}
