package live

import (
	"math"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"miaosha/seckill/trace"
)

// shop is the scope of the whole shop; every other scope is the id of a sale.
const shop int64 = 0

// Names of counters beside the answers: all requests, and what the rush does. They begin with 0 when a process begins.
const (
	requests = "requests"
	tickets  = "tickets"
	orders   = "orders"
	refused  = "refused" // tickets that did not become an order
)

// figures are what one process writes once a second.
type figures struct {
	Name       string                     `json:"name"`
	Version    string                     `json:"version"`
	Up         time.Duration              `json:"up"` // since the process began, by its own monotonic clock
	Memory     uint64                     `json:"memory"`
	Goroutines uint64                     `json:"goroutines"`
	Breaker    string                     `json:"breaker"`
	Queued     int                        `json:"queued"`
	Oldest     time.Duration              `json:"oldest"`
	Counters   map[int64]map[string]int64 `json:"counters"` // by scope
	Buy        histogram                  `json:"buy"`
	Redis      histogram                  `json:"redis"`
	Postgres   histogram                  `json:"postgres"`
}

// read returns the figures of this process, with counters for the shop and for the tracked sales.
func (m *Monitor) read(tracked []sale) figures {
	e, sales := m.Engine.Figures(), m.Trace.Sales()
	f := figures{Name: m.name, Version: m.Version, Up: time.Since(m.began), Breaker: e.Breaker, Queued: e.Queued,
		Oldest:   e.Oldest,
		Counters: map[int64]map[string]int64{}, Buy: newHistogram(m.Counts.took), Redis: newHistogram(e.Reserve),
		Postgres: newHistogram(e.Settling)}
	all := rushCounters(sales)
	all[requests] = m.Counts.requests.Load()
	m.Counts.shop.addTo(all)
	f.Counters[shop] = all
	for _, s := range tracked {
		c := rushCounters(map[int64]trace.Counts{s.ID: sales[s.ID]})
		if t, ok := m.Counts.bySale.Load(s.ID); ok {
			t.(*tally).addTo(c)
		}
		f.Counters[s.ID] = c
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(samples)
	f.Memory, f.Goroutines = samples[0].Value.Uint64()-samples[1].Value.Uint64(), samples[2].Value.Uint64()
	return f
}

func rushCounters(sales map[int64]trace.Counts) map[string]int64 {
	c := map[string]int64{tickets: 0, orders: 0, refused: 0}
	for _, s := range sales {
		c[tickets] += s.Granted
		c[orders] += s.Ordered
		c[refused] += s.Refused
	}
	return c
}

// histogram has how many observations were at most each bound, since the process began. The last count is of all.
type histogram struct {
	Bounds []float64 `json:"bounds"` // seconds
	Counts []uint64  `json:"counts"`
}

func newHistogram(m prometheus.Metric) (h histogram) {
	var read dto.Metric
	if err := m.Write(&read); err != nil {
		return h
	}
	for _, b := range read.GetHistogram().GetBucket() {
		h.Bounds, h.Counts = append(h.Bounds, b.GetUpperBound()), append(h.Counts, b.GetCumulativeCount())
	}
	h.Counts = append(h.Counts, read.GetHistogram().GetSampleCount())
	return h
}

// observed are observations between two readings, by upper bound; +Inf for those above the last one.
type observed map[float64]float64

// addSince adds what h has more than before. A process of another version may have other bounds.
func (o observed) addSince(h, before histogram) {
	var under, underBefore uint64
	for i, n := range h.Counts {
		bound, past := math.Inf(1), uint64(0)
		if i < len(h.Bounds) {
			bound = h.Bounds[i]
		}
		if i < len(before.Counts) {
			past = before.Counts[i]
		}
		if fresh := (n - under) - (past - underBefore); n-under >= past-underBefore {
			o[bound] += float64(fresh)
		}
		under, underBefore = n, past
	}
}
