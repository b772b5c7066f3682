//go:build faults && linux

package faults

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	backLimit      = time.Second             // a unit that comes back is on sale so soon after the reply
	expiryLimit    = 3 * time.Second         // and a unit whose order is not paid, so soon after the end of the time to pay
	afterFault     = 10 * time.Second        // for so long after a fault, entries of dead processes may hide units that came back
	refusalAge     = 500 * time.Millisecond  // how old a sold-out reply may be: the longest mark of a lane lasts 250 ms
	settleTook     = 1500 * time.Millisecond // a settle transaction takes no longer
	paidWithin     = 50 * time.Millisecond   // between the check of the time to pay and paid_at, two expressions of one statement
	unknownAtMost  = 10                      // clicks of which not even Postgres knows what they did, or one for each hundred buyers
	ticketsOfBuyer = 63                      // that the model counts
)

// history is the sale as operations.
type history struct {
	env     *Environment
	sale    saleState
	faults  []fault
	end     time.Time
	changes []porcupine.Operation // of the units, each at one moment
	replies []porcupine.Operation // about the units
	buyers  map[int64][]porcupine.Operation
	numbers map[string]int       // of the gate's tickets
	counted map[int64]int        // tickets, by user
	firsts  map[string]time.Time // when a ticket was first told
	unknown int
}

// checkHistory checks that one order of all events explains every reply of the sale. An operation is a click or another
// request, from its sending to the reply, or a change of an order at the time that Postgres noted. A refused buy did nothing.
// A buy without a reply did what Postgres has of it in the end. Only if Redis lost data is its outcome unknown.
func (env *Environment) checkHistory(c *Crowd, sale saleState) {
	if sale.tickets == nil {
		return // it could not be read, which is reported
	}
	began := time.Now()
	h := newHistory(env, c, sale)
	if most := max(unknownAtMost, len(c.buyers)/100); h.unknown > most {
		env.TooLittle("history: %d clicks have an unknown outcome, so it proves too little", h.unknown)
	}
	parts := h.partitions()
	n := 0
	for _, p := range parts {
		n += len(p.ops)
	}
	checked := time.Now()
	lies := check(parts, max(historyLimit, time.Duration(len(c.buyers))*4*time.Millisecond))
	env.T.Logf("history: %d changes and %d replies of units, %d buyers: %d operations in %d parts, %d unknown; made in %v, checked in %v",
		len(h.changes), len(h.replies), len(h.buyers), n, len(parts), h.unknown, checked.Sub(began).Round(time.Millisecond),
		time.Since(checked).Round(time.Millisecond))
	slices.SortStableFunc(lies, func(a, b lie) int { return cmp.Compare(len(a.ops), len(b.ops)) }) // the drawing is of the shortest
	for i, l := range lies {
		drawing := ""
		if i == 0 {
			drawing = env.draw(l)
		}
		if l.result == porcupine.Unknown {
			env.TooLittle("history: the check of %s had no end in time", l.name)
			continue
		}
		env.Report("history: %s of %s: %v fits nowhere%s", l.result, l.name, l.why, drawing)
	}
}

// draw draws a history that is wrong, in a file that stays, and returns where. MIAOSHA_HISTORIES is the folder. Without it the
// drawing is in the system's folder for temporary files, except that of a mutant, which is wrong on purpose.
func (env *Environment) draw(l lie) string {
	dir := os.Getenv("MIAOSHA_HISTORIES")
	if _, mutant := env.T.(lenient); mutant && dir == "" {
		return ""
	}
	f, err := os.CreateTemp(dir, "history-"+strings.ReplaceAll(env.sc.name, " ", "-")+"-*.html")
	if err == nil {
		defer f.Close()
		err = l.draw(f)
	}
	if err != nil {
		env.T.Errorf("draw the history: %v", err)
		return ""
	}
	return "; drawn in " + f.Name()
}

func newHistory(env *Environment, c *Crowd, sale saleState) *history {
	h := &history{env: env, sale: sale, end: time.Now(), buyers: map[int64][]porcupine.Operation{}, numbers: map[string]int{},
		counted: map[int64]int{}, firsts: map[string]time.Time{}}
	h.faults, _ = env.injected()
	inSale := map[int64]bool{}
	replies := c.ledger.filter(func(resp response) bool {
		here := strings.HasPrefix(resp.Path, env.salePath()+"/")
		inSale[resp.User] = inSale[resp.User] || here
		return resp.User != 0 && (here || inSale[resp.User]) // users buy in one sale, and only then use their order
	})
	told := map[string]int64{}
	for _, resp := range replies {
		if t := resp.Data.Ticket; t != "" && !grantedAt(t).IsZero() && h.firsts[t].IsZero() {
			h.firsts[t], told[t] = resp.received(), resp.User
		}
	}
	for ticket, user := range told {
		if _, settled := sale.tickets[ticket]; !settled {
			h.grant(ticket, user)
			if env.sc.losesData { // the gate lost it too, or it would have been settled
				h.add(back, h.backBy(h.nextFault(grantedAt(ticket))))
			}
		}
	}
	for ticket, r := range sale.tickets {
		if !grantedAt(ticket).IsZero() {
			h.grant(ticket, r.UserID)
		}
		if r.Outcome != "ordered" {
			h.refuse(ticket, r)
		}
	}
	h.addOrders(replies)
	for _, resp := range replies {
		h.addReply(resp)
	}
	if env.sc.losesData {
		h.addUnknown(replies)
	}
	return h
}

func (h *history) partitions() []partition {
	parts := unitsPartitions(h.env.sc.crowd.units, h.changes, h.replies)
	for _, ops := range h.buyers {
		parts = append(parts, partition{"the purchase of a buyer", buyerModel(h.env.sc.losesData), ops})
	}
	return parts
}

// add adds a change of the units.
func (h *history) add(k kind, at time.Time) { h.addEvent(event{kind: k}, at) }

func (h *history) addEvent(e event, at time.Time) {
	h.changes = append(h.changes, operation(e, at, at))
}

// addTo adds an operation to a buyer's purchase.
func (h *history) addTo(e event, from, to time.Time) {
	h.buyers[e.user] = append(h.buyers[e.user], operation(e, from, to))
}

// grant adds the grant of a ticket. Its number in the journal has the time.
func (h *history) grant(ticket string, user int64) {
	n := h.counted[user] + 1
	if n > ticketsOfBuyer {
		h.env.Report("history: user %d had more than %d tickets", user, ticketsOfBuyer)
		return
	}
	h.counted[user], h.numbers[ticket] = n, n
	at, to := grantedAt(ticket), h.end
	if h.env.sc.setup.ahead { // perhaps by the clock that is ahead
		at = at.Add(-redisAhead)
	}
	if first := h.firsts[ticket]; !first.IsZero() {
		to = first
	}
	e := event{kind: granted, user: user, ticket: n}
	h.addEvent(e, at)
	h.addTo(e, at, to)
}

// refuse adds the result of a ticket that became no order: sold out, or the second one of an owner.
func (h *history) refuse(ticket string, r ticketRow) {
	e := event{kind: decided, user: r.UserID, ticket: h.numbers[ticket]}
	done := r.CreatedAt.Add(settleTook)
	if r.Outcome == "sold_out" {
		h.replies = append(h.replies, operation(event{kind: noneLeft, user: r.UserID, ticket: e.ticket}, r.CreatedAt, done))
	} else {
		e.order = h.sale.ofUser[r.UserID]
	}
	h.addTo(e, r.CreatedAt, h.end)
	if e.ticket != 0 {
		h.add(back, h.backBy(done))
	}
}

// addOrders adds what became of each order. A cancellation's unit is back one second after its reply at the latest, and that
// of an order which was not paid, three seconds after the payment deadline.
func (h *history) addOrders(replies []response) {
	cancelled := map[string]time.Time{} // when the first "cancelled" was received
	for _, resp := range replies {
		if id := h.sale.ofUser[resp.User]; resp.Kind == "cancel" && resp.Status == 200 && cancelled[id].IsZero() {
			cancelled[id] = resp.received()
		}
	}
	for _, e := range h.sale.events {
		o, known := h.sale.orders[e.OrderID]
		if !known {
			continue
		}
		change := event{kind: changed, user: o.UserID, order: o.ID, status: e.ToStatus}
		switch e.ToStatus {
		case "pending":
			change = event{kind: placed, user: o.UserID, order: o.ID, ticket: h.numbers[o.Ticket]}
			h.addEvent(change, e.At)
			h.addTo(change, e.At, h.end)
			continue
		case "paid":
			// The trigger that notes the event may run much later than the check, on a busy machine.
			if o.PaidAt.After(o.ExpiresAt.Add(paidWithin)) {
				change.kind = overdue
				h.addTo(change, e.At, e.At) // before any reply that shows it, so that the report names it
				continue
			}
		default:
			h.addEvent(event{kind: freed, user: o.UserID, order: o.ID, status: e.ToStatus}, e.At)
			by := e.At.Add(backLimit)
			if told := cancelled[o.ID]; !told.IsZero() {
				by = told.Add(backLimit)
			} else if e.ToStatus == "cancelled" && o.ExpiresAt.Before(e.At) {
				by = o.ExpiresAt.Add(expiryLimit)
			}
			h.add(back, h.delayed(by))
		}
		h.addTo(change, e.At, e.At.Add(5*time.Second)) // until its COMMIT, or a reply that shows it
	}
}

// addReply adds what a reply tells, as far as it tells something of the units or of the purchase.
func (h *history) addReply(resp response) {
	e := event{user: resp.User, order: h.sale.ofUser[resp.User]}
	buys := slices.Contains([]string{"buy", "late buy", "path"}, resp.Kind)
	sent := resp.Sent
	switch {
	case buys && resp.Code == "sold_out":
		sent = sent.Add(-refusalAge)
		e.kind, e.order = toldSoldOut, ""
		h.replies = append(h.replies, operation(e, sent, resp.received()))
		if h.disturbed(sent) {
			return // without Redis, a process does not know who has a ticket of the other
		}
	case (buys || resp.Kind == "result") && resp.Data.State == "ordered":
		e.kind, e.order = toldOrdered, resp.Data.OrderID
	case buys && resp.Data.State == "queued":
		e.kind, e.order, e.ticket = toldQueued, "", h.numbers[resp.Data.Ticket]
	case resp.Kind != "result" && resp.Kind != "order" && resp.Kind != "cancel" && resp.Kind != "confirm":
		return
	case resp.Data.State == "queued":
		e.kind, e.order = toldQueued, ""
	case resp.Data.NoTicket():
		if e.kind, e.order = toldNone, ""; resp.Data.State == "sold_out" {
			h.replies = append(h.replies, operation(event{kind: toldSoldOut, user: resp.User}, sent.Add(-refusalAge), resp.received()))
		}
	case resp.Data.State == "sold_out":
		e.kind, e.order = toldRefused, ""
	case resp.Kind == "order" && resp.Status == 200:
		e.kind, e.status = toldStatus, resp.Data.Status
	case resp.Kind == "cancel" && resp.Status == 200:
		e.kind, e.status = toldStatus, "cancelled"
	case resp.Kind == "cancel" && resp.Code == "wrong_status":
		e.kind = toldClosed
	case resp.Kind == "confirm" && resp.Data.Status == "captured":
		e.kind, e.status = toldStatus, "paid"
	default:
		return // busy, or no reply
	}
	h.addTo(e, sent, resp.received())
}

// addUnknown adds the clicks that Redis may have carried out before it lost them. Each may have held a unit until then. A
// process that a failpoint kills takes no data with it.
func (h *history) addUnknown(replies []response) {
	for _, resp := range replies {
		if resp.Kind != "buy" || resp.Status != 0 && resp.Status != 503 {
			continue
		}
		for _, f := range h.faults {
			if !strings.HasPrefix(f.name, "killed at ") && resp.Sent.Before(f.begin) && resp.received().After(f.begin) {
				h.unknown++
				h.add(granted, resp.Sent)
				h.add(back, h.backBy(f.begin))
				break
			}
		}
	}
}

// backBy returns when a unit must be offered again that came back at some time.
func (h *history) backBy(at time.Time) time.Time { return h.delayed(at.Add(backLimit)) }

// delayed returns the end of a limit, which faults put off.
func (h *history) delayed(limit time.Time) time.Time {
	for _, f := range h.faults { // in the order of their begin
		if end := h.endOf(f); f.begin.Before(limit) && end.After(limit.Add(-backLimit)) {
			limit = end
		}
	}
	return limit
}

// disturbed reports whether there was a fault at a time or shortly before it.
func (h *history) disturbed(at time.Time) bool {
	return slices.ContainsFunc(h.faults, func(f fault) bool { return f.begin.Before(at.Add(refusalAge)) && h.endOf(f).After(at) })
}

// nextFault returns the begin of the first fault after a time.
func (h *history) nextFault(at time.Time) time.Time {
	for _, f := range h.faults {
		if f.begin.After(at) {
			return f.begin
		}
	}
	return h.end
}

func (h *history) endOf(f fault) time.Time {
	if f.end.IsZero() {
		return h.end
	}
	return f.end.Add(afterFault)
}
