package seckill

import (
	"testing"
	"time"

	"miaosha/goods"
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
	f.markInDoubt(1)
	was := f.of(1)
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

// A process is sure of a gate for a short time after it has looked at a row without a mark.
func TestFactsAreSureForAShortTime(t *testing.T) {
	t.Parallel()
	clean, marked := goods.SaleState{ID: 1}, goods.SaleState{ID: 1, Bypass: goods.Bypass{Bypasses: 1}}
	for name, c := range map[string]struct {
		looks []goods.SaleState
		ago   time.Duration // since the last look began
		want  bool
	}{
		"never looked":            {nil, 0, false},
		"no mark":                 {[]goods.SaleState{clean}, 0, true},
		"no mark, a while ago":    {[]goods.SaleState{clean}, sureFor - 300*time.Millisecond, true},
		"no mark, too long ago":   {[]goods.SaleState{clean}, sureFor, false},
		"a mark":                  {[]goods.SaleState{marked}, 0, false},
		"a mark since":            {[]goods.SaleState{clean, marked}, 0, false},
		"a mark that was removed": {[]goods.SaleState{marked, {ID: 1, Bypass: goods.Bypass{Bypasses: 1, BypassesKnown: 1}}}, 0, true},
	} {
		f := newFacts()
		for _, look := range c.looks {
			f.looked(look, time.Now().Add(-c.ago))
		}
		if got := f.sure(1); got != c.want {
			t.Errorf("%s: sure %v, want %v", name, got, c.want)
		}
	}
	f := newFacts()
	f.compare(map[int64]gate.State{1: {Epoch: 1, Ops: 3}})
	f.compare(map[int64]gate.State{1: {Epoch: 1, Ops: 2}})
	if f.looked(clean, time.Now()); f.sure(1) {
		t.Error("sure of a gate that was rolled back")
	}
}

// The ticks are counted in which no other bypass came since the owners were seeded.
func TestFactsCountQuietTicks(t *testing.T) {
	t.Parallel()
	f := newFacts()
	look := func(bypasses int64) {
		f.looked(goods.SaleState{ID: 1, Bypass: goods.Bypass{Bypasses: bypasses}}, time.Now())
	}
	look(2)
	f.seededOwners(1, 2)
	look(2)
	look(2)
	look(3)
	if got := f.of(1).quiet; got != 2 {
		t.Errorf("%d quiet ticks, want 2", got)
	}
	if f.seededOwners(1, 3); f.of(1).quiet != 0 {
		t.Errorf("%d quiet ticks after another bypass, want 0", f.of(1).quiet)
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
