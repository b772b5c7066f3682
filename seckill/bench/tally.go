package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts responses for several workers: thousands of histograms would use too much memory.
type tally struct {
	mu sync.Mutex
	Counts
	refused  map[string]int64 // by code
	failed   map[string]int64 // by kind
	outcomes map[string]int64 // by final state

	// In µs from the planned click; sent from sending a request that was refused.
	accept, refusal, known, page, lag, sent *hdrhistogram.Histogram
}

// Counts are cumulative.
type Counts struct {
	Offered  int64 `json:"offered"`  // buyers whose first request was sent
	Requests int64 `json:"requests"` // all responses
	Accepted int64 `json:"accepted"` // buyers with a 202
	Refused  int64 `json:"refused"`  // responses that refuse
	Failed   int64 `json:"failed"`   // requests without a valid response
	Known    int64 `json:"known"`    // buyers who know their final result
	Paid     int64 `json:"paid"`
	Pages    int64 `json:"pages"`   // lists received completely
	Aborted  int64 `json:"aborted"` // requests that an impatient buyer aborted
	Unknown  int64 `json:"unknown"` // buyers who polled and had no result at the end
}

func (c *Counts) add(o Counts) {
	c.Offered += o.Offered
	c.Requests += o.Requests
	c.Accepted += o.Accepted
	c.Refused += o.Refused
	c.Failed += o.Failed
	c.Known += o.Known
	c.Paid += o.Paid
	c.Pages += o.Pages
	c.Aborted += o.Aborted
	c.Unknown += o.Unknown
}

// Two digits (1 % precise), up to two minutes.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 2) }

func newTally() *tally {
	return &tally{refused: map[string]int64{}, failed: map[string]int64{}, outcomes: map[string]int64{},
		accept: newHistogram(), refusal: newHistogram(), known: newHistogram(), page: newHistogram(),
		lag: newHistogram(), sent: newHistogram()}
}

// record adds d; a value beyond the range of the histogram counts as its end.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(1, d.Microseconds()), h.HighestTrackableValue()))
}

func (t *tally) update(f func(*tally)) {
	t.mu.Lock()
	f(t)
	t.mu.Unlock()
}

func (t *tally) snapshot() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Counts
}

// merge adds o. No one may write to o after that.
func (t *tally) merge(o *tally) {
	t.Counts.add(o.Counts)
	for _, m := range [][2]map[string]int64{{t.refused, o.refused}, {t.failed, o.failed}, {t.outcomes, o.outcomes}} {
		for k, n := range m[1] {
			m[0][k] += n
		}
	}
	for _, h := range [][2]*hdrhistogram.Histogram{{t.accept, o.accept}, {t.refusal, o.refusal}, {t.known, o.known},
		{t.page, o.page}, {t.lag, o.lag}, {t.sent, o.sent}} {
		h[0].Merge(h[1])
	}
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`
	Curve []Point `json:"curve,omitempty"`
}

// Point is the latency that a percentage of responses did not exceed.
type Point struct {
	Percent float64 `json:"percent"`
	Millis  float64 `json:"ms"`
}

// percentiles are the points of the plot. Each step leaves about half of what was left.
var percentiles = []float64{1, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99}

func latency(h *hdrhistogram.Histogram) Latency {
	l := Latency{Count: h.TotalCount()}
	if l.Count == 0 {
		return l
	}
	at := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1000 }
	l.P50, l.P90, l.P99, l.P999, l.Max = at(50), at(90), at(99), at(99.9), float64(h.Max())/1000
	for _, p := range percentiles {
		if p > 50 && float64(l.Count)*(100-p) < 99.9 {
			break // less than one response is beyond
		}
		l.Curve = append(l.Curve, Point{p, at(p)})
	}
	return l
}
