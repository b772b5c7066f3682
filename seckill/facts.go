package seckill

import (
	"maps"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

const (
	quietFor = 3 * time.Second // so long after the last bypass the mark is taken off a sale

	// sureFor is how long a look at a sale's row is good for. A process that sells past a gate waits as long, once, after
	// it has marked the row.
	sureFor = 400 * time.Millisecond

	_ = uint(sureFor - 2*reconcileEvery) // does not compile if one slow tick makes a process unsure
)

// saleFacts is what this process knows of a sale and neither its gate nor its row shows.
type saleFacts struct {
	rolledBack bool      // Redis came back with older data: the gate may know none of its buyers
	seeded     int64     // of the gate, as this process was told last
	ops        int64     // the same
	sureUntil  time.Time // till then the gate is known to know every owner
	bypasses   int64     // of the sale, at the last tick
	quietSince time.Time // since when they are as many
}

// facts holds the saleFacts of every sale.
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

// sure reports whether no buyer can have been told of an order that the sale's gate does not know. The question must come
// before the call of the gate: then a process that sells past the gate, and waits after it has marked the row, has told no
// buyer before the click that this process grants. After an outage of Postgres, or a pause, this process is not sure until it
// has looked at the row again.
func (f *facts) sure(sale int64) bool { return time.Now().Before(f.of(sale).sureUntil) }

// looked notes that a sale's row was read, by a query that began at that time, and its gate before that. A gate that was read is
// believed until then.
func (f *facts) looked(sale goods.SaleState, g gate.State, at, until time.Time) {
	f.change(sale.ID, func(s *saleFacts) {
		s.sureUntil = time.Time{}
		if !sale.Bypassed() && !s.rolledBack && g.Known >= sale.Bypasses {
			if s.sureUntil = at.Add(sureFor); !until.IsZero() && until.Before(s.sureUntil) {
				s.sureUntil = until
			}
		}
		if s.bypasses != sale.Bypasses || s.quietSince.IsZero() {
			s.bypasses, s.quietSince = sale.Bypasses, at
		}
	})
}

// back reports whether a gate knows less than this process was told of it: if it was read just now, Redis came back with older data.
// A gate with more seedings than that is another one, or was repaired: whoever has set it up has seeded all owners.
func (f *facts) back(sale int64, g gate.State) bool {
	s := f.of(sale)
	return g.Epoch != 0 && (g.Seeded < s.seeded || g.Seeded == s.seeded && g.Ops < s.ops)
}

// compare compares the gates with what this process was told of them before.
func (f *facts) compare(gates map[int64]reading) {
	for sale, g := range gates {
		if g.Epoch != 0 {
			back := f.back(sale, g.State)
			f.change(sale, func(s *saleFacts) {
				s.rolledBack = back || s.rolledBack && g.Seeded == s.seeded
				s.seeded, s.ops = g.Seeded, g.Ops
			})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.bySale, func(sale int64, s saleFacts) bool {
		_, seen := gates[sale]
		return !seen && !s.rolledBack
	})
}
