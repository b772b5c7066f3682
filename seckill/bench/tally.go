package bench

import (
	"maps"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts what a few of the workers were told. Several of them share one, since thousands of histograms would be
// the tool's own memory pressure.
type tally struct {
	mu sync.Mutex
	counts
	refused  map[string]int64 // by code
	failed   map[string]int64 // by kind
	outcomes map[string]int64 // by final state

	// In µs, from the planned moment; sent from the moment a request that was refused was sent.
	accept, refusal, known, page, lag, sent *hdrhistogram.Histogram
}

// counts are cumulative.
type counts struct {
	Offered  int64 `json:"offered"`  // buyers whose first request was sent
	Requests int64 `json:"requests"` // answers of any kind
	Accepted int64 `json:"accepted"` // buyers who were told 202
	Refused  int64 `json:"refused"`  // answers that said no
	Failed   int64 `json:"failed"`   // requests without a proper answer
	Known    int64 `json:"known"`    // buyers who know their final result
	Paid     int64 `json:"paid"`
	Pages    int64 `json:"pages"`   // that came whole
	Aborted  int64 `json:"aborted"` // requests that an impatient buyer gave up
	Unknown  int64 `json:"unknown"` // buyers who polled and were still without a result at the end
}

func (c *counts) add(o counts) {
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

// Two digits, a hundredth of the value, up to two minutes.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 120_000_000, 2) }

func newTally() *tally {
	return &tally{refused: map[string]int64{}, failed: map[string]int64{}, outcomes: map[string]int64{},
		accept: newHistogram(), refusal: newHistogram(), known: newHistogram(), page: newHistogram(), lag: newHistogram(), sent: newHistogram()}
}

// record takes what is longer than the histogram's range as its end.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(1, d.Microseconds()), h.HighestTrackableValue()))
}

func (t *tally) note(f func(*tally)) {
	t.mu.Lock()
	f(t)
	t.mu.Unlock()
}

func (t *tally) now() counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}

// merge adds o, which nobody writes to any more.
func (t *tally) merge(o *tally) {
	t.counts.add(o.counts)
	for _, m := range [][2]map[string]int64{{t.refused, o.refused}, {t.failed, o.failed}, {t.outcomes, o.outcomes}} {
		for k := range maps.Keys(m[1]) {
			m[0][k] += m[1][k]
		}
	}
	t.accept.Merge(o.accept)
	t.refusal.Merge(o.refusal)
	t.known.Merge(o.known)
	t.page.Merge(o.page)
	t.lag.Merge(o.lag)
	t.sent.Merge(o.sent)
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

// Point is the latency that a percentage of answers did not exceed.
type Point struct {
	Percent float64 `json:"percent"`
	Millis  float64 `json:"ms"`
}

// curved are the percentiles of the plot: each step halves or so what is left.
var curved = []float64{1, 10, 25, 50, 75, 90, 95, 98, 99, 99.5, 99.9, 99.95, 99.99}

func latency(h *hdrhistogram.Histogram) Latency {
	l := Latency{Count: h.TotalCount()}
	if l.Count == 0 {
		return l
	}
	at := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1000 }
	l.P50, l.P90, l.P99, l.P999, l.Max = at(50), at(90), at(99), at(99.9), float64(h.Max())/1000
	for _, p := range curved {
		if p > 50 && float64(l.Count)*(100-p) < 99.9 {
			break // fewer than one answer is beyond
		}
		l.Curve = append(l.Curve, Point{p, at(p)})
	}
	return l
}
