package bench

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"time"
)

// LadderShape is the Config.Shape of a run of a Ladder. One buyer of LadderCrowd comes to a sale with units, the others to one
// that is sold out.
const (
	LadderShape = "ladder"
	LadderCrowd = 4
)

// visits lets each connection serve one buyer after the other, as a browser does: the list, the sale, the click, and polls until
// the result is known.
func visits(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	if d.expected, err = d.inspectList(ctx); err != nil {
		return nil, err
	}
	d.list = d.listRequest(encodings)
	return single(d.turn(ctx, plan{name: "visits", buyers: buyers, arrivals: len(buyers), duration: d.duration(), conns: d.Conns,
		firstStep: stepList, visits: true}))
}

// Ladder compares what one crowd meets at shops with more and more of their optimisations switched on.
type Ladder struct {
	At      time.Time `json:"at"`
	Machine string    `json:"machine"`
	Buyers  int       `json:"buyers"`
	Conns   int       `json:"conns"`
	Seconds int       `json:"seconds"` // for how long buyers arrive in each round
	Rungs   []Rung    `json:"rungs"`   // each has what the one before has, and one thing more
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
	fmt.Fprintf(w, "  %-28s %11s %15s %6s %10s %9s %10s %12s  %s\n", "switched on", "purchases/s", "in each round", "factor", "requests/s", "click p99", "result p99",
		"µs/purchase", "exact")
	for _, r := range l.Rungs {
		fmt.Fprintf(w, "  %-28s %11.0f %15s %6.1f %10.0f %9.1f %10.1f %12.0f  %s\n", r.Name, r.Purchases, r.EachRound(), r.Factor, r.Requests, r.Click, r.Result,
			r.Cost, r.Verdict())
	}
	fmt.Fprintf(w, "\n  %s\n", ladderNote)
}

const ladderNote = "A purchase is a committed order, with the list, the sale and the polls of its buyer, and three other buyers who are refused. " +
	"Latencies are in ms, from the click; µs are processor time of shop, Postgres and Redis."

// Conditions describes the crowd.
func (l Ladder) Conditions() string {
	return fmt.Sprintf("ladder: %d buyers, one of %d finds a unit; %d connections, %d s in each of %d rounds", l.Buyers, LadderCrowd, l.Conns, l.Seconds,
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

var ladderTemplate = template.Must(template.Must(htmlTemplate.Clone()).New("ladder").Parse(ladderText))

// HTML writes the ladder as one HTML page that loads nothing else.
func (l Ladder) HTML(w io.Writer) error {
	err := ladderTemplate.Execute(w, struct {
		Ladder
		Note string
	}{l, ladderNote})
	if err != nil {
		return fmt.Errorf("write the HTML report: %w", err)
	}
	return nil
}

// curve is one line of a plot over the rungs.
type curve struct {
	name string
	of   func(Rung) float64
}

// speedPlot shows the purchases a second of each rung, a line for each round.
func (l Ladder) speedPlot() Plot {
	var curves []curve
	for i := range l.Rungs[0].Rounds {
		curves = append(curves, curve{fmt.Sprintf("round %d", i+1), func(r Rung) float64 { return r.Rounds[i].Turn.Throughput() }})
	}
	return l.plot("%.0f/s", curves)
}

// costPlot shows the processor time of a purchase on each rung.
func (l Ladder) costPlot() Plot {
	return l.plot("%.0f µs", []curve{{"shop, Postgres and Redis", func(r Rung) float64 { return r.Cost }}})
}

func (l Ladder) plot(format string, curves []curve) (p Plot) {
	most := 1.0
	for _, r := range l.Rungs {
		for _, c := range curves {
			most = max(most, c.of(r))
		}
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	most = unit * math.Ceil(most/unit)
	for i := range 5 {
		part := float64(i) / 4
		p.Y = append(p.Y, Tick{bottom - part*(bottom-top), fmt.Sprintf(format, part*most)})
	}
	x := func(i int) float64 { return float64(i) / float64(max(1, len(l.Rungs)-1)) }
	for i := range l.Rungs {
		p.X = append(p.X, Tick{left + x(i)*(right-left), fmt.Sprint(i + 1)})
	}
	for _, c := range curves {
		p.Lines = append(p.Lines, line(c.name, len(l.Rungs), func(i int) (float64, float64) { return x(i), c.of(l.Rungs[i]) / most }))
	}
	return p
}
