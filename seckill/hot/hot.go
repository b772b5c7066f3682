// Package hot notices which sales are suddenly hot: those that receive many clicks, and many times as many as the other
// open sales. It shows them to the operator. It changes nothing: every sale has a lane of its own at all times, so a
// hot one is kept apart from the first click on.
//
// It reads the counts of the lanes once a second, so a click costs no more for it. Each process judges the clicks that
// it receives itself.
package hot

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/rounds"
)

const (
	measureEvery = time.Second
	measureLimit = 5 * time.Second
	coolAfter    = 10 * time.Second // how long a hot sale must be below half of a bound to cool down
	shown        = 10               // hot sales in the metrics and in a Report
)

// Config says which sale is hot.
type Config struct {
	Clicks int `name:"hot-clicks" env:"MIAOSHA_HOT_CLICKS" default:"100" help:"Clicks per second from which a sale counts as hot, per process."`
	Factor int `name:"hot-factor" env:"MIAOSHA_HOT_FACTOR" default:"10" help:"A hot sale also has this many times the median clicks of the other open sales."`
}

// Validate returns an error for bounds that make no sense.
func (c Config) Validate() error {
	switch {
	case c.Clicks < 1:
		return errors.New("--hot-clicks (MIAOSHA_HOT_CLICKS): at least 1")
	case c.Factor < 2:
		return errors.New("--hot-factor (MIAOSHA_HOT_FACTOR): at least 2")
	}
	return nil
}

// Sale is a hot sale. The last second counts half in its clicks, the second before a quarter, and so on.
type Sale struct {
	ID              int64     `json:"sale"`
	ClicksPerSecond float64   `json:"clicks_per_second"`
	Left            int       `json:"left"`
	Since           time.Time `json:"since"`
}

// Report has the hottest sales, ten at most, and what they are compared with.
type Report struct {
	Sales           []Sale  `json:"sales"`
	Open            int     `json:"open"`                     // sales that are open
	Median          float64 `json:"median_clicks_per_second"` // of the open sales but the hottest
	ClicksPerSecond int     `json:"hot_clicks"`               // the bounds
	Factor          int     `json:"hot_factor"`
}

// Monitor watches the sales of one process.
type Monitor struct {
	engine *seckill.Engine
	cache  *goods.Cache
	log    *slog.Logger
	heats  heats // only Run uses it
	rounds *rounds.Rounds
	metric *prometheus.Desc

	mu   sync.Mutex
	last Report
}

// NewMonitor returns a Monitor. Its error names the setting.
func NewMonitor(cfg Config, engine *seckill.Engine, cache *goods.Cache, log *slog.Logger) (*Monitor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Monitor{engine: engine, cache: cache, log: log, rounds: rounds.New(),
		heats: heats{cfg: cfg, bySale: map[int64]*heat{}},
		last:  Report{Sales: []Sale{}, ClicksPerSecond: cfg.Clicks, Factor: cfg.Factor},
		metric: prometheus.NewDesc("miaosha_hot_sale_clicks_per_second",
			"Clicks a second of the hottest sales, ten at most. A sale that is not hot has no series.",
			[]string{"sale"}, nil)}, nil
}

// Run measures once a second until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	var before time.Time
	m.rounds.Run(ctx, measureLimit, rounds.Every(measureEvery), func(limited context.Context) {
		now := time.Now()
		if !before.IsZero() {
			m.measure(limited, now, now.Sub(before))
		}
		before = now
	})
	return nil
}

// measure compares the open sales, logs which have become hot or have cooled down, and makes the report. A shop without
// clicks reads no sales.
func (m *Monitor) measure(ctx context.Context, now time.Time, since time.Duration) {
	clicks := m.heats.newClicks(m.engine.Clicks())
	if len(clicks) == 0 && len(m.Report().Sales) == 0 {
		return
	}
	sales, _, err := m.cache.Live(ctx)
	if err != nil {
		return // Postgres is down for a minute: that is logged elsewhere
	}
	open, left := map[int64]int64{}, map[int64]int{}
	for _, s := range sales {
		if s.Window(m.engine.Now()) == nil {
			open[s.ID], left[s.ID] = clicks[s.ID], m.engine.Left(s)
		}
	}
	median, changes := m.heats.update(now, since, open)
	for _, c := range changes {
		units, isOpen := left[c.sale]
		log := m.log.With("sale", c.sale, "clicks_per_second", tenths(c.rate), "open", isOpen, "left", units)
		if c.hot {
			log.Info("a sale is hot", "median_of_the_others", tenths(median))
		} else {
			log.Info("a hot sale has cooled down", "after", c.lasted.Round(time.Second))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last.Open, m.last.Median = len(open), tenths(median)
	m.last.Sales = m.heats.hottest(left)
}

// Report returns the hot sales as of the last measurement.
func (m *Monitor) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Collectors returns the metric. Register it once.
func (m *Monitor) Collectors() []prometheus.Collector { return []prometheus.Collector{m} }

// Describe implements prometheus.Collector.
func (m *Monitor) Describe(out chan<- *prometheus.Desc) { out <- m.metric }

// Collect implements prometheus.Collector.
func (m *Monitor) Collect(out chan<- prometheus.Metric) {
	for _, s := range m.Report().Sales {
		out <- prometheus.MustNewConstMetric(m.metric, prometheus.GaugeValue, s.ClicksPerSecond,
			strconv.FormatInt(s.ID, 10))
	}
}
