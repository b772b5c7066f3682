package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Recording is one recorded race of two clicks.
type Recording struct {
	Strategy string `json:"strategy"`
	// of this race: the first, from the requested seed on, in which a wrong strategy goes wrong
	Seed uint64 `json:"seed"`
	// 1; 2 for most strategies that leave units unsold, and for those that sell two to one buyer
	Stock  int    `json:"stock"`
	Clicks string `json:"clicks"` // TwoBuyers: one click each; OneBuyer: a double click
	Steps  []Step `json:"steps"`  // in the order of their start
	Tries  int    `json:"tries"`  // seeds raced, this one included: raceTries at most
	Sold   int    `json:"sold"`
	Left   int    `json:"left"` // units, according to the strategy's own stock
	Right  bool   `json:"right"`
	Lucky  bool   `json:"lucky"` // right, although the strategy is wrong by design
}

// Clicks of a Recording.
const (
	TwoBuyers = "two buyers"
	OneBuyer  = "one buyer"
)

// raceTries bounds the seeds of a race. The pages say it (race.tries).
const raceTries = 100

// Race records two clicks at the same instant, each at its own node, with every statement and its
// result. It races a wrong strategy with one seed after another until it goes wrong, and returns the
// last race if raceTries seeds were not enough. A race in which a click has received no reply shows nothing, of a wrong
// strategy either: the next seed follows.
func Race(ctx context.Context, s Stores, spec *Spec, seed uint64) (rec Recording, err error) {
	for try := range uint64(raceTries) {
		rec, err = raceOnce(ctx, s, spec, seed+try)
		rec.Tries = int(try) + 1
		if errors.Is(err, errNoReply) {
			continue
		}
		if err != nil || spec.Wrong == "" || !rec.Right {
			return rec, err
		}
	}
	return rec, err
}

var errNoReply = errors.New("a click of the race received no reply")

func raceOnce(ctx context.Context, s Stores, spec *Spec, seed uint64) (rec Recording, err error) {
	p := Plan{Buyers: 2, Stock: 1, Seed: seed, Seconds: 10, Nodes: 2}
	rec = Recording{Strategy: spec.Name, Seed: seed, Clicks: TwoBuyers}
	clicks := []click{{1, 0}, {2, 1}}
	if (spec.Wrong == Unsold || spec.Wrong == Duplicates) && spec.Name != "refill-incr" {
		// INCR is wrong below zero only
		p.Stock = 2
	}
	if spec.Wrong == Duplicates || spec.Name == "redis-decr" {
		rec.Clicks, clicks[1].User = OneBuyer, 1
	}
	if spec.Needs != "" {
		p.Faults = []string{spec.Needs}
	}
	rec.Stock = p.Stock
	recorder := &recorder{began: time.Now()}
	r, err := openRun(ctx, s, p, spec, recorder)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	recorder.restart()
	seen := r.runCrowd(ctx, clicks)
	steps := recorder.stop()
	if err := r.closeNodes(); err != nil {
		return rec, err
	}
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	result, err := r.count(ctx, seen)
	if err != nil {
		return rec, err
	}
	if seen.unanswered > 0 {
		return rec, fmt.Errorf("%w: %w", errNoReply, seen.lastErr)
	}
	rec.Steps, rec.Sold = steps, result.Sold
	if rec.Left, err = r.Observer.strategy.Left(ctx); err != nil {
		return rec, err
	}
	// A unit is unsold if a buyer got none, or if it is neither in stock nor in an order.
	short := len(seen.yes) == 2 && result.Unsold > 0 || max(0, rec.Left)+result.Sold < p.Stock
	rec.Right = result.Oversold+result.Duplicates+result.Lost == 0 && !short && result.Error == ""
	rec.Lucky = rec.Right && spec.Lucky(p)
	return rec, nil
}
