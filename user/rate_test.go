package user

import (
	"testing"
	"time"

	"golang.org/x/time/rate"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]Limit{
		"5/s":     {Rate{5, time.Second}, 10},
		"0.05/s":  {Rate{0.05, time.Second}, 1},
		"30/min":  {Rate{30, time.Minute}, 30},
		"3/10min": {Rate{3, 10 * time.Minute}, 3},
		"10/hour": {Rate{10, time.Hour}, 10},
	} {
		r, err := ParseRate(text)
		if got := NewLimit(r); err != nil || got != want || r.String() != text {
			t.Errorf("%s: %+v, %v, as text %s; want %+v", text, got, err, r, want)
		}
	}
	for _, text := range []string{"", "5", "/s", "5/", "0/s", "-1/s", "NaN/s", "Inf/s", "2e9/s", "5/0min", "5/-1min", "5/101min", "5/1.5min", "5/day", "5/s/s", "1/100hour/s", "5 /s", "0.001/hour"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
	if got := (Rate{3, 10 * time.Minute}).Refill(); got != 200*time.Second {
		t.Errorf("a token of 3/10min comes back in %v", got)
	}
}

// A program that asks ten times a second, against a counter for each minute of the clock and against a bucket, each for 30/min. The counter
// lets twice as many through within six seconds, around the full minute. The bucket lets as many through within a minute: those that it
// held, and those that came back; within six seconds hardly more than it held.
func TestAWindowAndABucketLetTwiceThrough(t *testing.T) {
	t.Parallel()
	minute := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	window := func(from time.Time, during time.Duration) (passed int) {
		counts := map[time.Time]int{}
		for at := from; at.Before(from.Add(during)); at = at.Add(100 * time.Millisecond) {
			if m := at.Truncate(time.Minute); counts[m] < 30 {
				counts[m]++
				passed++
			}
		}
		return passed
	}
	bucket := func(burst int, during time.Duration) (passed int) {
		l := MustLimit("30/min", burst)
		b := rate.NewLimiter(rate.Every(l.Refill()), l.Burst)
		for at := minute; at.Before(minute.Add(during)); at = at.Add(100 * time.Millisecond) {
			if b.AllowN(at, 1) {
				passed++
			}
		}
		return passed
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{
		{"a window, the minute of the clock", window(minute, time.Minute), 30},
		{"a window, 3 s before and after a full minute", window(minute.Add(-3*time.Second), 6*time.Second), 60},
		{"a bucket, a minute", bucket(0, time.Minute), 59},
		{"a bucket, 6 s", bucket(0, 6*time.Second), 32},
		{"a bucket that holds one, a minute", bucket(1, time.Minute), 30},
	} {
		t.Logf("%s: %d", c.what, c.got)
		if c.got != c.want {
			t.Errorf("%s: %d passed, want %d", c.what, c.got, c.want)
		}
	}
}
