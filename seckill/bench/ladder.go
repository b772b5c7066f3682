package bench

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"

	"miaosha/seckill/report"
)

// LadderShape is the Config.Shape of a run of a Ladder. One buyer of LadderCrowd comes to a sale with units, the others
// to one that is sold out.
const (
	LadderShape = "ladder"
	LadderCrowd = 4
)

// visits lets each connection serve one buyer after the other, as a browser does: the list, the sale, the click, and
// polls until the result is known.
func visits(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	if d.expected, err = d.inspectList(ctx); err != nil {
		return nil, err
	}
	d.list = d.listRequest(encodings)
	return single(d.turn(ctx, plan{name: "visits", buyers: buyers, arrivals: len(buyers),
		duration: d.duration(), conns: d.Conns,
		firstStep: stepList, visits: true}))
}

// Ladder compares what one crowd meets at shops with more and more of their optimisations switched on.
type Ladder struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	report.Origin
	Buyers  int    `json:"buyers"`
	Conns   int    `json:"conns"`
	Seconds int    `json:"seconds"` // for how long buyers arrive in each round
	Rungs   []Rung `json:"rungs"`   // each has what the one before has, and one thing more
}

// Rung is a shop. Its figures are the means of its rounds.
type Rung struct {
	Name      string   `json:"name"` // what is switched on since the rung before
	Flags     []string `json:"flags"`
	Purchases float64  `json:"purchases_per_second"` // committed, from the first click to the last commit
	Factor    float64  `json:"factor"`               // of the purchases of the first rung
	Requests  float64  `json:"requests_per_second"`
	Click     float64  `json:"click_p99_ms"`
	Result    float64  `json:"result_p99_ms"` // from the click until the buyer knows the result
	Cost      float64  `json:"us_per_purchase,omitempty"`
	Exact     bool     `json:"exact"` // the audit was clean and the orders match the results, in every round
	Rounds    []Round  `json:"rounds"`
}

// Round is one run of a rung.
type Round struct {
	Turn  Turn   `json:"turn"`
	Audit Audit  `json:"audit"`
	Wrong string `json:"wrong,omitempty"` // why the orders do not match the results; "" if they do
}

// Add adds a round to a rung and computes the figures.
func (l *Ladder) Add(rung int, round Round) {
	r := &l.Rungs[rung]
	r.Rounds = append(r.Rounds, round)
	mean := func(of func(Turn) float64) (sum float64) {
		for _, one := range r.Rounds {
			sum += of(one.Turn)
		}
		return math.Round(100*sum/float64(len(r.Rounds))) / 100
	}
	r.Purchases = mean(Turn.Throughput)
	r.Requests = mean(func(t Turn) float64 { return t.Responses })
	r.Click = mean(func(t Turn) float64 { return t.Accept.P99 })
	r.Result = mean(func(t Turn) float64 { return t.Result.P99 })
	r.Cost = mean(func(t Turn) float64 {
		if t.Cost == nil {
			return 0
		}
		return t.Cost.Shop + t.Cost.Postgres + t.Cost.Redis
	})
	r.Exact = true
	for _, one := range r.Rounds {
		r.Exact = r.Exact && one.Audit.Clean && one.Wrong == ""
	}
	for i := range l.Rungs {
		l.Rungs[i].Factor = math.Round(100*l.Rungs[i].Purchases/max(l.Rungs[0].Purchases, 1e-9)) / 100
	}
}

// Write prints the ladder as a table.
func (l Ladder) Write(w io.Writer) {
	fmt.Fprintf(w, "%s\n%s\n\n", l.Conditions(), l.Machine)
	fmt.Fprintf(w, "  %-28s %11s %15s %6s %10s %9s %10s %12s  %s\n", "switched on", "purchases/s", "in each round",
		"factor", "requests/s", "click p99", "result p99",
		"µs/purchase", "exact")
	for _, r := range l.Rungs {
		fmt.Fprintf(w, "  %-28s %11.0f %15s %6.1f %10.0f %9.1f %10.1f %12.0f  %s\n", r.Name, r.Purchases, r.EachRound(),
			r.Factor, r.Requests, r.Click, r.Result,
			r.Cost, r.Verdict())
	}
	fmt.Fprintf(w, "\n  %s\n", ladderNote)
}

const ladderNote = "A purchase is a committed order, with the list, the sale and the polls of its buyer, " +
	"and three other buyers who are refused. " +
	"Latencies are in ms, from the click; µs are processor time of shop, Postgres and Redis."

// Conditions describes the crowd.
func (l Ladder) Conditions() string {
	return fmt.Sprintf("ladder: %d buyers, one of %d finds a unit; %d connections, %d s in each of %d rounds", l.Buyers,
		LadderCrowd, l.Conns, l.Seconds,
		len(l.Rungs[0].Rounds))
}

// EachRound returns the purchases a second of each round: they show how much a noisy machine matters.
func (r Rung) EachRound() (text string) {
	for i, one := range r.Rounds {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%.0f", one.Turn.Throughput())
	}
	return text
}

// Verdict returns yes, or what was wrong in a round.
func (r Rung) Verdict() string {
	for _, one := range r.Rounds {
		switch {
		case one.Wrong != "":
			return "NO: " + one.Wrong
		case !one.Audit.Clean:
			return "NO: " + one.Audit.Said
		}
	}
	return "yes"
}

//go:embed ladder.html
var ladderText string

var ladderTemplate = report.New(ladderText, template.FuncMap{"speedPlot": Ladder.speedPlot, "costPlot": Ladder.costPlot,
	"inc": func(i int) int { return i + 1 }, "rung": func(name string) template.HTML { return rungNamed(name).HTML() }})

// rungNames are the Chinese names of the rungs.
var rungNames = map[string]string{"none: Postgres decides": "全部关闭：数据库扛全部", "sales from memory": "商品走内存缓存",
	"the gate in Redis":   "Redis 预减库存",
	"settling in batches": "批量落库", "the lane": "请求合并", "copies of sessions": "会话副本", "sold-out mark: all": "售罄标记：全部打开"}

func rungNamed(name string) report.Words {
	return report.Words{En: name, Zh: cmp.Or(rungNames[name], name)}
}

// HTML writes the ladder as one HTML page that loads nothing else.
func (l Ladder) HTML(w io.Writer) error {
	err := ladderTemplate.ExecuteTemplate(w, "frame", struct {
		Ladder
		Head report.Head
		Note report.Words
	}{l, l.head(), report.Words{En: ladderNote,
		Zh: "一次成交是一笔落库的订单，连同这位买家看的列表、商品页和轮询，以及另外三位被拒绝的买家。延迟从点击算起，单位毫秒；微秒是店铺、Postgres 和 Redis 用的处理器时间。"}})
	if err != nil {
		return fmt.Errorf("write the HTML report: %w", err)
	}
	return nil
}

// head returns the top of the page.
func (l Ladder) head() report.Head {
	h := report.Head{Title: report.Words{En: "miaosha bench: ladder", Zh: "miaosha 压测：优化阶梯"}, At: l.At,
		Machine: l.Machine, Origin: l.Origin, Good: true}
	first, last := l.Rungs[0], l.Rungs[len(l.Rungs)-1]
	h.Verdict = report.Words{
		En: fmt.Sprintf("From %s to %s purchases a second: the whole shop sells %.1f times as fast as the naive one",
			report.Number(first.Purchases), report.Number(last.Purchases), last.Factor),
		Zh: fmt.Sprintf("每秒成交从 %s 单到 %s 单：完整的店铺是最朴素做法的 %.1f 倍", report.Number(first.Purchases),
			report.Number(last.Purchases), last.Factor)}
	for _, r := range l.Rungs {
		h.Good = h.Good && r.Exact
	}
	if h.Good {
		h.Verdict.En, h.Verdict.Zh = h.Verdict.En+", and every rung sold exactly.", h.Verdict.Zh+"，每一级都卖得分毫不差。"
	} else {
		h.Verdict.En, h.Verdict.Zh = h.Verdict.En+", but not every rung sold exactly.", h.Verdict.Zh+"，但并非每一级都卖得准确。"
	}
	h.Facts = []report.Words{{En: l.Conditions(), Zh: fmt.Sprintf("%d 个买家，每 %d 人里有一人买得到；%d 条连接，%d 轮，每轮 %d 秒", l.Buyers,
		LadderCrowd, l.Conns, len(first.Rounds), l.Seconds)},
		{En: "Bench, shops and stores share this machine.", Zh: "压测端、店铺和数据库共用这台机器。"}}
	return h
}

// curve is one line of a plot over the rungs.
type curve struct {
	name report.Words
	of   func(Rung) float64
}

// speedPlot shows the purchases a second of each rung, a line for each round.
func (l Ladder) speedPlot() report.Plot {
	var curves []curve
	for i := range l.Rungs[0].Rounds {
		curves = append(curves, curve{report.Words{En: fmt.Sprintf("round %d", i+1), Zh: fmt.Sprintf("第 %d 轮", i+1)},
			func(r Rung) float64 { return r.Rounds[i].Turn.Throughput() }})
	}
	return l.plot(report.Plot{Title: report.Words{En: "Purchases a second on each rung", Zh: "每一级每秒的成交"},
		YName: report.Words{En: "purchases a second", Zh: "每秒成交（单）"}}, curves)
}

// costPlot shows the processor time of a purchase on each rung.
func (l Ladder) costPlot() report.Plot {
	return l.plot(report.Plot{Title: report.Words{En: "Processor time of a purchase on each rung", Zh: "每一级每单用的处理器时间"},
		YName: report.Words{En: "processor time in µs", Zh: "处理器时间（微秒）"}},
		[]curve{{report.Words{En: "shop, Postgres and Redis", Zh: "店铺、Postgres 和 Redis"},
			func(r Rung) float64 { return r.Cost }}})
}

func (l Ladder) plot(p report.Plot, curves []curve) report.Plot {
	most := 1.0
	for _, r := range l.Rungs {
		for _, c := range curves {
			most = max(most, c.of(r))
		}
	}
	most = report.Round(most)
	for i := range 5 {
		part := float64(i) / 4
		p.TickY(part, fmt.Sprintf("%.0f", part*most))
	}
	x := func(i int) float64 { return float64(i) / float64(max(1, len(l.Rungs)-1)) }
	for i := range l.Rungs {
		p.TickX(x(i), fmt.Sprint(i+1))
	}
	p.XName = report.Words{En: "rung, by its number in the table", Zh: "级别，按表中的序号"}
	for _, c := range curves {
		p.At(c.name, len(l.Rungs), func(i int) (float64, float64) { return x(i), c.of(l.Rungs[i]) / most })
	}
	return p
}
