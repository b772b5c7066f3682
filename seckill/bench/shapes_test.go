package bench

import "testing"

// A slow shop commits in batches. Goodput counts what it sells between the first and the last while
// buyers arrive.
func TestGoodput(t *testing.T) {
	var batches Turn
	batches.Seconds, batches.Committed = 3, 1
	for i := range 50 { // 100 units each half second, from 0.7 s on; buyers arrive for 3 s, and the last unit is sold much later
		batches.Samples = append(batches.Samples, Sample{At: float64(i) / 10, Sold: 100*max(0, (min(i, 30)-2)/5) + i/49})
	}
	if got := batches.goodput(); got < 199 || got > 201 {
		t.Errorf("%.1f/s, want 200", got)
	}
	batches.Samples = batches.Samples[:8]
	if got := batches.goodput(); got != 1 {
		t.Errorf("%.1f/s of one batch, want the commits of the whole turn", got)
	}
	turns := []Turn{batches, batches}
	turns[1].Committed = 4
	if setOfPeak(turns); turns[0].OfPeak != 25 || turns[1].OfPeak != 100 {
		t.Errorf("%.1f %% and %.1f %%, want 25 and 100", turns[0].OfPeak, turns[1].OfPeak)
	}
}
