package lab

import (
	"slices"
	"testing"
)

// A seed determines the crowd. Another seed has another crowd. A second click follows its first.
func TestCrowdsAreSeeded(t *testing.T) {
	t.Parallel()
	p := Plan{Buyers: 50, DoubleClicks: 20, Seed: 3}
	clicks := p.clicks()
	if len(clicks) != 60 || !slices.Equal(clicks, p.clicks()) {
		t.Errorf("%d clicks: %v", len(clicks), clicks)
	}
	p.Seed++
	if slices.Equal(clicks, p.clicks()) {
		t.Error("two seeds have the same crowd")
	}
	twice := 0
	for i, c := range clicks[1:] {
		if c.user == clicks[i].user {
			twice++
			if c.node != clicks[i].node+1 {
				t.Errorf("the second click of %d is at the same node", c.user)
			}
		}
	}
	if twice != 10 {
		t.Errorf("%d buyers click twice, want 10", twice)
	}
}
