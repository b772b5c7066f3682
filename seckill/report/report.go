// Package report has what the pages that bench and lab write have in common: the frame with the shop's colours, both
// languages, and plots. A page is one file that loads nothing else. It has each text in English and in Chinese; a
// switch that works without a server shows one of them.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

//go:embed frame.html
var frame string

// Words are a text in both languages.
type Words struct{ En, Zh string }

// Same returns a text that is the same in both languages.
func Same(text string) Words { return Words{text, text} }

// HTML returns the text as it stands in a page.
func (w Words) HTML() template.HTML {
	if w.En == w.Zh {
		return template.HTML(template.HTMLEscapeString(w.En))
	}
	return template.HTML(fmt.Sprintf(`<span lang="en">%s</span><span lang="zh-CN">%s</span>`, template.HTMLEscapeString(w.En), template.HTMLEscapeString(w.Zh)))
}

// Head is what the top of a page says.
type Head struct {
	Title   Words // such as miaosha bench: capacity
	Good    bool  // whether the verdict is a good one
	Mixed   bool  // it compares what is right with what is wrong on purpose
	Verdict Words // one sentence
	At      time.Time
	Origin
	Machine string
	Facts   []Words // what was run, in the order in which it is read
}

// Origin says what made a report, so that it can be made again.
type Origin struct {
	Command string `json:"command,omitempty"` // the whole line, without secrets
	Version string `json:"version,omitempty"`
	Commit  string `json:"commit,omitempty"`
}

// New returns a template of a page. Its text defines "body" and receives data with a method Head. It may use the
// templates "plot" (of a Plot) and the functions en and words: en takes both texts, words a Words.
func New(text string, funcs template.FuncMap) *template.Template {
	t := template.New("frame").Funcs(template.FuncMap{
		"en":    func(en, zh string) template.HTML { return Words{en, zh}.HTML() },
		"words": Words.HTML,
	}).Funcs(funcs)
	return template.Must(template.Must(t.Parse(frame)).Parse(text))
}

// Plot is a line chart, in the units of an SVG of 640 by 300. Its axes have names with units.
type Plot struct {
	Title        Words
	XName, YName Words
	Lines        []Line
	X, Y         []Tick
}

// Line is one curve. Its index selects its colour.
type Line struct {
	Name   Words
	Points string
}

// Tick is a label on an axis.
type Tick struct {
	At   float64
	Text string
	Odd  bool // a phone leaves it out
}

const left, right, top, bottom = 96.0, 596.0, 40.0, 236.0

// At adds a curve of n points. Both coordinates are from 0 to 1.
func (p *Plot) At(name Words, n int, at func(i int) (x, y float64)) {
	var b strings.Builder
	for i := range n {
		x, y := at(i)
		fmt.Fprintf(&b, "%.1f,%.1f ", left+x*(right-left), bottom-y*(bottom-top))
	}
	p.Lines = append(p.Lines, Line{name, b.String()})
}

// TickX adds a label on the axis of x, at a part of it.
func (p *Plot) TickX(part float64, text string) {
	p.X = append(p.X, Tick{left + part*(right-left), text, len(p.X)%2 == 1})
}

// TickY adds a label on the axis of y, at a part of it.
func (p *Plot) TickY(part float64, text string) {
	p.Y = append(p.Y, Tick{bottom - part*(bottom-top), text, false})
}

// Round returns a round number that is not below most, for the end of an axis.
func Round(most float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
	return unit * math.Ceil(max(most, 1)/unit)
}

// Number returns a number without decimals, with commas between thousands.
func Number(f float64) string {
	text := fmt.Sprintf("%.0f", f)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
