//go:build faults && linux

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A sale of one unit. Buyer 7 has bought it, and buyer 8 is told "sold out". Times are in milliseconds.
func TestHistoryOfALedger(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	const noGate = "direct:1"
	ticket := fmt.Sprintf("1:%d-0:nonce", at(0).UnixMilli())
	placed := orderEvent{anOrder, "pending", at(10)}
	cancelled := orderEvent{anOrder, "cancelled", at(1000)}
	reply := func(user int64, kind string, sent, received, status int, code, state string) response {
		return response{User: user, Kind: kind, Path: "/api/sales/1/" + kind, Sent: at(sent), Took: at(received).Sub(at(sent)), Status: status, Code: code,
			Data: sandboxtest.Purchase{State: state}}
	}
	soldOut := func(sent, received int) response { return reply(8, "buy", sent, received, 410, "sold_out", "") }
	soldOutNow := func(sent, received int) response {
		r := reply(8, "result", sent, received, 200, "ok", "sold_out")
		r.Data.NextPoll = 1000
		return r
	}
	cancel := reply(7, "cancel", 990, 1100, 200, "ok", "")
	cancel.Path = "/api/orders/" + anOrder + "/cancel"
	queued := reply(7, "buy", 0, 5, 202, "ok", "queued")
	queued.Data.Ticket = ticket
	toldPaid := reply(7, "order", 960, 970, 200, "ok", "")
	toldPaid.Path, toldPaid.Data.Status = "/api/orders/"+anOrder, "paid"
	unanswered := func(n int) (all []response) {
		for user := range n {
			all = append(all, reply(int64(100+user), "buy", 400, 600, 0, "EOF", ""))
		}
		return all
	}
	for _, l := range []struct {
		name      string
		ticket    string
		lost      bool // the ticket has no result, and Redis lost data at 500
		fault     int  // a fault that ends at once; 0 for none
		expires   int
		paid      int // 0 for never
		events    []orderEvent
		responses []response
		wrong     string
	}{
		{"sold out while the order stands", ticket, false, 0, 60_000, 0, []orderEvent{placed}, []response{queued, soldOut(500, 510)}, ""},
		{"sold out a second after the reply cancelled", ticket, false, 0, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOut(2590, 2600)}, ""},
		{"sold out when a cancelled unit must be back", ticket, false, 0, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOut(2610, 2620)}, "buyer 8 told sold out"},
		{"a result without a ticket, sold out a second after the reply cancelled", ticket, false, 0, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOutNow(2590, 2600)}, ""},
		{"a result without a ticket, sold out when a cancelled unit must be back", ticket, false, 0, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOutNow(2610, 2620)}, "buyer 8 told sold out"},
		{"sold out after a fault that hides the cancelled unit", ticket, false, 1500, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOut(11_900, 11_990)}, ""},
		{"sold out long after a fault", ticket, false, 1500, 60_000, 0, []orderEvent{placed, cancelled},
			[]response{queued, cancel, soldOut(12_010, 12_020)}, "buyer 8 told sold out"},
		{"sold out while an expired unit is on its way", noGate, false, 0, 900, 0, []orderEvent{placed, cancelled}, []response{soldOut(4390, 4400)}, ""},
		{"sold out when an expired unit must be back", noGate, false, 0, 900, 0, []orderEvent{placed, cancelled}, []response{soldOut(4410, 4420)},
			"buyer 8 told sold out"},
		{"sold out before the order", noGate, false, 0, 900, 0, []orderEvent{placed}, []response{soldOut(1, 9)}, "buyer 8 told sold out"},
		{"paid in time", ticket, false, 0, 900, 899, []orderEvent{placed, {anOrder, "paid", at(899)}}, []response{queued}, ""},
		{"paid in time and noted late", ticket, false, 0, 900, 899, []orderEvent{placed, {anOrder, "paid", at(1400)}}, []response{queued}, ""},
		{"paid too late", ticket, false, 0, 900, 951, []orderEvent{placed, {anOrder, "paid", at(951)}}, []response{queued, toldPaid}, "overdue order …201656 paid"},
		{"sold out while a ticket is held that Redis loses", ticket, true, 500, 0, 0, nil, []response{queued, soldOut(100, 110)}, ""},
		{"sold out long after Redis lost the ticket", ticket, true, 500, 0, 0, nil, []response{queued, soldOut(11_010, 11_020)}, "buyer 8 told sold out"},
		{"a click that Redis may have lost", noGate, true, 500, 0, 0, nil, append(unanswered(1), soldOut(410, 420)), ""},
		{"eleven clicks that Redis may have lost", noGate, true, 500, 0, 0, nil, append(unanswered(11), soldOut(410, 420)), "11 clicks"},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Setenv("MIAOSHA_HISTORIES", t.TempDir())
			env := &Environment{T: t, Sale: 1, sc: scenario{crowd: plan{units: 1}, losesData: l.lost}, reported: map[string]int{}}
			if l.fault != 0 {
				env.faults = []fault{{"a fault", at(l.fault), at(l.fault)}}
			}
			sale := saleState{events: l.events, orders: map[string]orderRow{}, ofUser: map[int64]string{}, tickets: map[string]ticketRow{}}
			if !l.lost {
				sale.tickets[l.ticket] = ticketRow{Ticket: l.ticket, UserID: 7, Outcome: "ordered", CreatedAt: at(8)}
				sale.orders[anOrder] = orderRow{ID: anOrder, UserID: 7, Ticket: l.ticket, ExpiresAt: at(l.expires), PaidAt: new(at(l.paid))}
				sale.ofUser[7] = anOrder
			}
			env.checkHistory(&Crowd{ledger: &Ledger{responses: l.responses}}, sale)
			switch found := strings.Join(slices.Concat(env.verdict().truths, env.verdict().little), "; "); {
			case l.wrong == "" && found != "":
				t.Errorf("found %s", found)
			case !strings.Contains(found, l.wrong):
				t.Errorf("found %q, want %q", found, l.wrong)
			}
		})
	}
}
