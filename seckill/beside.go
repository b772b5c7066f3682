package seckill

import (
	"time"

	"miaosha/order"
	"miaosha/seckill/gate"
)

// What sells nothing stands beside the rush, in packages that import this one: captcha, trace. The rush calls it through the
// interfaces here.

// Trace is told the steps of tickets, for a person who follows one. A call takes a few nanoseconds for each ticket. Package trace
// remembers them.
type Trace interface {
	SumDrawn(sale, user int64, began time.Time)
	SumSolved(sale, user int64, began time.Time)
	Address(sale, user int64, began time.Time)
	Grant(sale int64, clicks int, came time.Time, granted []order.Ticket, asked, replied time.Time, ahead int)
	Claim(sale int64, tickets []order.Ticket)
	Settle(sale int64, tickets []order.Ticket, results []order.Result, began, locked time.Time)
	Ack(sale int64, results []order.Result, began time.Time)
	Tell(sale int64, results []order.Result, streams int)
}

// untraced is told everything and remembers nothing.
type untraced struct{}

func (untraced) SumDrawn(int64, int64, time.Time)                                       {}
func (untraced) SumSolved(int64, int64, time.Time)                                      {}
func (untraced) Address(int64, int64, time.Time)                                        {}
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
}

// Shared returns what the parts beside the rush use of it.
func (e *Engine) Shared() Shared {
	return Shared{Name: e.reclaimer.alive.shown(), Gate: e.lanes.gate, Clock: e.clock}
}
