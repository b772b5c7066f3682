package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Recording is what two buyers did in one race.
type Recording struct {
	Strategy string `json:"strategy"`
	Seed     uint64 `json:"seed"`   // of this very race: the first one from the seed asked for in which the way goes wrong
	Stock    int    `json:"stock"`  // 1; 2 where the point is that not all is sold, or too much to one buyer
	Clicks   string `json:"clicks"` // two buyers: one click each; one buyer: the two clicks are one person's
	Steps    []Step `json:"steps"`  // in the order in which they began
	Sold     int    `json:"sold"`
	Left     int    `json:"left"` // units, as the way's own stock tells
	Right    bool   `json:"right"`
}

// Clicks of a Recording.
const (
	TwoBuyers = "two buyers"
	OneBuyer  = "one buyer"
)

const raceTries = 100 // seeds at most

// Race records two clicks at the same instant, each at a node of its own, with every statement and its result. A wrong way is
// raced again with the following seeds until it goes wrong; if it does not in raceTries, the last race is given.
func Race(ctx context.Context, s Stores, strategy string, seed uint64) (rec Recording, err error) {
	w := wayOf(strategy)
	if w == nil {
		return rec, InvalidError{"strategy", fmt.Sprintf("there is no %q", strategy)}
	}
	for try := range uint64(raceTries) {
		if rec, err = raceOnce(ctx, s, w, seed+try); err != nil || w.wrong == "" || !rec.Right {
			return rec, err
		}
	}
	return rec, nil
}

func raceOnce(ctx context.Context, s Stores, w *way, seed uint64) (rec Recording, err error) {
	p := Plan{Buyers: 2, Stock: 1, Seed: seed, Seconds: 10, Nodes: 2}
	rec = Recording{Strategy: w.name, Seed: seed, Clicks: TwoBuyers}
	clicks := []click{{1, 0}, {2, 1}}
	if w.wrong == Unsold || w.wrong == Duplicates {
		p.Stock = 2
	}
	if w.wrong == Duplicates || w.name == "redis-decr" {
		rec.Clicks, clicks[1].user = OneBuyer, 1
	}
	if w.needs != "" {
		p.Faults = []string{w.needs}
	}
	rec.Stock = p.Stock
	t := &tape{began: time.Now()}
	r, err := openRun(ctx, s, p, w, t)
	if err != nil {
		return rec, err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	t.restart()
	h := r.crowd(ctx, clicks)
	steps := t.stop()
	if err := r.closeNodes(); err != nil {
		return rec, err
	}
	if ctx.Err() != nil {
		return rec, ctx.Err()
	}
	result, err := r.count(ctx, h)
	if err != nil {
		return rec, err
	}
	rec.Steps, rec.Sold = steps, result.Sold
	if rec.Left, err = r.look.strategy.Left(ctx); err != nil {
		return rec, err
	}
	// A unit is unsold if a buyer went without, or if nobody can have it any more.
	short := len(h.yes) == 2 && result.Unsold > 0 || max(0, rec.Left)+result.Sold < p.Stock
	rec.Right = result.Oversold+result.Duplicates+result.Lost == 0 && !short && result.Error == ""
	return rec, nil
}
