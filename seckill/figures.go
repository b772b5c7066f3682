package seckill

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"miaosha/order"
	"miaosha/seckill/gate"
)

// Figures are what one process knows of its rush: counts since it began, and the state of this moment.
type Figures struct {
	Sales    map[int64]SaleFigures // sales for which the process has granted or settled a ticket
	Queued   int                   // tickets in the order queue
	Oldest   time.Duration         // since the oldest of them was granted, by the clock of Redis; 0 if none has waited
	Breaker  string                // of Redis: closed, half-open or open; off without a gate
	Opened   int64                 // times that the breaker opened, also again while it was half open
	Reserve  prometheus.Metric     // a histogram: seconds of a reserve call, Redis's part of a purchase
	Settling prometheus.Metric     // the same of a settle transaction, Postgres's part
}

// SaleFigures are counts of one sale. A batch that is settled again counts again.
type SaleFigures struct {
	Granted int64 // tickets
	Ordered int64 // tickets that became an order
	Refused int64 // tickets with another result
}

// saleCounts are counted once per batch.
type saleCounts struct{ granted, ordered, refused atomic.Int64 }

func (m *metrics) ofSale(sale int64) *saleCounts {
	if c, ok := m.bySale.Load(sale); ok {
		return c.(*saleCounts)
	}
	c, _ := m.bySale.LoadOrStore(sale, &saleCounts{})
	return c.(*saleCounts)
}

func (m *metrics) countGranted(sale int64, n int) {
	m.granted.Add(float64(n))
	if n > 0 {
		m.ofSale(sale).granted.Add(int64(n))
	}
}

func (m *metrics) countSettled(sale int64, results []order.Result) {
	ordered := 0
	for _, r := range results {
		m.settled.WithLabelValues(r.Outcome).Inc()
		if r.Outcome == order.Ordered {
			ordered++
		}
	}
	c := m.ofSale(sale)
	c.ordered.Add(int64(ordered))
	c.refused.Add(int64(len(results) - ordered))
}

// Figures returns the figures of this moment. It calls no store.
func (e *Engine) Figures() Figures {
	f := Figures{Sales: map[int64]SaleFigures{}, Breaker: "off", Reserve: e.metrics.reserve, Settling: e.metrics.settle}
	if !e.cfg.gateOff() {
		f.Breaker, f.Opened = e.lanes.gate.BreakerState(), e.lanes.gate.BreakerOpened()
	}
	f.Queued = e.queue.queued()
	f.Oldest = e.queue.oldest(e.clock.Now())
	for sale, c := range e.metrics.bySale.Range {
		c := c.(*saleCounts)
		f.Sales[sale.(int64)] = SaleFigures{c.granted.Load(), c.ordered.Load(), c.refused.Load()}
	}
	return f
}

// oldest returns how long the ticket that was granted first has been waiting. The id of its journal entry has the time. A ticket
// without an entry counts as new.
func (q *orderQueue) oldest(now time.Time) (waits time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.bySale {
		for _, tickets := range [][]order.Ticket{s.batch, s.waiting} {
			if len(tickets) == 0 {
				continue
			}
			entry, _ := gate.EntryID(tickets[0].ID)
			granted, _, _ := strings.Cut(entry, "-")
			if ms, err := strconv.ParseInt(granted, 10, 64); err == nil {
				waits = max(waits, now.Sub(time.UnixMilli(ms)))
			}
		}
	}
	return waits
}
