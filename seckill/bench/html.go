package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
)

//go:embed report.html
var htmlText string

var htmlTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"counts":    formatCounts,
	"mb":        func(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) },
	"latencies": Turn.latencies, "remarks": Turn.remarks, "ramp": Report.rampTable, "conditions": Report.conditions,
	"sells": Report.sells, "buys": Turn.buys, "latencyPlot": Turn.latencyPlot, "flowPlot": Turn.flowPlot,
	"speedPlot": Ladder.speedPlot, "costPlot": Ladder.costPlot, "inc": func(i int) int { return i + 1 },
}).Parse(htmlText))

// HTML writes the report as one HTML page that loads nothing else.
func (r Report) HTML(w io.Writer) error {
	figure, unit := r.Headline()
	err := htmlTemplate.Execute(w, struct {
		Report
		Unit   string
		Figure float64
	}{r, unit, figure})
	if err != nil {
		return fmt.Errorf("write the HTML report: %w", err)
	}
	return nil
}

// Plot is a line chart, in the units of an SVG of 640 by 260.
type Plot struct {
	Lines []Line
	X, Y  []Tick
}

// Line is one curve. Its index selects its colour.
type Line struct{ Name, Points string }

// Tick is a label on an axis.
type Tick struct {
	At   float64
	Text string
}

const left, right, top, bottom = 60.0, 610.0, 15.0, 225.0

func line(name string, n int, at func(i int) (x, y float64)) Line {
	var b strings.Builder
	for i := range n {
		x, y := at(i)
		fmt.Fprintf(&b, "%.1f,%.1f ", left+x*(right-left), bottom-y*(bottom-top))
	}
	return Line{name, b.String()}
}

// latencyPlot returns latency by percentile. Both axes are logarithmic, which shows the tail.
func (t Turn) latencyPlot() (p Plot) {
	lo, hi := math.Inf(1), 0.0
	for _, l := range t.latencies() {
		for _, c := range l.Curve {
			lo, hi = min(lo, max(c.Millis, 0.01)), max(hi, c.Millis)
		}
	}
	if hi == 0 {
		return p
	}
	from, to := math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi)+1e-9)
	if to == from {
		to++
	}
	x := func(percent float64) float64 { return -math.Log10(1-percent/100) / 4 } // 0 % is 0, 99.99 % is 1
	y := func(ms float64) float64 { return (math.Log10(max(ms, 0.01)) - from) / (to - from) }
	for _, percent := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		p.X = append(p.X, Tick{left + x(percent)*(right-left), fmt.Sprintf("%g %%", percent)})
	}
	for e := from; e <= to; e++ {
		p.Y = append(p.Y, Tick{bottom - (e-from)/(to-from)*(bottom-top), fmt.Sprintf("%g ms", math.Pow(10, e))})
	}
	for _, l := range t.latencies() {
		p.Lines = append(p.Lines, line(l.Name, len(l.Curve), func(i int) (float64, float64) {
			return x(l.Curve[i].Percent), y(l.Curve[i].Millis)
		}))
	}
	return p
}

// flowPlot returns the rates over time, by the samples.
func (t Turn) flowPlot() (p Plot) {
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
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	most = unit * math.Ceil(most/unit)
	for i := range 5 {
		part := float64(i) / 4
		p.X = append(p.X, Tick{left + part*(right-left), fmt.Sprintf("%.1f s", part*end)})
		p.Y = append(p.Y, Tick{bottom - part*(bottom-top), fmt.Sprintf("%.0f/s", part*most)})
	}
	for _, f := range flows {
		if f.of(s[len(s)-1]) > 0 {
			p.Lines = append(p.Lines, line(f.name, len(s)-1, func(i int) (float64, float64) {
				return s[i+1].At / end, rate(f.of, i+1) / most
			}))
		}
	}
	return p
}
