package seckill

import (
	"testing"

	"miaosha/seckill/gate"
)

func TestFactsOfARolledBackGate(t *testing.T) {
	t.Parallel()
	at := func(ops int64) map[int64]gate.State { return map[int64]gate.State{1: {Epoch: 1, Ops: ops}} }
	for name, c := range map[string]struct {
		ticks []map[int64]gate.State
		want  bool
	}{
		"ops grow":                             {[]map[int64]gate.State{at(3), at(3), at(9)}, false},
		"ops shrink":                           {[]map[int64]gate.State{at(3), at(2)}, true},
		"ops shrink, then grow":                {[]map[int64]gate.State{at(3), at(2), at(4)}, true},
		"the gate was missing, and is rebuilt": {[]map[int64]gate.State{at(3), {1: {}}, at(1)}, false},
		"a tick did not see the sale":          {[]map[int64]gate.State{at(3), {}, at(1)}, false},
		"another sale's gate has fewer ops":    {[]map[int64]gate.State{at(3), {1: {Epoch: 1, Ops: 3}, 2: {Epoch: 1, Ops: 1}}}, false},
	} {
		f := newFacts()
		for _, gates := range c.ticks {
			f.compare(gates)
		}
		if got := f.of(1).rolledBack; got != c.want {
			t.Errorf("%s: rolled back %v, want %v", name, got, c.want)
		}
	}
}

// A repair clears only the facts that it saw when it began. What happens during the repair stays.
func TestFactsThatChangeDuringARepairStay(t *testing.T) {
	t.Parallel()
	f := newFacts()
	f.markBypassed(1)
	was := f.of(1)
	f.markBypassed(1)
	f.seeded(1, was)
	if f.of(1).bypassed == 0 {
		t.Error("a sale that sold without its gate during the seeding counts as seeded")
	}
	f.seeded(1, f.of(1))
	if f.of(1).bypassed != 0 {
		t.Error("a sale stays bypassed after the seeding")
	}

	f.markInDoubt(1)
	was = f.of(1)
	f.recovered(1, was)
	if got := f.of(1).inDoubt; got != doubtTicks-1 {
		t.Errorf("%d ticks of doubt after one recovery, want %d", got, doubtTicks-1)
	}
	f.markInDoubt(1)
	f.recovered(1, was) // saw an older doubt, which had as many ticks
	f.recovered(1, saleFacts{inDoubt: 3})
	if got := f.of(1).inDoubt; got != doubtTicks-1 {
		t.Errorf("%d ticks of doubt, want %d", got, doubtTicks-1)
	}
}

// A sale that is over leaves no facts, except a doubt that still has ticks.
func TestFactsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFacts()
	f.markInDoubt(2)
	f.compare(map[int64]gate.State{1: {Epoch: 1, Ops: 3}, 2: {Epoch: 1, Ops: 3}})
	f.compare(nil)
	if len(f.bySale) != 1 || f.of(2).inDoubt == 0 {
		t.Errorf("%v, want only the doubt of sale 2", f.bySale)
	}
}
