package experiments

import (
	"context"
	"fmt"

	"miaosha/seckill/lab"
)

// Finding is the outcome of one variant.
type Finding struct {
	Variant string             `json:"way"`     // in English; the page translates it
	Verdict string             `json:"verdict"` // Right, Wrong, Slow, Unbounded, Unfair or Busy
	Figures map[string]float64 `json:"figures"`
	Series  []Series           `json:"series,omitempty"` // for a drawing; of the variants that have one
	Span    *Span              `json:"span,omitempty"`   // the time that the drawing marks
	paced   bool               // see there
	sure    bool               // no clock has decided the verdict
}

// Verdicts of a Finding. What is Slow, Unbounded or Unfair sells and answers exactly, and is no way to sell.
const (
	Right     = "right"
	Wrong     = "wrong"
	Slow      = "slow"
	Unbounded = "unbounded" // what waits or works at one time has no bound
	Busy      = "busy"      // the machine had too little time for this run, so it tells nothing
)

// verdict returns Right if ok, and otherwise what the variant is.
func verdict(ok bool, otherwise string) string {
	if ok {
		return Right
	}
	return otherwise
}

// Series is a figure over time.
type Series struct {
	Name   string       `json:"name"`   // of the figure; the page translates it
	Points [][2]float64 `json:"points"` // milliseconds since the variant began, and the figure
}

// Span is the time of a stall or an outage, in milliseconds since the variant began.
type Span struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// variant is one variant of an experiment.
type variant struct {
	name string
	try  func(context.Context) (Finding, error)
}

// paced is for a variant whose verdict depends on times: if the machine had too little time for it, it is Busy. What is
// wrong at any pace stays wrong.
func paced(try func(context.Context) (Finding, error)) func(context.Context) (Finding, error) {
	return func(ctx context.Context) (Finding, error) {
		starved := lab.FeelPulse()
		row, err := try(ctx)
		row.paced = true
		if starved() && !row.sure {
			row.Verdict = Busy
		}
		return row, err
	}
}

// tryAll tries the variants of an experiment, one after the other.
func tryAll(ctx context.Context, variants []variant) (rows []Finding, err error) {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	for _, v := range variants {
		observedIn(ctx).change(names, rows)
		row, err := v.try(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		row.Variant = v.name
		rows = append(rows, row)
	}
	observedIn(ctx).change(names, rows)
	return rows, nil
}
