//go:build faults && linux

package faults

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// gateLag is how old the stock of the gate may be: a unit that comes back is on sale again within a second.
const gateLag = 1500 * time.Millisecond

// checkResponses checks every response in the ledger.
func (env *Environment) checkResponses(c *Crowd, samples []sample) {
	for _, resp := range c.ledger.filter(func(response) bool { return true }) {
		switch {
		case resp.Status == 500:
			env.Report("I10: status 500 to %s", resp.Kind)
		case resp.Status == 401:
			env.Report("I11: %s: a fault logged a user out", resp.Kind)
		case (resp.Kind == "list" || resp.Kind == "detail") && resp.Code == "busy":
			env.Late("I11: %s: busy after %v", resp.Kind, formatBound(resp.Took)) // a store did not answer in time
		case (resp.Kind == "list" || resp.Kind == "detail") && resp.Status != 200 && resp.Status != 0:
			env.Report("I11: %s: status %d %s", resp.Kind, resp.Status, resp.Code)
		case resp.Code == "ended" || resp.Code == "closed" || resp.Data.State == "closed":
			if env.mayBeClosed(resp.received()) {
				continue
			}
			env.Report("I5: %s: got %s%s for a sale that is open", resp.Kind, resp.Code, resp.Data.State)
		case resp.Data.State == "invalid" && !env.sc.poison:
			env.Report("I4: %s: a valid ticket was called invalid", resp.Kind)
		case resp.Code == "sold_out" || resp.Data.State == "sold_out":
			env.checkSoldOut(resp, c, samples)
		}
	}
	for _, b := range c.buyers {
		env.checkBuyer(b, c.ledger.filter(ofUser(b.ID)))
	}
}

// checkSoldOut checks that no buyer is told "sold out" while there is a unit for every buyer who wants one.
func (env *Environment) checkSoldOut(resp response, c *Crowd, samples []sample) {
	if c.plan.units == c.plan.buyers && (resp.User == 0 || resp.Kind == "late buy") {
		return // true at the end
	}
	if c.plan.units >= c.plan.buyers {
		env.Report("I5: an outage was reported as sold out: %s of shop %d, with a unit for every buyer", resp.Kind, resp.Shop)
		return
	}
	if resp.Kind == "result" && !resp.Data.NoTicket() {
		return // the result of a ticket, which may be old
	}
	from, to := resp.Sent.Add(-gateLag), resp.received()
	for i, s := range samples {
		if i+1 == len(samples) {
			return // unknown
		}
		next := samples[i+1]
		if next.at.Before(from) {
			continue
		}
		if i == 0 && s.at.After(from) || next.at.Sub(s.at) > 5*sampleEvery {
			return // unknown
		}
		// Between two samples, only orders reduce the stock. The gate keeps one unit of it for each ticket in the journal. The
		// entry is of a buyer who waits, or it was there before.
		if s.stock-(next.orders-s.orders) <= s.waiting+next.arrived-s.arrived+s.journal {
			return // it may be true
		}
		if next.at.After(to) {
			break
		}
	}
	env.Late("I5: an outage was reported as sold out: %s of shop %d, with more units than buyers for %v", resp.Kind, resp.Shop, gateLag)
}

// checkBuyer checks that the buyer has a final state, and that no later response contradicts an earlier one.
func (env *Environment) checkBuyer(b *buyer, responses []response) {
	switch {
	case b.State == "ordered":
	case (b.State == "ended" || b.State == "closed") && !env.closing.IsZero():
	case b.State == "sold_out" && env.sc.crowd.units < env.sc.crowd.buyers:
	default:
		env.Report("I4: %v has no final state (%q) after %v", b, b.State, env.sc.crowd.limit+sandboxtest.Hang)
	}
	order, ordered := "", time.Time{}
	queued := time.Time{}
	for _, resp := range responses { // in the order of their receipt
		if resp.Kind != "buy" && resp.Kind != "result" || resp.Status != 200 && resp.Status != 202 {
			continue
		}
		if order != "" && resp.Sent.After(ordered) && (resp.Data.State != "ordered" || resp.Data.OrderID != order) {
			env.Report("I3: %v was told of order %s, and later %s %s%s", b, order, resp.Data.State, resp.Data.OrderID, resp.Code)
		}
		if resp.Data.State == "ordered" && order == "" {
			order, ordered = resp.Data.OrderID, resp.received()
		}
		if resp.Kind == "result" && resp.Data.NoTicket() && !queued.IsZero() && resp.Sent.After(queued) && !env.sc.losesData {
			env.Report("I4: %v was told of a ticket, and later of none (%s)", b, resp.Data.State)
		}
		if resp.Kind == "buy" && resp.Data.State == "queued" && queued.IsZero() {
			queued = resp.received()
		}
	}
}

// queuedTicket is a ticket that a buyer was told of: when its request was sent, when the reply came, and when the ticket
// was settled at the earliest.
type queuedTicket struct {
	ticket          string
	sent, told, end time.Time
}

// checkTwoTickets checks that a user never has two tickets in the queue (I2). settled has the earliest time at which each
// ticket can have been settled.
func (env *Environment) checkTwoTickets(b *buyer, responses []response, settled map[string]time.Time) {
	var held []queuedTicket
	for _, resp := range responses {
		if resp.Data.State != "queued" || resp.Data.Ticket == "" || slices.ContainsFunc(held, func(h queuedTicket) bool { return h.ticket == resp.Data.Ticket }) {
			continue
		}
		if end, ok := settled[resp.Data.Ticket]; ok {
			held = append(held, queuedTicket{resp.Data.Ticket, resp.Sent, resp.received(), end})
		}
	}
	for i, h := range held {
		for _, k := range held[i+1:] {
			// Either both were granted when the later reply came, and neither was settled. Or the second was granted after
			// the first and before the first was settled.
			if both := later(h.told, k.told); both.Before(h.end) && both.Before(k.end) || h.told.Before(k.sent) && k.told.Before(h.end) {
				env.Report("I2: %v had two tickets at once: %s and %s", b, h.ticket, k.ticket)
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// grantedAt returns the time of the grant, by the clock of Redis, from a ticket epoch:ms-n:nonce. It is the zero time for a
// ticket that was made without a gate.
func grantedAt(ticket string) time.Time {
	parts := strings.Split(ticket, ":")
	if len(parts) != 3 {
		return time.Time{}
	}
	ms, _, _ := strings.Cut(parts[1], "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(n)
}
