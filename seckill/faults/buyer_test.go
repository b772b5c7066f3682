//go:build faults && linux

package faults

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// buyer is one buyer of the crowd. Their plans are drawn at random before they arrive. State is the last state that the
// buyer was told.
type buyer struct {
	*sandboxtest.Buyer
	crowd                *Crowd
	rng                  *rand.Rand // of the buyer's own goroutine
	shop                 atomic.Int64
	phase                int
	arrives              time.Duration // after the begin of the phase
	twice, pays, cancels bool
}

func newBuyer(c *Crowd, session *sandboxtest.Buyer, rng *rand.Rand) *buyer {
	b := &buyer{Buyer: session, crowd: c, rng: rng}
	b.Send = func(kind, method, path, body string) sandboxtest.Reply {
		_, reply := c.ledger.send(c.env.anyShop(int(b.shop.Add(1))), b.ID, b.Token, kind, method, path, body)
		return reply
	}
	return b
}

// atRandom chooses the shop of the next request. The requests after it go to the shops in turn, so two clicks at once reach
// two shops.
func (b *buyer) atRandom() *sandboxtest.Buyer {
	b.shop.Store(b.rng.Int64N(1 << 30))
	return b.Buyer
}

// pause waits for about d.
func (b *buyer) pause(d time.Duration) { time.Sleep(d/2 + time.Duration(b.rng.Int64N(int64(d)))) }

// buy clicks, perhaps twice at once, and polls until the result is final. A buyer who is told "sold out" tries again, until
// no unit can come back on sale.
func (b *buyer) buy() {
	for b.crowd.running() {
		if b.Path == "" {
			if reply := b.atRandom().AskPath(); b.Path == "" {
				if b.handleRefusal(reply); b.State == "sold_out" {
					if b.crowd.isSoldOut() {
						return
					}
					b.pause(b.crowd.plan.again)
				}
				continue
			}
		}
		reply := b.click()
		switch data := reply.Purchase(); data.State {
		case "queued":
			b.State = b.poll()
		case "":
			b.handleRefusal(reply)
		default:
			b.State, b.OrderID = data.State, data.OrderID
		}
		switch b.State {
		case "ordered":
			return
		case "closed", "invalid", "ended":
			return // checkResponses reports it
		case "sold_out":
			if b.crowd.isSoldOut() {
				return
			}
			b.atRandom().AskResult() // for the checks of what a buyer without a ticket is told
			b.pause(b.crowd.plan.again)
		}
	}
}

// handleRefusal keeps the state that a refusal has, and waits before the next try.
func (b *buyer) handleRefusal(reply sandboxtest.Reply) {
	b.State = ""
	switch reply.Code {
	case "sold_out", "ended":
		b.State = reply.Code
	case "bad_path":
		b.Path = ""
	case "not_started":
		b.pause(min(time.Duration(max(reply.Purchase().StartsIn, 50))*time.Millisecond, time.Second))
	default:
		b.pause(150 * time.Millisecond) // less than the shop asks for
	}
}

// click buys. Of two clicks at once it returns the better reply.
func (b *buyer) click() sandboxtest.Reply {
	if !b.twice {
		return b.atRandom().Click(1)[0]
	}
	replies := b.atRandom().Click(2)
	b.twice = b.rng.IntN(4) > 0 // at some time the buyer clicks once only
	for _, want := range []string{"ordered", "queued"} {
		for _, reply := range replies {
			if reply.Purchase().State == want {
				return reply
			}
		}
	}
	return replies[0]
}

// poll asks for the result until it is final, and returns it. It returns "" if the time of the crowd is over, or if the
// ticket is gone and the buyer has to click again.
func (b *buyer) poll() string {
	next := 20
	for b.crowd.running() {
		time.Sleep(time.Duration(max(20, next)) * time.Millisecond)
		reply := b.atRandom().AskResult()
		if reply.Status != 200 {
			b.pause(100 * time.Millisecond)
			continue
		}
		switch data := reply.Purchase(); {
		case data.State == "queued":
			next = data.NextPoll
		case data.NoTicket():
			return ""
		default:
			b.OrderID = data.OrderID
			return data.State
		}
	}
	return ""
}

// useOrder reads the order and the result once more, and then pays or cancels.
func (b *buyer) useOrder() {
	if b.OrderID == "" {
		return
	}
	deadline := b.crowd.deadline()
	b.atRandom().Insist(deadline, "order", "GET", "/api/orders/"+b.OrderID, "")
	b.pause(200 * time.Millisecond)
	b.atRandom().AskResult()
	switch {
	case b.cancels:
		b.atRandom().Cancel(deadline, b.OrderID)
	case b.pays:
		b.pause(b.crowd.plan.payAfter)
		b.atRandom().Pay(deadline, b.OrderID)
	}
}

func (b *buyer) String() string { return fmt.Sprintf("buyer %d", b.ID) }
