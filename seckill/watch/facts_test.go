package watch

import (
	"testing"
	"testing/synctest"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

func TestFactsOfARolledBackGate(t *testing.T) {
	t.Parallel()
	seeded := func(seeded, ops int64) map[int64]Reading {
		return map[int64]Reading{1: {State: gate.State{Epoch: 1, Seeded: seeded, Ops: ops}}}
	}
	at := func(ops int64) map[int64]Reading { return seeded(1, ops) }
	for name, c := range map[string]struct {
		ticks []map[int64]Reading
		want  bool
	}{
		"ops grow":                             {[]map[int64]Reading{at(3), at(3), at(9)}, false},
		"ops shrink":                           {[]map[int64]Reading{at(3), at(2)}, true},
		"ops shrink, then grow":                {[]map[int64]Reading{at(3), at(2), at(4)}, true},
		"the gate was missing, and is rebuilt": {[]map[int64]Reading{at(3), {1: {}}, seeded(2, 1)}, false},
		"it is rebuilt between two ticks":      {[]map[int64]Reading{at(3), seeded(2, 1)}, false},
		"it was missing, and comes back":       {[]map[int64]Reading{at(3), {1: {}}, at(1)}, true},
		"Redis has the gate of before":         {[]map[int64]Reading{at(3), seeded(2, 1), at(5)}, true},
		"another process has seeded it again":  {[]map[int64]Reading{at(3), at(2), at(4), seeded(2, 4)}, false},
		"it goes back again after that":        {[]map[int64]Reading{at(3), at(2), seeded(2, 4), seeded(2, 3)}, true},
		"a tick did not see the sale":          {[]map[int64]Reading{at(3), {}, at(1)}, false},
		"another sale's gate has fewer ops":    {[]map[int64]Reading{at(3), {1: at(3)[1], 2: at(1)[1]}}, false},
	} {
		f := newFacts()
		for _, gates := range c.ticks {
			f.compare(gates)
		}
		if got := f.Of(1).RolledBack; got != c.want {
			t.Errorf("%s: rolled back %v, want %v", name, got, c.want)
		}
	}
}

// A process is sure of a gate for a short time after it has looked at a row without a mark, if the gate knows all bypasses.
func TestFactsAreSureForAShortTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clean, marked := goods.SaleState{ID: 1}, goods.SaleState{ID: 1, Bypass: goods.Bypass{Bypasses: 1}}
		removed := goods.SaleState{ID: 1, Bypass: goods.Bypass{Bypasses: 1, BypassesKnown: 1}}
		for name, c := range map[string]struct {
			looks []goods.SaleState
			known int64
			ago   time.Duration // since the last look began
			want  bool
		}{
			"never looked":                  {nil, 0, 0, false},
			"no mark":                       {[]goods.SaleState{clean}, 0, 0, true},
			"no mark, a while ago":          {[]goods.SaleState{clean}, 0, SureFor - 1, true},
			"no mark, too long ago":         {[]goods.SaleState{clean}, 0, SureFor, false},
			"a mark":                        {[]goods.SaleState{marked}, 1, 0, false},
			"a mark since":                  {[]goods.SaleState{clean, marked}, 1, 0, false},
			"a mark that was removed":       {[]goods.SaleState{marked, removed}, 1, 0, true},
			"a gate that forgot its buyers": {[]goods.SaleState{removed}, 0, 0, false},
		} {
			f := newFacts()
			for _, look := range c.looks {
				f.Looked(look, Reading{State: gate.State{Known: c.known}}, time.Now().Add(-c.ago))
			}
			if got := f.Sure(1); got != c.want {
				t.Errorf("%s: sure %v, want %v", name, got, c.want)
			}
		}
		f := newFacts()
		f.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Ops: 3}}})
		f.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Ops: 2}}})
		if f.Looked(clean, Reading{}, time.Now()); f.Sure(1) {
			t.Error("sure of a gate that was rolled back")
		}
		f.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Seeded: 2, Ops: 2}}})
		if f.Looked(clean, Reading{}, time.Now()); !f.Sure(1) {
			t.Error("not sure of a gate that knows all owners again")
		}
	})
}

// A sale is quiet since the look that found the number of bypasses that it has now.
func TestFactsKnowSinceWhenASaleIsQuiet(t *testing.T) {
	t.Parallel()
	f, begin := newFacts(), time.Now()
	for i, bypasses := range []int64{2, 2, 3, 3, 3} {
		f.Looked(goods.SaleState{ID: 1, Bypass: goods.Bypass{Bypasses: bypasses}}, Reading{}, begin.Add(time.Duration(i)*time.Second))
	}
	if got := f.Of(1).QuietSince.Sub(begin); got != 2*time.Second {
		t.Errorf("quiet since %v, want 2s", got)
	}
}

// A sale that is over leaves no facts, except that its gate was rolled back and knows too little.
func TestFactsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFacts()
	f.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Ops: 3}}, 2: {State: gate.State{Epoch: 1, Ops: 3}}})
	f.compare(map[int64]Reading{1: {State: gate.State{Epoch: 1, Ops: 3}}, 2: {State: gate.State{Epoch: 1, Ops: 2}}})
	f.compare(nil)
	if len(f.bySale) != 1 || !f.Of(2).RolledBack {
		t.Errorf("%v, want only that sale 2 was rolled back", f.bySale)
	}
}
