package trace

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"miaosha/order"
)

// kindsOf returns the kinds of the steps that are remembered of a ticket.
func kindsOf(t *Trace, ticket string) (kinds []uint8) {
	for _, s := range t.ofTicket(ticket) {
		kinds = append(kinds, s.kind)
	}
	return kinds
}

// entryOf returns the tickets of users first, first+1 and so on, n of them, in one journal entry.
func entryOf(entry string, first int64, n int) (tickets []order.Ticket) {
	for user := first; user < first+int64(n); user++ {
		tickets = append(tickets, order.Ticket{ID: fmt.Sprintf("1:%s:%d", entry, user), UserID: user})
	}
	return tickets
}

// A ticket finds the steps of its own batches alone, also among batches of the same entry id in another sale.
func TestATicketFindsItsBatches(t *testing.T) {
	t.Parallel()
	tr, now := New(), time.Now()
	first, second := entryOf("100-0", 1, 256), entryOf("100-1", 1000, 3)
	other := []order.Ticket{{ID: "2:100-0:1", UserID: 1}}
	for _, granted := range [][]order.Ticket{first, second, other} {
		tr.Grant(1, 1, now, granted, now, now, 0)
	}
	both := append(first, second...)
	results := make([]order.Result, len(both))
	for i, b := range both {
		results[i] = order.Result{Ticket: b.ID, UserID: b.UserID, Outcome: order.Ordered}
	}
	tr.Settle(1, both, results, now, now)
	tr.Ack(1, results, now)
	tr.Tell(1, results[:256], 2)
	for ticket, want := range map[string][]uint8{
		first[0].ID: {tracedGrant, tracedSettle, tracedAck, tracedTell}, first[255].ID: {tracedGrant, tracedSettle, tracedAck, tracedTell},
		second[2].ID: {tracedGrant, tracedSettle, tracedAck}, other[0].ID: {tracedGrant}, "1:100-2:1": nil,
	} {
		if got := kindsOf(tr, ticket); string(got) != string(want) {
			t.Errorf("%s: steps %v, want %v", ticket, got, want)
		}
	}
	if s := tr.ofTicket(first[0].ID)[1]; s.in != 259 || s.out != 259 {
		t.Errorf("the settle transaction has %d tickets and %d orders, want 259", s.in, s.out)
	}
	if n := len(tr.batches.keys); n != 1+1+1+2+2+1 {
		t.Errorf("%d entries are remembered: more than one for each batch", n)
	}
}

// However much is recorded, the rings keep their bounds, and the newest steps.
func TestTheTraceIsBounded(t *testing.T) {
	t.Parallel()
	tr, now := New(), time.Now()
	lone := make([]order.Ticket, 2000) // the worst: each an entry of its own
	for n := range int64(traceEntries/2000 + 20) {
		for i := range lone {
			lone[i] = entryOf("1-"+string(rune('a'+n)), n*2000+int64(i), 1)[0]
			lone[i].ID = lone[i].ID[:len(lone[i].ID)-1] + "-" + string(rune(i)) + ":x"
		}
		tr.Claim(1, lone)
	}
	for range traceBatches + 10 {
		tr.Claim(1, lone[1999:])
	}
	for range traceCalls + 10 {
		tr.SumDrawn(1, 2, now)
	}
	if r := &tr.batches; len(r.records) != traceBatches || len(r.keys) != traceEntries || len(tr.calls.records) != traceCalls {
		t.Errorf("%d steps, %d entries and %d calls are kept", len(r.records), len(r.keys), len(tr.calls.records))
	}
	if got := len(tr.ofTicket(lone[1999].ID)); got != traceBatches {
		t.Errorf("%d steps of the newest entry, want %d", got, traceBatches)
	}
	if got := tr.ofTicket(lone[0].ID); got != nil {
		t.Errorf("%d steps of an entry whose place was taken", len(got))
	}
	if got := len(tr.ofUser(1, 2)); got != traceCalls {
		t.Errorf("%d calls of the user, want %d", got, traceCalls)
	}
}

// Lanes, workers and questions use the trace at the same time. A trace that is nil records nothing.
func TestTheTraceIsShared(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tr := range []*Trace{New(), nil} {
		var all sync.WaitGroup
		for n := range int64(8) {
			all.Go(func() {
				tickets := entryOf("1-0", n*10, 10)
				for range 100 {
					tr.AddressGiven(1, n, now)
					tr.Grant(1, 1, now, tickets, now, now, 1)
					tr.Claim(1, tickets)
					tr.Settle(1, tickets, nil, now, now)
					tr.Ack(1, nil, now)
					tr.Tell(1, nil, 0)
					if tr != nil {
						tr.ofTicket(tickets[0].ID)
						tr.ofUser(1, n)
					}
				}
			})
		}
		all.Wait()
		if tr != nil && (tr.batches.added != 8*500 || tr.calls.added != 800) {
			t.Errorf("%d batches and %d calls were recorded", tr.batches.added, tr.calls.added)
		}
	}
}

// The times of a process's steps move by the difference of the clocks, but not by what the measuring itself may have made.
func TestABadlyMeasuredClockMovesNoStep(t *testing.T) {
	for _, c := range []struct{ offset, within, want time.Duration }{
		{time.Hour, time.Millisecond, time.Hour}, {-time.Hour, time.Second, -time.Hour}, {15 * time.Millisecond, 0, 0},
		{40 * time.Millisecond, time.Millisecond, 40 * time.Millisecond}, {40 * time.Millisecond, 50 * time.Millisecond, 0}, {-40 * time.Millisecond, 50 * time.Millisecond, 0},
	} {
		if got := apart(c.offset, c.within); got != c.want {
			t.Errorf("%v within %v is %v, want %v", c.offset, c.within, got, c.want)
		}
	}
}
