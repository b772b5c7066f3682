package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Shape is a pattern of arrivals, with its default settings.
type Shape struct {
	Conns      int
	Poll       int                   // percent
	Buyers     func(seconds int) int // how many buyers it needs
	Stock      func(buyers int) int  // how many units it needs
	AllowsCold bool                  // it has one turn of purchases, beside which other sales may run
	Spreads    bool                  // its buyers may be those of many sales
	run        func(context.Context, *driver, []Buyer) ([]Turn, error)
}

// maxPerSecond is more purchases a second than a machine of a few cores can make.
const maxPerSecond = 15_000

func constant(n int) func(int) int { return func(int) int { return n } }
func enough(seconds int) int       { return min(maxPerSecond*seconds, MaxBuyers) }
func unitEach(buyers int) int      { return buyers }

// A sale has at least one unit and a run at least one buyer, even where the shape uses none.
var shapes = map[string]Shape{
	"capacity":  {128, 2, enough, unitEach, true, false, capacity},
	"open":      {256, 100, enough, unitEach, true, false, open},
	"second":    {1000, 100, constant(5000), constant(1000), false, false, second},
	"ramp":      {256, 2, func(s int) int { return enough(3 * s) }, unitEach, false, false, ramp},
	"soldout":   {64, 0, constant(5000), constant(1), false, false, soldOut},
	"impatient": {256, 100, constant(5000), constant(1000), false, false, impatient},
	"slow":      {64, 2, enough, unitEach, true, false, slow},
	"polls":     {64, 100, constant(5000), unitEach, false, true, polls},
	"list":      {64, 0, constant(1), constant(1), false, false, list},
	LadderShape: {64, 100, enough, func(buyers int) int { return (buyers + LadderCrowd - 1) / LadderCrowd },
		false, false, visits},
	"conns":   {10_000, 0, constant(1), constant(1), false, false, conns},
	"streams": {64, 0, constant(10_000), unitEach, false, true, streams},
}

// ShapeNamed returns the shape of that name; ok is false for an unknown one.
func ShapeNamed(name string) (s Shape, ok bool) {
	s, ok = shapes[name]
	return s, ok
}

func (d *driver) duration() time.Duration { return time.Duration(d.Seconds) * time.Second }

func single(t Turn, err error) ([]Turn, error) { return []Turn{t}, err }

// capacity lets each connection make one purchase after the other, as fast as it can.
func capacity(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return single(d.turn(ctx, plan{name: "capacity", buyers: buyers, arrivals: len(buyers), duration: d.duration(),
		conns: d.Conns}))
}

// atRate returns evenly spaced click times.
func atRate(rate float64) func(int) time.Duration {
	return func(k int) time.Duration { return time.Duration(float64(k) / rate * float64(time.Second)) }
}

// open lets buyers arrive at a fixed rate, whether the shop keeps up or not.
func open(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return single(d.turn(ctx, plan{name: "open", buyers: buyers, arrivals: len(buyers), when: atRate(d.Rate),
		duration: d.duration(), conns: d.Conns}))
}

// second is the opening of a sale: all buyers click within 0.1 s and retry until they know their result.
func second(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	rate := float64(len(buyers)) / 0.1
	return single(d.turn(ctx, plan{name: "second", buyers: buyers, arrivals: len(buyers), when: atRate(rate),
		duration: 100 * time.Second,
		retry:    true, fixed: true, conns: min(d.Conns, len(buyers))}))
}

// floodRate is more buyers a second than a shop slowed down for the ramp can serve.
const floodRate = 2000

// ramp measures the capacity by flooding the shop, then offers 1, 10 and 100 times that rate. A
// request that the bench cannot send in time is not offered; the report shows how many were.
func ramp(ctx context.Context, d *driver, buyers []Buyer) (turns []Turn, err error) {
	defer func() { setOfPeak(turns) }()
	turn := func(name string, rate float64) error {
		n := max(1, min(int(rate*d.duration().Seconds()), len(buyers)))
		t, err := d.turn(ctx, plan{name: name, buyers: buyers[:n], arrivals: n, when: atRate(rate),
			duration: d.duration(), conns: d.Conns})
		if t.Planned = math.Round(rate); n < len(buyers) {
			buyers = buyers[n:]
		}
		turns = append(turns, t)
		return err
	}
	rate := d.Rate
	if rate == 0 {
		if err := turn("capacity", floodRate); err != nil {
			return turns, err
		}
		if rate = turns[0].goodput(); rate == 0 {
			return turns, fmt.Errorf("--shape ramp: nothing was accepted, so the capacity is unknown")
		}
	}
	for _, times := range []float64{1, 10, 100} {
		if err := turn(fmt.Sprintf("%.0fx", times), rate*times); err != nil {
			return turns, err
		}
	}
	return turns, nil
}

// setOfPeak sets each turn's goodput and its percentage of the highest.
func setOfPeak(turns []Turn) {
	peak := 0.0
	for i := range turns {
		turns[i].Goodput = math.Round(10*turns[i].goodput()) / 10
		peak = max(peak, turns[i].Goodput)
	}
	for i, t := range turns {
		turns[i].OfPeak = math.Round(1000*t.Goodput/max(peak, 1e-9)) / 10
	}
}

// goodput returns the units sold a second, from the first commit to the last while buyers arrived.
// A slow shop commits in batches, so the first batch (its start is unknown) and those after the
// last arrival do not count. With fewer than two commits it returns Throughput.
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

// soldOut sells the only unit to the first buyer. Then the others are refused again and again.
func soldOut(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	quiet := *d
	quiet.Poll = 100
	first, err := quiet.turn(ctx, plan{name: "last unit", buyers: buyers[:1], arrivals: 1, duration: time.Second,
		retry: true, fixed: true, conns: 1})
	if err != nil || len(buyers) == 1 {
		return []Turn{first}, err
	}
	t, err := d.turn(ctx, plan{name: "soldout", buyers: buyers[1:], arrivals: math.MaxInt, duration: d.duration(),
		conns: d.Conns})
	return []Turn{first, t}, err
}

// impatient lets all buyers arrive within a second. They soon hang up and click again.
func impatient(ctx context.Context, d *driver, buyers []Buyer) ([]Turn, error) {
	return single(d.turn(ctx, plan{name: "impatient", buyers: buyers, arrivals: len(buyers),
		when:     atRate(float64(len(buyers))),
		duration: 30 * time.Second, patience: 5 * time.Millisecond, retry: true, fixed: true,
		conns: min(d.Conns, len(buyers))}))
}
