package seckill

import (
	"testing"

	"miaosha/order"
)

// Of a ticket that comes from the journal another process, or this one before its restart, may have sent a COMMIT.
func TestATicketFromTheJournalIsInDoubt(t *testing.T) {
	t.Parallel()
	q := newOrderQueue(10, nil)
	q.submit(1, []order.Ticket{{ID: "a", UserID: 1}}, true)
	q.submit(1, []order.Ticket{{ID: "b", UserID: 2}}, false)
	s, _ := q.next()
	if got := q.places(1, []int64{1, 2}); got[1] != (place{0, false}) || got[2] != (place{1, true}) {
		t.Errorf("before the COMMIT: %+v", got)
	}
	q.send(s)
	if got := q.places(1, []int64{1, 2}); got[1] != (place{0, true}) || got[2] != (place{1, true}) {
		t.Errorf("after the COMMIT: %+v", got)
	}
	q.done(s)
	q.submit(1, []order.Ticket{{ID: "c", UserID: 2}}, true)
	if got := q.places(1, []int64{1, 2}); len(got) != 1 || got[2] != (place{0, false}) {
		t.Errorf("a new ticket: %+v", got)
	}
}
