package bench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"miaosha/seckill/report"
)

// Turn is the result of one turn. Latencies are measured from the planned time of the click.
type Turn struct {
	Name    string  `json:"name"`
	Planned float64 `json:"planned_per_second,omitempty"`
	Seconds float64 `json:"seconds"`        // for how long buyers arrived
	RanOut  bool    `json:"buyers_ran_out"` // before the time was over: more buyers are needed
	Conns   int     `json:"conns"`
	Counts
	RefusedBy map[string]int64 `json:"refused_by"`
	FailedBy  map[string]int64 `json:"failed_by"`
	Outcomes  map[string]int64 `json:"outcomes"`

	Sold      int     `json:"sold"`                 // units, by Postgres; 0 if unknown
	Committed float64 `json:"committed_per_second"` // from the first click to the last committed unit
	Responses float64 `json:"answers_per_second"`
	// ramp: committed, from the first commit to the last while buyers arrived
	Goodput float64 `json:"goodput_per_second,omitempty"`
	OfPeak  float64 `json:"percent_of_peak,omitempty"` // ramp: goodput, of the highest of all turns

	Accept  Latency  `json:"accept"`
	Refusal Latency  `json:"refusal"`
	Sent    Latency  `json:"refusal_once_sent"` // measured from sending the request, so without the lag of the bench
	Result  Latency  `json:"result_known"`
	Page    Latency  `json:"page"`
	Lag     Latency  `json:"tool_lag"` // how late the bench itself was
	Shop    *Usage   `json:"shop,omitempty"`
	Cost    *Cost    `json:"cost,omitempty"`
	List    *List    `json:"list,omitempty"`
	Memory  *Memory  `json:"memory,omitempty"`
	Cold    *Cold    `json:"cold_sales,omitempty"`
	Told    *Latency `json:"told,omitempty"` // streams: from the order's row, before its COMMIT, to its event
	Samples []Sample `json:"samples"`
}

// Faults returns the number of responses with status 500: the shop's own failures.
func (t Turn) Faults() (n int64) {
	for kind, m := range t.FailedBy {
		if strings.HasPrefix(kind, "500") {
			n += m
		}
	}
	return n
}

// Throughput returns the committed purchases a second, or the accepted ones where commits are unknown.
func (t Turn) Throughput() float64 {
	if t.Committed > 0 {
		return t.Committed
	}
	return float64(t.Accepted) / max(t.Seconds, 1e-9)
}

func perSecond(n int, d time.Duration) float64 {
	return math.Round(10*float64(n)/max(d.Seconds(), 1e-9)) / 10
}

func turnReport(p plan, all *tally, arriving, running time.Duration) Turn {
	return Turn{Name: p.name, Seconds: arriving.Seconds(), Conns: p.conns, Counts: all.Counts, RefusedBy: all.refused,
		FailedBy: all.failed,
		Outcomes: all.outcomes, Accept: latency(all.accept), Refusal: latency(all.refusal), Sent: latency(all.sent),
		Result: latency(all.known),
		Page:   latency(all.page), Lag: latency(all.lag), Responses: perSecond(int(all.Requests), running)}
}

// Report is the result of a run.
type Report struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	report.Origin
	Shape    string    `json:"shape"`
	URL      string    `json:"url"`
	Buyers   int       `json:"buyers"`
	Stock    int       `json:"stock,omitempty"` // of the sale that the bench created
	Poll     int       `json:"poll_percent"`
	Pay      int       `json:"pay_percent"`
	Turns    []Turn    `json:"turns"`
	Orders   *int      `json:"orders,omitempty"` // of the sale, counted in Postgres
	Cold     *int      `json:"cold_orders,omitempty"`
	Filled   int       `json:"filled,omitempty"` // old orders in the tables
	Captcha  bool      `json:"captcha"`          // every buyer solved a captcha first
	Audit    *Audit    `json:"audit,omitempty"`
	Wrong    string    `json:"wrong,omitempty"` // why the orders do not match the results; "" if they do
	Baseline *Baseline `json:"yardstick,omitempty"`
}

// Audit is the result of checking the invariants.
type Audit struct {
	Clean bool   `json:"clean"`
	Said  string `json:"said"`
}

// Headline returns the main figure of the run and its unit. A rate is compared with the baseline.
func (r Report) Headline() (figure float64, unit string) {
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
		return t.OfPeak, "% of the peak is sold at 100 times the capacity"
	case "conns":
		return t.Memory.PerConn() / 1000, "kB for each connection"
	}
	return r.Turns[0].Throughput(), "purchases a second"
}

// Write prints the report as text.
func (r Report) Write(w io.Writer) {
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	stock := ""
	if r.Stock > 0 {
		stock = fmt.Sprintf(", stock %d", r.Stock)
	}
	for _, more := range r.conditions() {
		stock += ", " + more.En
	}
	p("%s at %s, %d buyers%s\n%s", r.Shape, r.URL, r.Buyers, stock, r.Machine)
	for _, t := range r.Turns {
		p("")
		planned := ""
		if t.Planned > 0 {
			planned = fmt.Sprintf(" of %.0f planned", t.Planned)
		}
		p("%s: %.1f s over %d connections, %.0f %s/s%s, %.0f responses/s", t.Name, t.Seconds, t.Conns,
			float64(t.Offered)/max(t.Seconds, 1e-9), t.offeredUnit(), planned, t.Responses)
		if t.RanOut {
			p("  the buyers ran out before the time was over; use a larger -n")
		}
		p("  offered    %d", t.Offered)
		if t.buys() {
			p("  accepted   %d", t.Accepted)
		}
		p("  refused    %d%s", t.Refused, formatCounts(t.RefusedBy))
		p("  failed     %d%s", t.Failed, formatCounts(t.FailedBy))
		if t.Pages == 0 {
			p("  results    %d%s", t.Known, formatCounts(t.Outcomes))
		}
		for _, extra := range []struct {
			name string
			n    int64
		}{{"paid", t.Paid}, {"pages", t.Pages}, {"aborted", t.Aborted}, {"no result", t.Unknown}} {
			if extra.n > 0 {
				p("  %-10s %d", extra.name, extra.n)
			}
		}
		if r.Orders != nil && t.buys() {
			p("  committed  %d, %.0f/s", t.Sold, t.Committed)
		}
		for _, l := range t.remarks() {
			p("  %s", l.En)
		}
		if t.Shop != nil {
			p("  shop       %.2f s of CPU, %.0f MB at most", t.Shop.CPU, float64(t.Shop.Memory)/1e6)
		}
		p("  %-12s %9s %9s %9s %9s %9s  ms", "", "p50", "p90", "p99", "p99.9", "max")
		for _, l := range t.latencies() {
			p("  %-12s %9.1f %9.1f %9.1f %9.1f %9.1f", l.Name, l.P50, l.P90, l.P99, l.P999, l.Max)
		}
	}
	p("")
	if rows := r.rampTable(); rows != nil {
		p("  %-9s %9s %9s %9s %8s %12s %12s %5s", "", "planned", "offered", "goodput", "of peak", "refusal p99",
			"once sent", "500s")
		for _, row := range rows {
			p("  %-9s %9s %9s %9s %8s %12s %12s %5s", row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7])
		}
		p("")
	}
	figure, unit := r.Headline()
	if y := r.Baseline; y != nil {
		p("baseline: a bare handler answers a purchase %.0f/s before, %.0f/s after; %.0f %s are %.2f of it", y.Before,
			y.After, figure, unit, y.Ratio)
	} else {
		p("%.0f %s", figure, unit)
	}
	if r.Orders != nil && r.sells() {
		p("orders in Postgres: %d", *r.Orders)
	}
	if r.Audit != nil {
		p("audit: %s", strings.TrimSpace(r.Audit.Said))
	}
}

// conditions names what is unusual about the run.
func (r Report) conditions() (all []report.Words) {
	if r.Filled > 0 {
		all = append(all, report.Words{En: fmt.Sprintf("beside %d old orders", r.Filled),
			Zh: fmt.Sprintf("另有 %d 个老订单", r.Filled)})
	}
	if r.Captcha {
		all = append(all, report.Words{En: "with captcha", Zh: "带验证码"})
	}
	return all
}

// sells reports whether any turn was about purchases.
func (r Report) sells() bool { return slices.ContainsFunc(r.Turns, Turn.buys) }

// buys reports whether the turn was about purchases rather than polls or lists.
func (t Turn) buys() bool { return t.Pages == 0 && (t.Accepted > 0 || t.Known == 0) }

// offeredUnit names what the turn offered to the shop.
func (t Turn) offeredUnit() string {
	if t.buys() {
		return "buyers"
	}
	return "requests"
}

// remarks returns the lines that only some turns have.
func (t Turn) remarks() (all []report.Words) {
	add := func(en, zh string, args ...any) {
		all = append(all, report.Words{En: fmt.Sprintf(en, args...), Zh: fmt.Sprintf(zh, args...)})
	}
	if t.Cost != nil {
		all = append(all, t.Cost.lines()...)
	}
	if p := t.List; p != nil && p.Encoding != "" {
		add("the list: %d sales, %d bytes of %s, %d plain", "列表：%d 场秒杀，压缩后 %d 字节（%s），压缩前 %d 字节", p.Sales, p.Bytes,
			p.Encoding, p.Plain)
	} else if p != nil {
		add("the list: %d sales, %d bytes, not compressed", "列表：%d 场秒杀，%d 字节，未压缩", p.Sales, p.Bytes)
	}
	if h := t.Memory; h != nil {
		add("memory: %.1f MB before, %.1f MB with %d connections (%.1f kB each), %.1f MB %.0f s after closing them",
			"内存：之前 %.1f MB，%[3]d 条连接时 %[2].1f MB（每条 %[4].1f kB），全部关闭 %[6].0f 秒后 %[5].1f MB", float64(h.Before)/1e6,
			float64(h.Open)/1e6, h.Conns, h.PerConn()/1000, float64(h.After)/1e6, h.Seconds)
		add("closed by the shop before that: %d", "在此之前由店铺关闭的连接：%d 条", h.ClosedByShop)
	}
	if c := t.Cold; c != nil {
		add("cold: %d buyers at %d other sales, %d accepted, %d refused%s, %d failed%s; "+
			"accept p99 %.1f ms, at the main sale %.1f ms",
			"冷门秒杀：%d 个买家在另外 %d 场秒杀，受理 %d，拒绝 %d%s，失败 %d%s；受理 p99 %.1f 毫秒，主秒杀 %.1f 毫秒", c.Offered, c.Sales,
			c.Accepted, c.Refused, formatCounts(c.RefusedBy), c.Failed, formatCounts(c.FailedBy),
			c.Accept.P99, t.Accept.P99)
	}
	if t.Told != nil {
		add("event streams: %d orders were told of", "推送：告知了 %d 个订单", t.Told.Count)
	}
	if t.Lag.P99 > 100 {
		add("LAG: the bench itself was late by %.0f ms at p99: it is at its limit, and the latencies include this lag",
			"注意：压测端自己的 p99 就晚了 %.0f 毫秒，已到极限，下面的延迟包含这段时间", t.Lag.P99)
	}
	return all
}

// rampTable compares the turns of a ramp: goodput and refusals. It returns nil for other shapes.
func (r Report) rampTable() (rows [][8]string) {
	if r.Shape != "ramp" {
		return nil
	}
	for _, t := range r.Turns {
		row := [8]string{t.Name, "", fmt.Sprintf("%.0f/s", float64(t.Offered)/max(t.Seconds, 1e-9)),
			fmt.Sprintf("%.0f/s", t.Goodput),
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

type namedLatency struct {
	Name string
	Latency
}

// latencies returns the distributions that have a value.
func (t Turn) latencies() []namedLatency {
	all := []namedLatency{{"accept", t.Accept}, {"refusal", t.Refusal}, {"once sent", t.Sent},
		{"result known", t.Result}, {"page", t.Page}, {"bench's lag", t.Lag}}
	if t.Cold != nil {
		all = append(all, namedLatency{"accept, cold", t.Cold.Accept})
	}
	if t.Told != nil {
		all = append(all, namedLatency{"told", *t.Told})
	}
	return slices.DeleteFunc(all, func(l namedLatency) bool { return l.Count == 0 })
}

// formatCounts formats counts by key, the highest first.
func formatCounts(m map[string]int64) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	if len(keys) == 0 {
		return ""
	}
	return " (" + strings.Join(keys, ", ") + ")"
}
