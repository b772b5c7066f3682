package bench

import "testing"

// The percentage of the buyers who pay holds for each part of the arrivals.
func TestPayersAreSpread(t *testing.T) {
	for _, percent := range []int{0, 10, 50, 100} {
		n := 0
		for k := range 1000 {
			if (&buyer{index: k}).pays(percent) {
				n++
			}
		}
		if n < 10*percent-50 || n > 10*percent+50 {
			t.Errorf("%d of the first 1,000 pay, want about %d %%", n, percent)
		}
		if percent%100 == 0 && n != 10*percent {
			t.Errorf("%d of the first 1,000 pay, want exactly %d %%", n, percent)
		}
	}
}
