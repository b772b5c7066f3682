// Package trace watches the rush: it remembers the last steps of tickets in this process and what became of them by
// sale, and answers what other processes and people ask. The rush knows of it only what seckill.Trace says, and sells
// without it too.
package trace

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"miaosha/order"
)

const (
	traceBatches = 1 << 15 // the last steps of batches that a process remembers
	traceEntries = 1 << 17 // the journal entries of these batches, in all
	traceCalls   = 1 << 13 // the last sums and addresses
)

// What a record is about.
const (
	tracedDraw = iota
	tracedSum
	tracedAddress
	tracedGrant
	tracedClaim
	tracedSettle
	tracedAck
	tracedTell
)

// Trace remembers the last steps of purchases in this process, for a person who follows one ticket. It is bounded, and
// a step of a batch is one record: a ticket finds the records of its batch by its journal entry. The steps before the
// ticket are found by user and sale. Its methods may be called on nil. Those that record hold a lock for a few
// nanoseconds for each entry.
type Trace struct {
	seed    maphash.Seed
	calls   traceRing
	batches traceRing
	bySale  sync.Map // sale id -> *counts
}

// traced is one step of one call, or of one batch.
type traced struct {
	kind       uint8
	sale, user int64
	at         int64         // its end, in ns since 1970: without a pointer the collector need not look into the ring
	took       time.Duration // until then
	in, out    int32         // how many went in; how many of them were granted, ordered or told
	ahead      int32         // tickets in the queue before those of a grant
	waited     time.Duration // of a grant: its oldest click, until the call; of a settle: for the row's lock
	queued     time.Duration // of a grant: from the reply until the tickets were in the queue
	from, to   uint64        // its keys, by number
}

// traceRing holds the last records, and the keys of their entries. It grows up to its bounds.
type traceRing struct {
	mu      sync.Mutex
	records []traced
	added   uint64 // records, also those that are gone
	keys    []uint64
	keyed   uint64
}

// New returns a Trace that remembers nothing yet.
func New() *Trace { return &Trace{seed: maphash.MakeSeed()} }

// put puts v at place n of a ring with a bound.
func put[T any](ring []T, n uint64, bound int, v T) []T {
	if len(ring) < bound {
		return append(ring, v)
	}
	ring[n%uint64(bound)] = v
	return ring
}

// SumDrawn, SumSolved and AddressGiven record a step of one user before the ticket, which began then.
func (t *Trace) SumDrawn(sale, user int64, began time.Time)  { t.call(tracedDraw, sale, user, began) }
func (t *Trace) SumSolved(sale, user int64, began time.Time) { t.call(tracedSum, sale, user, began) }
func (t *Trace) AddressGiven(sale, user int64, began time.Time) {
	t.call(tracedAddress, sale, user, began)
}

// call records a step of one user before the ticket, which began then.
func (t *Trace) call(kind uint8, sale, user int64, began time.Time) {
	if t == nil {
		return
	}
	now, r := time.Now(), &t.calls
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = put(r.records, r.added, traceCalls,
		traced{kind: kind, sale: sale, user: user, at: now.UnixNano(), took: now.Sub(began)})
	r.added++
}

// Grant records that a lane's batch of clicks got the granted tickets, and that they were queued behind others, just
// now. The first of the clicks came at came.
func (t *Trace) Grant(
	sale int64, clicks int, came time.Time, granted []order.Ticket, asked, replied time.Time, ahead int,
) {
	if t == nil || len(granted) == 0 {
		return
	}
	t.ofSale(sale).granted.Add(int64(len(granted)))
	t.tickets(traced{kind: tracedGrant, sale: sale, at: replied.UnixNano(), took: replied.Sub(asked), in: int32(clicks),
		out:   int32(len(granted)),
		ahead: int32(ahead), waited: asked.Sub(came), queued: time.Since(replied)}, granted)
}

// Claim records that tickets of journal entries without a living owner were queued.
func (t *Trace) Claim(sale int64, tickets []order.Ticket) {
	if t == nil {
		return
	}
	t.tickets(traced{kind: tracedClaim, sale: sale, at: time.Now().UnixNano(), in: int32(len(tickets))}, tickets)
}

// Settle records a settle transaction, which began then and had the lock of the sale's row at locked.
func (t *Trace) Settle(sale int64, tickets []order.Ticket, results []order.Result, began, locked time.Time) {
	if t == nil {
		return
	}
	ordered := 0
	for i := range results {
		if results[i].Outcome == order.Ordered {
			ordered++
		}
	}
	c := t.ofSale(sale)
	c.ordered.Add(int64(ordered))
	c.refused.Add(int64(len(results) - ordered))
	now := time.Now()
	t.tickets(traced{kind: tracedSettle, sale: sale, at: now.UnixNano(), took: now.Sub(began),
		waited: locked.Sub(began), in: int32(len(tickets)),
		out: int32(ordered)}, tickets)
}

// Ack records an acknowledgement at the gate.
func (t *Trace) Ack(sale int64, results []order.Result, began time.Time) {
	if t == nil {
		return
	}
	now := time.Now()
	t.results(traced{kind: tracedAck, sale: sale, at: now.UnixNano(), took: now.Sub(began)}, results)
}

// Tell records that the event streams of this process were told results.
func (t *Trace) Tell(sale int64, results []order.Result, streams int) {
	if t == nil {
		return
	}
	t.results(traced{kind: tracedTell, sale: sale, at: time.Now().UnixNano(), out: int32(streams)}, results)
}

func (t *Trace) tickets(step traced, tickets []order.Ticket) {
	t.batch(step, len(tickets), func(i int) string { return tickets[i].ID })
}

func (t *Trace) results(step traced, results []order.Result) {
	step.in = int32(len(results))
	t.batch(step, len(results), func(i int) string { return results[i].Ticket })
}

// batch records a step of n tickets.
func (t *Trace) batch(step traced, n int, ticket func(i int) string) {
	r := &t.batches
	r.mu.Lock()
	defer r.mu.Unlock()
	step.from = r.keyed
	for i, last := 0, ""; i < n; i++ {
		if entry := traceKey(ticket(i)); entry != last {
			r.keys = put(r.keys, r.keyed, traceEntries, maphash.String(t.seed, entry))
			r.keyed++
			last = entry
		}
	}
	step.to = r.keyed
	r.records = put(r.records, r.added, traceBatches, step)
	r.added++
}

// traceKey returns what a ticket shares with the others of its journal entry; the whole ticket if no journal has it.
func traceKey(ticket string) string {
	last := strings.LastIndexByte(ticket, ':')
	if strings.IndexByte(ticket, ':') == last { // epoch:entry:nonce has two
		return ticket
	}
	return ticket[:last]
}

// ofUser returns the sums and addresses of a user in a sale, the oldest first.
func (t *Trace) ofUser(sale, user int64) (found []traced) {
	r := &t.calls
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.records {
		if s.sale == sale && s.user == user {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b traced) int { return cmp.Compare(a.at, b.at) })
	return found
}

// ofTicket returns the steps of a ticket's batches, the oldest first. A step whose keys were overwritten is not found.
func (t *Trace) ofTicket(ticket string) (found []traced) {
	key, r := maphash.String(t.seed, traceKey(ticket)), &t.batches
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.records {
		for n := s.from; n < s.to && r.keyed-s.from <= traceEntries; n++ {
			if r.keys[n%traceEntries] == key {
				found = append(found, s)
				break
			}
		}
	}
	slices.SortStableFunc(found, func(a, b traced) int { return cmp.Compare(a.at, b.at) })
	return found
}
