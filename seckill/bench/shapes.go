package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Shape is a way for buyers to come, with what it takes if nothing is said.
type Shape struct {
	Conns  int
	Poll   int                   // percent
	Buyers func(seconds int) int // how many it needs
	Stock  func(buyers int) int  // and how many units
	Alone  bool                  // one turn of buying, which cold sales may be beside
	run    func(context.Context, *driver, []Buyer) ([]Turn, error)
}

// fastest is more purchases a second than a machine of a few cores makes: enough buyers for a turn as fast as it goes.
const fastest = 15_000

func crowd(int) int         { return 5000 }
func many(seconds int) int  { return min(fastest*seconds, MaxBuyers) }
func forAll(buyers int) int { return buyers }
func forSome(int) int       { return 1000 }
func none(int) int          { return 1 } // sold before the turn begins: a sale has at least one
func nobody(int) int        { return 1 } // of what is not used

var shapes = map[string]Shape{
	"capacity":  {128, 2, many, forAll, true, capacity},
	"open":      {256, 100, many, forAll, true, open},
	"second":    {1000, 100, crowd, forSome, false, second},
	"ramp":      {256, 2, func(s int) int { return many(3 * s) }, forAll, false, ramp},
	"soldout":   {64, 0, crowd, none, false, soldOut},
	"impatient": {256, 100, crowd, forSome, false, impatient},
	"slow":      {64, 2, many, forAll, true, slow},
	"polls":     {64, 100, crowd, forAll, false, polls},
	"list":      {64, 0, nobody, nobody, false, front},
	"conns":     {10_000, 0, nobody, nobody, false, conns},
}

// Needs gives a shape's defaults; ok is false for one that isn't known.
func Needs(name string) (s Shape, ok bool) {
	s, ok = shapes[name]
	return s, ok
}

func (d *driver) coming() time.Duration { return time.Duration(d.Seconds) * time.Second }

func one(t Turn, err error) ([]Turn, error) { return []Turn{t}, err }

// capacity: as many purchases as the connections carry, each followed by the next.
func capacity(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return one(d.turn(ctx, plan{name: "capacity", buyers: buyers, arrivals: len(buyers), coming: d.coming(), conns: d.Conns}))
}

// atRate spaces clicks evenly.
func atRate(rate float64) func(int) time.Duration {
	return func(k int) time.Duration { return time.Duration(float64(k) / rate * float64(time.Second)) }
}

// open: buyers come at a rate, whether the shop keeps up or not.
func open(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return one(d.turn(ctx, plan{name: "open", buyers: buyers, arrivals: len(buyers), when: atRate(d.Rate), coming: d.coming(), conns: d.Conns}))
}

// second: the opening. All click within a tenth of a second and don't give up until they know.
func second(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	rate := float64(len(buyers)) / 0.1
	return one(d.turn(ctx, plan{name: "second", buyers: buyers, arrivals: len(buyers), when: atRate(rate), coming: 100 * time.Second,
		again: true, all: true, conns: min(d.Conns, len(buyers))}))
}

// floods is more buyers a second than a shop that is slowed down for the ramp can serve.
const floods = 2000

// ramp: the capacity, found by flooding the shop, then once, ten times and a hundred times as much. What the tool can't send
// is not offered, and the report shows what was.
func ramp(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	defer func() { ofPeak(turns) }()
	turn := func(name string, rate float64) error {
		n := max(1, min(int(rate*d.coming().Seconds()), len(buyers)))
		t, err := d.turn(ctx, plan{name: name, buyers: buyers[:n], arrivals: n, when: atRate(rate), coming: d.coming(), conns: d.Conns})
		if t.Planned = math.Round(rate); n < len(buyers) {
			buyers = buyers[n:]
		}
		turns = append(turns, t)
		return err
	}
	rate := d.Rate
	if rate == 0 {
		if err := turn("capacity", floods); err != nil {
			return turns, err
		}
		if rate = turns[0].goodput(); rate == 0 {
			return turns, fmt.Errorf("ramp: nothing was accepted, so there is no capacity to take ten times of")
		}
	}
	for _, times := range []float64{1, 10, 100} {
		if err := turn(fmt.Sprintf("%.0fx", times), rate*times); err != nil {
			return turns, err
		}
	}
	return turns, nil
}

// ofPeak holds what each turn sold a second against the most that one did.
func ofPeak(turns []Turn) {
	peak := 0.0
	for i := range turns {
		turns[i].Goodput = math.Round(10*turns[i].goodput()) / 10
		peak = max(peak, turns[i].Goodput)
	}
	for i, t := range turns {
		turns[i].OfPeak = math.Round(1000*t.Goodput/max(peak, 1e-9)) / 10
	}
}

// goodput is what was sold a second from the first commit to the last while buyers came. What a slow shop commits is lumps,
// and the first of them, which came out of nothing, and the tail behind the last buyer would blur it. Throughput without
// two commits.
func (t Turn) goodput() float64 {
	var first, last Sample
	for _, s := range t.Samples {
		switch {
		case s.At > t.Seconds:
		case first.Sold == 0:
			first, last = s, s
		case s.Sold > last.Sold:
			last = s
		}
	}
	if last.Sold == first.Sold {
		return t.Throughput()
	}
	return float64(last.Sold-first.Sold) / (last.At - first.At)
}

// soldOut: the first buyer takes the last unit, the others hear no, again and again.
func soldOut(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	quiet := *d
	quiet.Poll = 100
	first, err := quiet.turn(ctx, plan{name: "last unit", buyers: buyers[:1], arrivals: 1, coming: time.Second, again: true, all: true, conns: 1})
	if err != nil || len(buyers) == 1 {
		return []Turn{first}, err
	}
	t, err := d.turn(ctx, plan{name: "soldout", buyers: buyers[1:], arrivals: math.MaxInt, coming: d.coming(), conns: d.Conns})
	return []Turn{first, t}, err
}

// impatient: all come within a second, give an answer a few milliseconds, hang up and click again.
func impatient(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return one(d.turn(ctx, plan{name: "impatient", buyers: buyers, arrivals: len(buyers), when: atRate(float64(len(buyers))),
		coming: 30 * time.Second, patience: 5 * time.Millisecond, again: true, all: true, conns: min(d.Conns, len(buyers))}))
}
