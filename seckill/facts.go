package seckill

import (
	"maps"
	"sync"

	"miaosha/seckill/gate"
)

const doubtTicks = 10 // ticks of reconcile during which a call without a reply may still be carried out

// saleFacts is what this process knows of a sale and neither its gate nor its row shows.
type saleFacts struct {
	bypassed   int   // not 0: the sale sold without its gate, which may not know these buyers; grows with each such sale
	inDoubt    int   // ticks left in which a reserve call without a reply may still be carried out
	rolledBack bool  // Redis came back with older data: the gate may know none of its buyers
	ops        int64 // of the gate, at the last tick
}

// facts holds the saleFacts of every sale. Lanes write them; reconcile reads and clears them.
type facts struct {
	mu     sync.Mutex
	bySale map[int64]saleFacts
}

func newFacts() *facts { return &facts{bySale: map[int64]saleFacts{}} }

func (f *facts) of(sale int64) saleFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bySale[sale]
}

func (f *facts) change(sale int64, change func(*saleFacts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.bySale[sale]
	change(&s)
	f.bySale[sale] = s
}

// markBypassed notes, after the commit, that a sale sold without its gate.
func (f *facts) markBypassed(sale int64) { f.change(sale, func(s *saleFacts) { s.bypassed++ }) }

// markInDoubt notes that a reserve call had no reply.
func (f *facts) markInDoubt(sale int64) {
	f.change(sale, func(s *saleFacts) { s.inDoubt = doubtTicks })
}

// recovered notes one search for tickets in doubt, begun at was. A newer doubt, which has another
// count, stays as it is.
func (f *facts) recovered(sale int64, was saleFacts) {
	f.change(sale, func(s *saleFacts) {
		if s.inDoubt == was.inDoubt {
			s.inDoubt--
		}
	})
}

// seeded notes that the owners were seeded, begun at was. A sale that sold without its gate after that stays bypassed.
func (f *facts) seeded(sale int64, was saleFacts) {
	f.change(sale, func(s *saleFacts) {
		s.rolledBack = false
		if s.bypassed == was.bypassed {
			s.bypassed = 0
		}
	})
}

// compare compares the gates with those of the last tick. Fewer ops than before mean that Redis was restored from older
// data, or that it lost everything and another process has rebuilt the gate.
func (f *facts) compare(gates map[int64]gate.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sale, s := range f.bySale {
		if gates[sale].Epoch == 0 {
			s.ops = 0 // no gate: the process that rebuilds it seeds all owners
			f.bySale[sale] = s
		}
	}
	for sale, g := range gates {
		if g.Epoch != 0 {
			s := f.bySale[sale]
			s.rolledBack = s.rolledBack || g.Ops < s.ops
			s.ops = g.Ops
			f.bySale[sale] = s
		}
	}
	maps.DeleteFunc(f.bySale, func(_ int64, s saleFacts) bool { return s == saleFacts{} })
}
