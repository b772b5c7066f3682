package user

import (
	"testing"
	"time"
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
