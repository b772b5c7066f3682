package bench

import (
	"math"
	"testing"
	"time"
)

func TestLatency(t *testing.T) {
	all, other := newTally(), newTally()
	for i := 1; i <= 1000; i++ { // 1 ms to 1 s
		record([]*tally{all, other}[i%2].accept, time.Duration(i)*time.Millisecond)
	}
	all.merge(other)
	l := latency(all.accept)
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"p50", l.P50, 500}, {"p90", l.P90, 900}, {"p99", l.P99, 990}, {"p99.9", l.P999, 999}, {"max", l.Max, 1000}} {
		if math.Abs(c.got-c.want) > c.want/100 {
			t.Errorf("%s is %.1f ms, want %.0f", c.name, c.got, c.want)
		}
	}
	if l.Count != 1000 || l.Curve[len(l.Curve)-1].Percent != 99.9 {
		t.Errorf("%d values, and the curve ends at %v; want 1,000, and 99.9 %%: less than one value is beyond", l.Count, l.Curve[len(l.Curve)-1])
	}
	record(all.accept, time.Hour)
	if max := latency(all.accept).Max; max < 119_000 {
		t.Errorf("an hour counts as %v ms, want the end of the range", max)
	}
}
