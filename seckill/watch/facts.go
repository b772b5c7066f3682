// Package watch is what a process knows of the gates: what it, or another process, has read of each a moment ago
// (Readings), and what it remembers of a gate to tell whether Redis went back, and until when the gate is sure to know
// every owner (Facts).
package watch

import (
	"maps"
	"sync"
	"time"

	"miaosha/goods"
	"miaosha/seckill/gate"
)

const (
	// Every is how often a process looks at the gates and the rows.
	Every = 150 * time.Millisecond

	// SureFor is how long a look at a sale's row is valid. A process that sells past a gate waits as long, once, after
	// it has marked the row.
	SureFor = 400 * time.Millisecond

	_ = uint(SureFor - 2*Every) // does not compile if one slow tick makes a process unsure
)

// SaleFacts is what this process knows of a sale and neither its gate nor its row shows.
type SaleFacts struct {
	RolledBack bool      // Redis came back with older data: the gate may know none of its buyers
	QuietSince time.Time // since when the sale has had as many bypasses as at the last look
	Ops        int64     // of the gate, as this process was told last

	seeded    int64     // the same
	bypasses  int64     // of the sale, at the last look
	sureUntil time.Time // till then the gate is known to know every owner
}

// Facts holds the SaleFacts of every sale.
type Facts struct {
	mu     sync.Mutex
	bySale map[int64]SaleFacts
}

func newFacts() *Facts { return &Facts{bySale: map[int64]SaleFacts{}} }

// Of returns what this process knows of a sale.
func (f *Facts) Of(sale int64) SaleFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bySale[sale]
}

func (f *Facts) change(sale int64, change func(*SaleFacts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.bySale[sale]
	change(&s)
	f.bySale[sale] = s
}

// Sure reports whether no buyer can have been told of an order that the sale's gate does not know. The question must
// come before the call of the gate: then a process that sells past the gate, and waits after it has marked the row, has
// told no buyer before the click that this process grants. After an outage of Postgres, or a pause, this process is not
// sure until it has looked at the row again.
func (f *Facts) Sure(sale int64) bool { return time.Now().Before(f.Of(sale).sureUntil) }

// Looked notes that a sale's row was read, by a query that began at that time, and its gate before that, if it could be
// read.
func (f *Facts) Looked(sale goods.SaleState, g Reading, at time.Time) {
	f.change(sale.ID, func(s *SaleFacts) {
		s.sureUntil = time.Time{}
		if !sale.Bypassed() && !s.RolledBack && g.Known >= sale.Bypasses {
			if s.sureUntil = at.Add(SureFor); !g.until.IsZero() && g.until.Before(s.sureUntil) {
				s.sureUntil = g.until
			}
		}
		if s.bypasses != sale.Bypasses || s.QuietSince.IsZero() {
			s.bypasses, s.QuietSince = sale.Bypasses, at
		}
	})
}

// Back reports whether a gate knows less than this process was told of it: if it was read just now, Redis came back
// with older data. A gate with more seedings than that is another one, or was repaired: whoever has set it up has
// seeded all owners.
func (f *Facts) Back(sale int64, g gate.State) bool {
	s := f.Of(sale)
	return g.Epoch != 0 && (g.Seeded < s.seeded || g.Seeded == s.seeded && g.Ops < s.Ops)
}

// compare compares the gates with what this process was told of them before.
func (f *Facts) compare(gates map[int64]Reading) {
	for sale, g := range gates {
		if g.Epoch != 0 {
			back := f.Back(sale, g.State)
			f.change(sale, func(s *SaleFacts) {
				s.RolledBack = back || s.RolledBack && g.Seeded == s.seeded
				s.seeded, s.Ops = g.Seeded, g.Ops
			})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.bySale, func(sale int64, s SaleFacts) bool {
		_, seen := gates[sale]
		return !seen && !s.RolledBack
	})
}
