package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Turn is what one turn gave. Latencies run from the planned moment of the click.
type Turn struct {
	Name    string  `json:"name"`
	Planned float64 `json:"planned_per_second,omitempty"`
	Seconds float64 `json:"seconds"`        // for which buyers came
	RanOut  bool    `json:"buyers_ran_out"` // before the time did: give it more
	Conns   int     `json:"conns"`
	counts
	RefusedBy map[string]int64 `json:"refused_by"`
	FailedBy  map[string]int64 `json:"failed_by"`
	Outcomes  map[string]int64 `json:"outcomes"`

	Sold      int     `json:"sold"`                 // units, by the shop's own books; 0 where they are out of reach
	Committed float64 `json:"committed_per_second"` // from the first click to the last unit on the books
	Answers   float64 `json:"answers_per_second"`

	Accept  Latency  `json:"accept"`
	Refusal Latency  `json:"refusal"`
	Result  Latency  `json:"result_known"`
	Lag     Latency  `json:"tool_lag"` // by how much the tool itself was late
	Shop    *Usage   `json:"shop,omitempty"`
	Samples []Sample `json:"samples"`
}

// Throughput is what counts of a turn: purchases a second that are on the books, else those accepted.
func (t Turn) Throughput() float64 {
	if t.Committed > 0 {
		return t.Committed
	}
	return float64(t.Accepted) / max(t.Seconds, 1e-9)
}

func perSecond(n int, d time.Duration) float64 {
	return math.Round(10*float64(n)/max(d.Seconds(), 1e-9)) / 10
}

func report(p plan, all *tally, came, answered time.Duration) Turn {
	t := Turn{Name: p.name, Seconds: came.Seconds(), Conns: p.conns, counts: all.counts, RefusedBy: all.refused, FailedBy: all.failed,
		Outcomes: all.outcomes, Accept: latency(all.accept), Refusal: latency(all.refusal), Result: latency(all.known), Lag: latency(all.lag)}
	t.Answers = perSecond(int(t.Requests), answered)
	return t
}

// Report is what a run gave.
type Report struct {
	At        time.Time  `json:"at"`
	Machine   string     `json:"machine"`
	Shape     string     `json:"shape"`
	URL       string     `json:"url"`
	Buyers    int        `json:"buyers"`
	Stock     int        `json:"stock,omitempty"` // of the sale that was made for it
	Poll      int        `json:"poll_percent"`
	Pay       int        `json:"pay_percent"`
	Turns     []Turn     `json:"turns"`
	Orders    *int       `json:"orders,omitempty"` // of the sale, counted in Postgres
	Audit     *Audit     `json:"audit,omitempty"`
	Yardstick *Yardstick `json:"yardstick,omitempty"`
}

// Audit is whether the invariants hold, and what the audit said.
type Audit struct {
	Clean bool   `json:"clean"`
	Said  string `json:"said"`
}

// Headline is the turn's figure that the yardstick is held against: refusals of a sold-out storm, else purchases.
func (r Report) Headline() (what string, perSecond float64) {
	t := r.Turns[0]
	if r.Shape == "soldout" {
		t = r.Turns[len(r.Turns)-1]
		return "refusals", float64(t.Refused) / max(t.Seconds, 1e-9)
	}
	return "purchases", t.Throughput()
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	stock := ""
	if r.Stock > 0 {
		stock = fmt.Sprintf(", stock %d", r.Stock)
	}
	p("%s at %s, %d buyers%s\n%s", r.Shape, r.URL, r.Buyers, stock, r.Machine)
	for _, t := range r.Turns {
		p("")
		planned := ""
		if t.Planned > 0 {
			planned = fmt.Sprintf(" of %.0f planned", t.Planned)
		}
		p("%s: %.1f s over %d connections, %.0f buyers/s%s, %.0f answers/s", t.Name, t.Seconds, t.Conns,
			float64(t.Offered)/max(t.Seconds, 1e-9), planned, t.Answers)
		if t.RanOut {
			p("  the buyers ran out before the time did; more of them: -n")
		}
		p("  offered    %d", t.Offered)
		p("  accepted   %d", t.Accepted)
		p("  refused    %d%s", t.Refused, list(t.RefusedBy))
		p("  failed     %d%s", t.Failed, list(t.FailedBy))
		p("  know       %d%s", t.Known, list(t.Outcomes))
		for _, extra := range []struct {
			name string
			n    int64
		}{{"paid", t.Paid}, {"gave up", t.Aborted}, {"no result", t.Unknown}} {
			if extra.n > 0 {
				p("  %-10s %d", extra.name, extra.n)
			}
		}
		if r.Orders != nil {
			p("  committed  %d, %.0f/s", t.Sold, t.Committed)
		}
		if t.Shop != nil {
			p("  the shop   %.2f s of CPU, %.0f MB at most", t.Shop.CPU, float64(t.Shop.Memory)/1e6)
		}
		p("  %-12s %9s %9s %9s %9s %9s  ms", "", "p50", "p90", "p99", "p99.9", "max")
		for _, l := range t.latencies() {
			p("  %-12s %9.1f %9.1f %9.1f %9.1f %9.1f", l.Name, l.P50, l.P90, l.P99, l.P999, l.Max)
		}
	}
	p("")
	if y := r.Yardstick; y != nil {
		what, n := r.Headline()
		p("yardstick: a bare handler answers %.0f/s before, %.0f/s after; %.0f %s/s are %.2f of it", y.Before, y.After, n, what, y.Ratio)
	}
	if r.Orders != nil {
		p("orders in Postgres: %d", *r.Orders)
	}
	if r.Audit != nil {
		p("audit: %s", strings.TrimSpace(r.Audit.Said))
	}
}

type named struct {
	Name string
	Latency
}

// latencies are those that there are.
func (t Turn) latencies() []named {
	all := []named{{"accept", t.Accept}, {"refusal", t.Refusal}, {"result known", t.Result}, {"tool's lag", t.Lag}}
	return slices.DeleteFunc(all, func(l named) bool { return l.Count == 0 })
}

// list names the kinds of a count, the most frequent first.
func list(m map[string]int64) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a] != m[b] {
			return int(m[b] - m[a])
		}
		return strings.Compare(a, b)
	})
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	if len(keys) == 0 {
		return ""
	}
	return " (" + strings.Join(keys, ", ") + ")"
}
