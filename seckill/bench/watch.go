package bench

import (
	"context"
	"fmt"
	"time"
)

// Sample is what had happened by then.
type Sample struct {
	At   float64 `json:"at"` // seconds
	Sold int     `json:"sold"`
	counts
}

// watch keeps a sample each tenth of a second, and writes a line each second, until ctx ends.
func (t *turn) watch(ctx context.Context, before int) (samples []Sample, peak int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	sold := before
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return samples, peak
		case <-tick.C:
		}
		s := Sample{At: time.Since(t.began).Seconds()}
		for _, one := range t.tallies {
			s.counts.add(one.now())
		}
		if now, err := t.sold(ctx); err == nil {
			sold = now
		}
		s.Sold = sold - before
		samples = append(samples, s)
		if n%10 != 0 {
			continue
		}
		if u := t.usage(ctx); u != nil {
			peak = max(peak, u.Memory)
		}
		fmt.Fprintf(t.progress, "%-9s %3.0f s  offered %d  accepted %d  refused %d  failed %d  know %d  committed %d\n",
			t.plan.name, s.At, s.Offered, s.Accepted, s.Refused, s.Failed, s.Known, s.Sold)
	}
}

func (d *driver) sold(ctx context.Context) (int, error) {
	if d.Sold == nil {
		return 0, nil
	}
	return d.Sold(ctx)
}

func (d *driver) usage(ctx context.Context) *Usage {
	if d.Usage == nil {
		return nil
	}
	u, err := d.Usage(ctx)
	if err != nil {
		return nil
	}
	return &u
}

// settle waits until what was accepted is sold, or until nothing has moved for three seconds. It gives the moment of the
// last sale that it saw.
func (d *driver) settle(ctx context.Context, before, accepted int) (sold int, last time.Time, err error) {
	sold, err = d.sold(ctx)
	last = time.Now()
	for err == nil && d.Sold != nil && sold-before < accepted && time.Since(last) < 3*time.Second {
		select {
		case <-ctx.Done():
			return sold, last, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		var now int
		if now, err = d.sold(ctx); err == nil && now != sold {
			sold, last = now, time.Now()
		}
	}
	return sold, last, err
}
