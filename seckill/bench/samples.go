package bench

import (
	"context"
	"fmt"
	"time"
)

// Sample is the state of a turn at one moment.
type Sample struct {
	At   float64 `json:"at"` // seconds
	Sold int     `json:"sold"`
	Counts
}

// watch takes a sample every 0.1 s and writes a line every second, until ctx ends. It returns the
// samples and the peak memory of the shop.
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
			s.Counts.add(one.snapshot())
		}
		if now, err := t.sold(ctx); err == nil {
			sold = now
		}
		s.Sold = sold - before
		samples = append(samples, s)
		if t.Watch != nil {
			t.Watch(s)
		}
		if n%10 != 0 {
			continue
		}
		if u := t.usage(ctx); u != nil {
			peak = max(peak, u.Memory)
		}
		fmt.Fprintf(t.progress,
			"%-9s %3.0f s  offered %d  accepted %d  refused %d  failed %d  results %d  committed %d\n",
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

// settle waits until all accepted tickets are sold, or until nothing has changed for three seconds.
// It returns the time of the last change.
func (d *driver) settle(ctx context.Context, before, accepted int) (sold int, last time.Time, err error) {
	sold, err = d.sold(ctx)
	last = time.Now()
	for err == nil && d.Sold != nil && sold-before < accepted && time.Since(last) < 3*time.Second {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return sold, last, err
		}
		var now int
		if now, err = d.sold(ctx); err == nil && now != sold {
			sold, last = now, time.Now()
		}
	}
	return sold, last, err
}
