package seckill

import (
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/gate"
)

// States of a buyer in a sale.
const (
	None    = gate.None // no ticket: asking is safe
	Queued  = gate.Queued
	Ordered = order.Ordered
	SoldOut = order.SoldOut
	Closed  = order.Closed
	Invalid = order.Invalid
)

// soldOutPoll is after which time to ask again whether a unit came back.
const soldOutPoll = time.Second

// Status is what became of a buyer's ticket so far.
type Status struct {
	State    string
	OrderID  uuid.UUID     // when Ordered
	Ahead    int           // when Queued: tickets that will be settled before this one, as far as known
	NextPoll time.Duration // when to ask again; 0 when final
}

// Final reports whether the state is final.
func (s Status) Final() bool { return s.State != Queued && !s.NoTicket() }

// NoTicket reports whether the user has no ticket and no order, so that buying is safe. SoldOut with a NextPoll says so
// of a sale that has no unit now; SoldOut without one is the result of a ticket.
func (s Status) NoTicket() bool { return s.State == None || s.State == SoldOut && s.NextPoll > 0 }

// statusOf returns the Status of a result. A duplicate shows as the order that the buyer has.
func statusOf(r order.Result) Status {
	if r.OrderID != uuid.Nil {
		return Status{State: Ordered, OrderID: r.OrderID}
	}
	switch r.Outcome {
	case SoldOut, Closed:
		return Status{State: r.Outcome}
	}
	return Status{State: Invalid}
}

// statusAtGate returns the Status of what the gate remembers.
func statusAtGate(s gate.Status) Status { return Status{State: s.State, OrderID: s.OrderID} }

func queuedBehind(ahead int) Status {
	return Status{State: Queued, Ahead: ahead, NextPoll: nextPoll(ahead, false)}
}

// nextPoll returns after which time to ask again. The first poll after a buy comes when a fast machine has the result.
// Later polls stay below the limit of five requests a second. The time grows with the queue.
func nextPoll(ahead int, first bool) time.Duration {
	at := 200 * time.Millisecond
	if first {
		at = 50 * time.Millisecond
	}
	return min(at+time.Duration(ahead)*50*time.Microsecond, 2*time.Second)
}
