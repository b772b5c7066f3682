package bench

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"miaosha/seckill/report"
)

//go:embed report.html
var htmlText string

var htmlTemplate = report.New(htmlText, template.FuncMap{
	"counts":    func(m map[string]int64) string { return strings.Trim(formatCounts(m), " ()") },
	"ran":       Turn.ran,
	"units":     func(n int) string { return report.Number(float64(n)) },
	"name":      func(name string) template.HTML { return named(name).HTML() },
	"number":    func(n int64) string { return report.Number(float64(n)) },
	"latencies": Turn.latencies, "remarks": Turn.remarks, "ramp": Report.rampTable,
	"buys": Turn.buys, "latencyPlot": Turn.latencyPlot, "flowPlot": Turn.flowPlot,
})

// HTML writes the report as one HTML page that loads nothing else.
func (r Report) HTML(w io.Writer) error {
	err := htmlTemplate.ExecuteTemplate(w, "frame", struct {
		Report
		Head report.Head
	}{r, r.head()})
	if err != nil {
		return fmt.Errorf("write the HTML report: %w", err)
	}
	return nil
}

// names are the Chinese names of what a report counts and measures.
var names = map[string]string{"offered": "到达", "accepted": "受理", "refused": "拒绝", "failed": "失败", "results": "得知结果",
	"pages": "列表", "paid": "付款",
	"committed": "落库", "no result": "没有结果", "aborted requests": "中途放弃", "accept": "受理", "refusal": "拒绝",
	"once sent":    "拒绝（从发出算起）",
	"result known": "得知结果", "page": "列表", "bench's lag": "压测端自己的滞后", "accept, cold": "受理（冷门秒杀）",
	"turn": "轮次", "planned": "计划", "goodput": "有效成交", "of peak": "占峰值", "refusal p99": "拒绝 p99", "500s": "500 错误"}

func named(name string) report.Words { return report.Words{En: name, Zh: cmp.Or(names[name], name)} }

// head returns the top of the page.
func (r Report) head() report.Head {
	h := report.Head{Title: report.Words{En: "miaosha bench: " + r.Shape, Zh: "miaosha 压测：" + r.Shape}, At: r.At,
		Machine: r.Machine, Origin: r.Origin}
	h.Good, h.Verdict = r.verdict()
	what := report.Words{En: report.Number(float64(r.Buyers)) + " buyers",
		Zh: report.Number(float64(r.Buyers)) + " 个买家"}
	add := func(en, zh string) { what.En, what.Zh = what.En+", "+en, what.Zh+"，"+zh }
	if r.Stock > 0 {
		add("stock "+report.Number(float64(r.Stock)), "库存 "+report.Number(float64(r.Stock))+" 件")
	}
	add(fmt.Sprintf("%d %% poll for their result, %d %% pay", r.Poll, r.Pay),
		fmt.Sprintf("%d%% 轮询结果，%d%% 付款", r.Poll, r.Pay))
	for _, more := range r.conditions() {
		add(more.En, more.Zh)
	}
	h.Facts = append(h.Facts, what, report.Words{En: "Shop: " + r.URL +
		". Bench, shop and stores share this machine unless the address names another one.",
		Zh: "店铺：" + r.URL + "。除非地址在另一台机器上，压测端、店铺和数据库共用这台机器。"})
	if y := r.Baseline; y != nil {
		h.Facts = append(h.Facts, report.Words{En: fmt.Sprintf(
			"%.2f of what a bare handler answers (%.0f/s before, %.0f/s after).", y.Ratio, y.Before, y.After),
			Zh: fmt.Sprintf("是空处理器的 %.2f 倍（之前每秒 %.0f 次，之后每秒 %.0f 次）。", y.Ratio, y.Before, y.After)})
	}
	if r.Audit != nil && !r.Audit.Clean {
		h.Facts = append(h.Facts, report.Same(strings.TrimSpace(r.Audit.Said)))
	}
	return h
}

// verdict returns the run in one sentence, and whether nothing was wrong.
func (r Report) verdict() (good bool, w report.Words) {
	figure, unit := r.Headline()
	n := report.Number(figure)
	w = report.Words{En: n + " " + unit, Zh: fmt.Sprintf(
		map[string]string{"soldout": "每秒拒绝 %s 次", "polls": "每秒回答 %s 次结果查询", "list": "每秒送出 %s 次列表",
			"ramp": "面对 100 倍容量的请求，成交仍是峰值的 %s%%", "conns": "每条连接占内存 %s kB"}[r.Shape], n)}
	if strings.HasPrefix(w.Zh, "%!") {
		w.Zh = "每秒成交 " + n + " 单"
	}
	add := func(en, zh string) { w.En, w.Zh = w.En+en, w.Zh+zh }
	var failed int64
	for _, t := range r.Turns {
		failed += t.Failed
	}
	if failed > 0 {
		add(fmt.Sprintf(", %s requests failed", report.Number(float64(failed))),
			fmt.Sprintf("，%s 个请求失败", report.Number(float64(failed))))
	}
	switch {
	case r.Audit == nil:
		add("; the orders were not checked, because the stores were not reached.", "；连不上数据库，没有核对订单。")
	case !r.Audit.Clean:
		add(", but an invariant is broken.", "，但有不变式被破坏。")
		return false, w
	case r.Wrong != "":
		add(", but "+r.Wrong+".", "，但订单与买家得知的结果不符："+r.Wrong+"。")
		return false, w
	case r.Orders != nil && r.sells():
		orders := report.Number(float64(*r.Orders))
		add("; the "+orders+" orders are what the buyers were told, and every invariant holds.",
			"；"+orders+" 个订单与买家得知的结果一致，不变式全部成立。")
	default:
		add("; every invariant holds.", "；不变式全部成立。")
	}
	return true, w
}

// ran says how long a turn was, and how much was sent.
func (t Turn) ran() report.Words {
	var w report.Words
	add := func(en, zh string, args ...any) {
		w.En, w.Zh = w.En+fmt.Sprintf(en, args...), w.Zh+fmt.Sprintf(zh, args...)
	}
	add("%.1f s over %s connections, %s responses a second", "%.1f 秒，%s 条连接，每秒 %s 个响应", t.Seconds,
		report.Number(float64(t.Conns)), report.Number(t.Responses))
	if t.Planned > 0 {
		add("; %s buyers a second were planned", "；计划每秒来 %s 个买家", report.Number(t.Planned))
	}
	if t.RanOut {
		add("; the buyers ran out before the time was over", "；时间没到，买家就用完了")
	}
	if u := t.Shop; u != nil {
		add("; the shop used %.2f s of CPU and %.0f MB of memory at most", "；店铺用了 %.2f 秒 CPU，内存最多 %.0f MB", u.CPU,
			float64(u.Memory)/1e6)
	}
	return w
}

// latencyPlot returns latency by percentile. Both axes are logarithmic, which shows the tail.
func (t Turn) latencyPlot() (p report.Plot) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range t.latencies() {
		for _, c := range l.Curve {
			lo, hi = min(lo, max(c.Millis, 0.01)), max(hi, c.Millis)
		}
	}
	if hi == 0 {
		return p
	}
	p = report.Plot{Title: report.Words{En: "Latency by percentile", Zh: "各百分位的延迟"},
		XName: report.Words{En: "percent of the responses that were faster", Zh: "比它快的响应所占百分比"},
		YName: report.Words{En: "latency in ms, from the planned click", Zh: "延迟（毫秒），从计划的点击算起"}}
	from, to := math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi)+1e-9)
	if to == from {
		to++
	}
	x := func(percent float64) float64 { return -math.Log10(1-percent/100) / 4 } // 0 % is 0, 99.99 % is 1
	y := func(ms float64) float64 { return (math.Log10(max(ms, 0.01)) - from) / (to - from) }
	for _, percent := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		p.TickX(x(percent), fmt.Sprintf("%g", percent))
	}
	for e := from; e <= to; e++ {
		p.TickY((e-from)/(to-from), fmt.Sprintf("%g", math.Pow(10, e)))
	}
	for _, l := range t.latencies() {
		p.At(named(l.Name), len(l.Curve), func(i int) (float64, float64) {
			return x(l.Curve[i].Percent), y(l.Curve[i].Millis)
		})
	}
	return p
}

// flowPlot returns the rates over time, by the samples.
func (t Turn) flowPlot() (p report.Plot) {
	type flow struct {
		name string
		of   func(Sample) int64
	}
	flows := []flow{
		{"accepted", func(s Sample) int64 { return s.Accepted }},
		{"refused", func(s Sample) int64 { return s.Refused }},
		{"committed", func(s Sample) int64 { return int64(s.Sold) }},
		{"failed", func(s Sample) int64 { return s.Failed }},
		{"pages", func(s Sample) int64 { return s.Pages }},
	}
	if !t.buys() {
		flows = append(flows, flow{"results", func(s Sample) int64 { return s.Known }})
	}
	s := append([]Sample{{}}, t.Samples...)
	if len(s) < 3 {
		return p
	}
	p = report.Plot{Title: report.Words{En: "Each second", Zh: "每秒的数量"},
		XName: report.Words{En: "seconds since the first click", Zh: "从第一次点击算起的秒数"},
		YName: report.Words{En: "how many a second", Zh: "每秒多少个"}}
	end, most := s[len(s)-1].At, 1.0
	rate := func(of func(Sample) int64, i int) float64 { // over half a second, to smooth the curve
		j := max(0, i-5)
		return float64(of(s[i])-of(s[j])) / max(s[i].At-s[j].At, 0.01)
	}
	for i := 1; i < len(s); i++ {
		for _, f := range flows {
			most = max(most, rate(f.of, i))
		}
	}
	most = report.Round(most)
	for i := range 5 {
		part := float64(i) / 4
		p.TickX(part, fmt.Sprintf("%.1f", part*end))
		p.TickY(part, fmt.Sprintf("%.0f", part*most))
	}
	for _, f := range flows {
		if f.of(s[len(s)-1]) > 0 {
			p.At(named(f.name), len(s)-1, func(i int) (float64, float64) {
				return s[i+1].At / end, rate(f.of, i+1) / most
			})
		}
	}
	return p
}
