package seckill

import (
	"context"
	"time"

	"miaosha/order"
	"miaosha/seckill/gate"
)

// What sells nothing stands beside the rush, in packages that import this one: captcha, trace. The rush calls it
// through the interfaces here.

// Sum is a user's answer to the sum that the shop asks for before an address. Package captcha has it.
type Sum interface {
	Check(ctx context.Context) error // a refusal, or nil for the right answer
}

// Trace is told the steps of tickets, for a person who follows one. A call takes a few nanoseconds for each ticket.
// Package trace remembers them.
type Trace interface {
	AddressGiven(sale, user int64, began time.Time)
	Grant(sale int64, clicks int, came time.Time, granted []order.Ticket, asked, replied time.Time, ahead int)
	Claim(sale int64, tickets []order.Ticket)
	Settle(sale int64, tickets []order.Ticket, results []order.Result, began, locked time.Time)
	Ack(sale int64, results []order.Result, began time.Time)
	Tell(sale int64, results []order.Result, streams int)
}

// untraced is told everything and remembers nothing.
type untraced struct{}

func (untraced) AddressGiven(int64, int64, time.Time)                                   {}
func (untraced) Grant(int64, int, time.Time, []order.Ticket, time.Time, time.Time, int) {}
func (untraced) Claim(int64, []order.Ticket)                                            {}
func (untraced) Settle(int64, []order.Ticket, []order.Result, time.Time, time.Time)     {}
func (untraced) Ack(int64, []order.Result, time.Time)                                   {}
func (untraced) Tell(int64, []order.Result, int)                                        {}

// Shared is what the parts beside the rush use of it.
type Shared struct {
	Name  string      // of this process, as people read it
	Gate  *gate.Gate  // behind the circuit breaker of this process
	Clock *gate.Clock // which judges windows and expiries

	Refusal func(doing string, err error) error // returns a refusal; logs and counts a fault, and returns ErrBusy
}

// Shared returns what the parts beside the rush use of it.
func (e *Engine) Shared() Shared {
	return Shared{Name: e.reclaimer.alive.Shown(), Gate: e.lanes.gate, Clock: e.clock, Refusal: e.metrics.refusal}
}
