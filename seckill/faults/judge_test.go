//go:build faults && linux

package faults

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// gateLag is how old the gate's word may be: a unit that comes back is on sale again within a second.
const gateLag = 1500 * time.Millisecond

// judge holds the ledger against what may be said.
func (w *World) judge(c *Crowd, samples []sample) {
	for _, a := range c.ledger.all(func(answer) bool { return true }) {
		switch {
		case a.Status == 500:
			w.Violate("I10: status 500 to %s", a.Kind)
		case a.Status == 401:
			w.Violate("I11: %s: somebody was logged out by a fault", a.Kind)
		case (a.Kind == "list" || a.Kind == "detail") && a.Status != 200 && a.Status != 0:
			w.Violate("I11: %s: status %d %s", a.Kind, a.Status, a.Code)
		case a.Code == "ended" || a.Code == "closed" || a.Data.State == "closed":
			w.Violate("I5: %s: heard %s%s of a sale that is open", a.Kind, a.Code, a.Data.State)
		case a.Data.State == "invalid" && !w.sc.poison:
			w.Violate("I4: %s: a good ticket was called invalid", a.Kind)
		case a.Code == "sold_out" || a.Data.State == "sold_out":
			w.judgeSoldOut(a, c, samples)
		}
	}
	for _, b := range c.buyers {
		w.judgeBuyer(b, c.ledger.all(func(a answer) bool { return a.User == b.id }))
	}
}

// judgeSoldOut: nobody may hear it while there was a unit for each who wanted one.
func (w *World) judgeSoldOut(a answer, c *Crowd, samples []sample) {
	if c.plan.units == c.plan.buyers && (a.User == 0 || a.Kind == "late buy") {
		return // in the end it is so
	}
	if c.plan.units >= c.plan.buyers {
		w.Violate("I5: an outage read as sold out: %s of shop %d says so though there is a unit for everybody", a.Kind, a.Shop)
		return
	}
	if a.Kind == "result" {
		return // the outcome of a ticket of any age
	}
	from, to := a.Sent.Add(-gateLag), a.received()
	for i, s := range samples {
		if i+1 == len(samples) {
			return // not known
		}
		next := samples[i+1]
		if next.at.Before(from) {
			continue
		}
		if i == 0 && s.at.After(from) || next.at.Sub(s.at) > 5*sampleEvery {
			return // not known
		}
		// In between stock falls by orders alone. Of it the gate holds back one unit for each entry of the journal, which is
		// of a buyer who had come and waits, or was there before.
		if s.stock-(next.orders-s.orders) <= s.wanting+next.arrived-s.arrived+s.journal {
			return // it may be so
		}
		if next.at.After(to) {
			break
		}
	}
	w.Violate("I5: an outage read as sold out: %s of shop %d says so with more units than buyers for %v", a.Kind, a.Shop, gateLag)
}

// judgeBuyer: what he was told stays so.
func (w *World) judgeBuyer(b *buyer, lines []answer) {
	switch {
	case b.state == "ordered":
	case b.state == "sold_out" && w.sc.crowd.units < w.sc.crowd.buyers:
	default:
		w.Violate("I4: %v has no final answer (%q) after %v", b, b.state, w.sc.crowd.limit)
	}
	order, ordered := "", time.Time{}
	queued := time.Time{}
	for _, a := range lines { // in the order of their receipt
		if a.Kind != "buy" && a.Kind != "result" || a.Status != 200 && a.Status != 202 {
			continue
		}
		if order != "" && a.Sent.After(ordered) && (a.Data.State != "ordered" || a.Data.OrderID != order) {
			w.Violate("I3: %v was told of order %s and later %s %s%s", b, order, a.Data.State, a.Data.OrderID, a.Code)
		}
		if a.Data.State == "ordered" && order == "" {
			order, ordered = a.Data.OrderID, a.received()
		}
		if a.Kind == "result" && a.Data.State == "none" && !queued.IsZero() && a.Sent.After(queued) && !w.sc.mayLose {
			w.Violate("I4: %v had a ticket and later none", b)
		}
		if a.Kind == "buy" && a.Data.State == "queued" && queued.IsZero() {
			queued = a.received()
		}
	}
}

// holding is a ticket that was told, from when at the latest it was granted, to its decision.
type holding struct {
	ticket          string
	sent, told, end time.Time
}

// judgeTwoTickets (I2): a user never has two tickets in the queue. decided has each ticket's decision, at the earliest.
func (w *World) judgeTwoTickets(b *buyer, lines []answer, decided map[string]time.Time) {
	var held []holding
	for _, a := range lines {
		if a.Data.State != "queued" || a.Data.Ticket == "" || slices.ContainsFunc(held, func(h holding) bool { return h.ticket == a.Data.Ticket }) {
			continue
		}
		if end, ok := decided[a.Data.Ticket]; ok {
			held = append(held, holding{a.Data.Ticket, a.Sent, a.received(), end})
		}
	}
	for i, h := range held {
		for _, k := range held[i+1:] {
			// Both were granted when the later was told, and neither was decided; or the second was granted within the
			// life of the first.
			if both := later(h.told, k.told); both.Before(h.end) && both.Before(k.end) || h.told.Before(k.sent) && k.told.Before(h.end) {
				w.Violate("I2: %v had two tickets at once: %s and %s", b, h.ticket, k.ticket)
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

// granted reads the time of the grant, by the gate's clock, from a ticket epoch:ms-n:nonce; the zero time for one of
// the way without a gate.
func granted(ticket string) time.Time {
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
