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
	Goodput   float64 `json:"goodput_per_second,omitempty"` // ramp: committed from the first commit to the last while buyers came
	OfPeak    float64 `json:"percent_of_peak,omitempty"`    // ramp: of the most that a turn had

	Accept  Latency  `json:"accept"`
	Refusal Latency  `json:"refusal"`
	Sent    Latency  `json:"refusal_once_sent"` // from when the request left, which a tool that lags doesn't lengthen
	Result  Latency  `json:"result_known"`
	Loaded  Latency  `json:"page"`
	Lag     Latency  `json:"tool_lag"` // by how much the tool itself was late
	Shop    *Usage   `json:"shop,omitempty"`
	Page    *Page    `json:"list,omitempty"`
	Held    *Held    `json:"memory,omitempty"`
	Cold    *Cold    `json:"cold_sales,omitempty"`
	Samples []Sample `json:"samples"`
}

// Faults counts the answers of 500: the shop's own failures.
func (t Turn) Faults() (n int64) {
	for kind, m := range t.FailedBy {
		if strings.HasPrefix(kind, "500") {
			n += m
		}
	}
	return n
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
		Outcomes: all.outcomes, Accept: latency(all.accept), Refusal: latency(all.refusal), Sent: latency(all.sent), Result: latency(all.known),
		Loaded: latency(all.page), Lag: latency(all.lag)}
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
	Cold      *int       `json:"cold_orders,omitempty"`
	Filled    int        `json:"filled,omitempty"` // old users and orders that were in the tables
	Captcha   bool       `json:"captcha"`          // everybody solved a sum first
	Audit     *Audit     `json:"audit,omitempty"`
	Yardstick *Yardstick `json:"yardstick,omitempty"`
}

// Audit is whether the invariants hold, and what the audit said.
type Audit struct {
	Clean bool   `json:"clean"`
	Said  string `json:"said"`
}

// Headline is the figure that a run is made for. The yardstick is held against it where it is one of a second.
func (r Report) Headline() (figure float64, what string) {
	t := r.Turns[len(r.Turns)-1]
	rate := func(n int64) float64 { return float64(n) / max(t.Seconds, 1e-9) }
	switch r.Shape {
	case "soldout":
		return rate(t.Refused), "refusals a second"
	case "polls":
		return rate(t.Known), "results a second"
	case "list":
		return rate(t.Pages), "lists a second"
	case "ramp":
		return t.OfPeak, "% of the peak are sold at 100 times the capacity"
	case "conns":
		return t.Held.Each() / 1000, "kB for each connection"
	}
	return r.Turns[0].Throughput(), "purchases a second"
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	stock := ""
	if r.Stock > 0 {
		stock = fmt.Sprintf(", stock %d", r.Stock)
	}
	for _, more := range r.more() {
		stock += ", " + more
	}
	p("%s at %s, %d buyers%s\n%s", r.Shape, r.URL, r.Buyers, stock, r.Machine)
	for _, t := range r.Turns {
		p("")
		planned := ""
		if t.Planned > 0 {
			planned = fmt.Sprintf(" of %.0f planned", t.Planned)
		}
		p("%s: %.1f s over %d connections, %.0f %s/s%s, %.0f answers/s", t.Name, t.Seconds, t.Conns,
			float64(t.Offered)/max(t.Seconds, 1e-9), t.who(), planned, t.Answers)
		if t.RanOut {
			p("  the buyers ran out before the time did; more of them: -n")
		}
		p("  offered    %d", t.Offered)
		if t.buys() {
			p("  accepted   %d", t.Accepted)
		}
		p("  refused    %d%s", t.Refused, list(t.RefusedBy))
		p("  failed     %d%s", t.Failed, list(t.FailedBy))
		if t.Pages == 0 {
			p("  know       %d%s", t.Known, list(t.Outcomes))
		}
		for _, extra := range []struct {
			name string
			n    int64
		}{{"paid", t.Paid}, {"pages", t.Pages}, {"gave up", t.Aborted}, {"no result", t.Unknown}} {
			if extra.n > 0 {
				p("  %-10s %d", extra.name, extra.n)
			}
		}
		if r.Orders != nil && t.buys() {
			p("  committed  %d, %.0f/s", t.Sold, t.Committed)
		}
		for _, l := range t.remarks() {
			p("  %s", l)
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
	if rows := r.ramp(); rows != nil {
		p("  %-9s %9s %9s %9s %8s %12s %12s %5s", "", "planned", "offered", "goodput", "of peak", "refusal p99", "once sent", "500s")
		for _, row := range rows {
			p("  %-9s %9s %9s %9s %8s %12s %12s %5s", row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
		}
		p("")
	}
	figure, what := r.Headline()
	if y := r.Yardstick; y != nil {
		p("yardstick: a bare handler answers a purchase %.0f/s before, %.0f/s after; %.0f %s are %.2f of it", y.Before, y.After, figure, what, y.Ratio)
	} else {
		p("%.0f %s", figure, what)
	}
	if r.Orders != nil && r.sells() {
		p("orders in Postgres: %d", *r.Orders)
	}
	if r.Audit != nil {
		p("audit: %s", strings.TrimSpace(r.Audit.Said))
	}
}

// more is what is unusual about a run.
func (r Report) more() (all []string) {
	if r.Filled > 0 {
		all = append(all, fmt.Sprintf("beside %d old users and orders", r.Filled))
	}
	if r.Captcha {
		all = append(all, "after a sum")
	}
	return all
}

// sells tells whether any turn was about buying.
func (r Report) sells() bool { return slices.ContainsFunc(r.Turns, Turn.buys) }

// buys tells whether a turn was about buying: pages and polls are not.
func (t Turn) buys() bool { return t.Pages == 0 && (t.Accepted > 0 || t.Known == 0) }

// who is what is offered to the shop.
func (t Turn) who() string {
	if t.buys() {
		return "buyers"
	}
	return "requests"
}

// remarks are the lines that only some turns have.
func (t Turn) remarks() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if p := t.Page; p != nil && p.Encoding != "" {
		add("the list: %d sales, %d bytes of %s, %d plain", p.Sales, p.Bytes, p.Encoding, p.Plain)
	} else if p != nil {
		add("the list: %d sales, %d bytes, not compressed", p.Sales, p.Bytes)
	}
	if h := t.Held; h != nil {
		add("memory: %.1f MB before, %.1f MB with %d connections (%.1f kB each), %.1f MB %.0f s after their end", float64(h.Before)/1e6,
			float64(h.Open)/1e6, h.Conns, h.Each()/1000, float64(h.After)/1e6, h.Seconds)
		add("closed by the shop meanwhile: %d", h.Cut)
	}
	if c := t.Cold; c != nil {
		add("cold: %d buyers at %d other sales, %d accepted, %d refused%s, %d failed%s; accept p99 %.1f ms, here %.1f ms", c.Offered, c.Sales,
			c.Accepted, c.Refused, list(c.RefusedBy), c.Failed, list(c.FailedBy), c.Accept.P99, t.Accept.P99)
	}
	if t.Lag.P99 > 100 {
		add("LAG: the tool itself was late, by %.0f ms at p99: it had no more to give, and latencies hold its lag too", t.Lag.P99)
	}
	return all
}

// ramp is a table of the turns of a ramp: goodput, and how the others were turned away. nil for other shapes.
func (r Report) ramp() (rows [][8]string) {
	if r.Shape != "ramp" {
		return nil
	}
	for _, t := range r.Turns {
		row := [8]string{t.Name, "", fmt.Sprintf("%.0f/s", float64(t.Offered)/max(t.Seconds, 1e-9)), fmt.Sprintf("%.0f/s", t.Goodput),
			fmt.Sprintf("%.1f %%", t.OfPeak), "", "", fmt.Sprint(t.Faults())}
		if t.Planned > 0 {
			row[1] = fmt.Sprintf("%.0f/s", t.Planned)
		}
		if t.Refused > 0 {
			row[5], row[6] = fmt.Sprintf("%.1f ms", t.Refusal.P99), fmt.Sprintf("%.1f ms", t.Sent.P99)
		}
		rows = append(rows, row)
	}
	return rows
}

type named struct {
	Name string
	Latency
}

// latencies are those that there are.
func (t Turn) latencies() []named {
	all := []named{{"accept", t.Accept}, {"refusal", t.Refusal}, {"once sent", t.Sent}, {"result known", t.Result}, {"page", t.Loaded}, {"tool's lag", t.Lag}}
	if t.Cold != nil {
		all = append(all, named{"accept, cold", t.Cold.Accept})
	}
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
