package lab

import (
	"slices"
	"testing"
	"time"
)

// A seed determines the crowd. Another seed has another crowd. A second click follows its first.
func TestCrowdsAreSeeded(t *testing.T) {
	t.Parallel()
	p := Plan{Buyers: 50, DoubleClicks: 20, Seed: 3}
	clicks := p.Clicks()
	if len(clicks) != 60 || !slices.Equal(clicks, p.Clicks()) {
		t.Errorf("%d clicks: %v", len(clicks), clicks)
	}
	p.Seed++
	if slices.Equal(clicks, p.Clicks()) {
		t.Error("two seeds have the same crowd")
	}
	twice := 0
	for i, c := range clicks[1:] {
		if c.User == clicks[i].User {
			twice++
			if c.node != clicks[i].node+1 {
				t.Errorf("the second click of %d is at the same node", c.User)
			}
		}
	}
	if twice != 10 {
		t.Errorf("%d buyers click twice, want 10", twice)
	}
}

// The time in which only buyers of a dead process wait is recovery. It is not part of the speed.
func TestRecoveryIsNotSpeed(t *testing.T) {
	t.Parallel()
	o := outcome{cutOff: map[int64]bool{2: true}, replies: []reply{{user: 1, at: time.Second}, {user: 2, at: 2 * time.Second}, {user: 3, at: 3 * time.Second}, {user: 2, at: 9 * time.Second}}}
	if until, n := o.selling(); until != 3*time.Second || n != 3 {
		t.Errorf("selling until %v, %d replies", until, n)
	}
	o.cutOff = map[int64]bool{1: true, 2: true, 3: true}
	if until, n := o.selling(); until != 9*time.Second || n != 4 {
		t.Errorf("if all were cut off: until %v, %d replies", until, n)
	}
}
