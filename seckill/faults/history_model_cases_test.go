package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// A handmade history is written in milliseconds: when an operation began, when it ended, and what it was.
type moment struct {
	from, to int
	event
}

func handmade(moments ...moment) (ops []porcupine.Operation) {
	start := time.Unix(0, 0)
	for _, m := range moments {
		ops = append(ops, operation(m.event, start.Add(time.Duration(m.from)*time.Millisecond), start.Add(time.Duration(m.to)*time.Millisecond)))
	}
	return ops
}

const (
	anOrder      = "01a1fcde-b4cc-7e32-a2ab-8b8f9f201656"
	anotherOrder = "01a1fcde-b4cc-7e32-a2ab-8b8f9f201657"
)

// These histories are of a sale with two units. Changes are at one moment; the others are replies.
func TestHistoryOfUnits(t *testing.T) {
	grant := func(at int) moment { return moment{at, at, event{kind: granted, ticket: 1}} }
	place := func(at int) moment { return moment{at, at, event{kind: placed, ticket: 1, order: anOrder}} }
	direct := func(at int) moment { return moment{at, at, event{kind: placed, order: anOrder}} }
	cancel := func(at int) moment { return moment{at, at, event{kind: freed, order: anOrder, status: "cancelled"}} }
	offered := func(at int) moment { return moment{at, at, event{kind: back}} }
	soldOut := func(from, to int) moment { return moment{from, to, event{kind: toldSoldOut, user: 7}} }
	refused := func(from, to int) moment { return moment{from, to, event{kind: noneLeft, user: 7, ticket: 1}} }
	for _, h := range []struct {
		name    string
		changes []moment
		replies []moment
		wrong   string // the event that fits nowhere; "" for a right history
	}{
		{"sold out when both units have owners",
			[]moment{grant(1), grant(2), place(10), place(11)}, []moment{soldOut(20, 30)}, ""},
		{"sold out while both units are held by undecided tickets",
			[]moment{grant(1), grant(2), place(90), place(91)}, []moment{soldOut(20, 30)}, ""},
		{"sold out as the last unit goes",
			[]moment{grant(1), grant(25)}, []moment{soldOut(20, 30)}, ""},
		{"sold out while one unit is free",
			[]moment{grant(1), place(10)}, []moment{soldOut(20, 30)}, "buyer 7 told sold out"},
		{"one sold-out reply among true ones that was a moment too early",
			[]moment{grant(1), grant(25), place(40), place(41)}, []moment{soldOut(24, 26), soldOut(20, 24), soldOut(20, 40), soldOut(30, 31)}, "buyer 7 told sold out"},
		{"a third owner of two units",
			[]moment{grant(1), grant(2), grant(3), place(10), place(11), place(12)}, nil, "placed ticket 1 order …201656"},
		{"a third owner after a cancellation",
			[]moment{direct(1), direct(2), cancel(10), direct(12)}, []moment{soldOut(20, 30)}, ""},
		{"a third owner a moment before the cancellation",
			[]moment{direct(1), direct(2), direct(9), cancel(10)}, nil, "placed order …201656"},
		{"sold out within a second after a cancellation",
			[]moment{direct(1), direct(2), cancel(10), offered(1015)}, []moment{soldOut(900, 910)}, ""},
		{"sold out more than a second after a cancellation",
			[]moment{direct(1), direct(2), cancel(10), offered(1015)}, []moment{soldOut(1016, 1030)}, "buyer 7 told sold out"},
		{"sold out when the unit that came back was sold again",
			[]moment{direct(1), direct(2), cancel(10), grant(500), offered(1015), place(1100)}, []moment{soldOut(1016, 1030)}, ""},
		{"sold out while an order expires",
			[]moment{direct(1), direct(2), {900, 900, event{kind: freed, order: anOrder, status: "cancelled"}}, offered(3000)}, []moment{soldOut(2990, 2999)}, ""},
		{"sold out long after an order should have expired",
			[]moment{direct(1), direct(2), offered(3000), {9000, 9000, event{kind: freed, order: anOrder, status: "cancelled"}}}, []moment{soldOut(3001, 3010)}, "buyer 7 told sold out"},
		{"a ticket that is refused because nothing is left",
			[]moment{grant(1), direct(2), direct(3)}, []moment{refused(1, 4)}, ""},
		{"a ticket that is refused while a unit is left",
			[]moment{grant(1), direct(2), direct(9)}, []moment{refused(1, 4)}, "buyer 7 refused for want of units ticket 1"},
		{"a refused ticket whose unit never came back to the gate",
			[]moment{grant(1), direct(2), direct(3), cancel(5), offered(1005), offered(1010)}, []moment{refused(3, 4), soldOut(1011, 1020)}, "buyer 7 told sold out"},
		{"a click of which nothing is known may hold a unit until Redis lost it",
			[]moment{direct(1), {2, 2, event{kind: granted}}, offered(100)}, []moment{soldOut(50, 60)}, ""},
		{"and not longer",
			[]moment{direct(1), {2, 2, event{kind: granted}}, offered(100)}, []moment{soldOut(110, 120)}, "buyer 7 told sold out"},
	} {
		t.Run(h.name, func(t *testing.T) {
			expectLie(t, unitsPartitions(2, handmade(h.changes...), handmade(h.replies...)), h.wrong)
		})
	}
}

// These histories are of one buyer.
func TestHistoryOfABuyer(t *testing.T) {
	at := func(from, to int, k kind) moment { return moment{from, to, event{kind: k, user: 7}} }
	with := func(m moment, ticket int, order, status string) moment {
		m.ticket, m.order, m.status = ticket, order, status
		return m
	}
	grant := with(at(1, 5, granted), 1, "", "")
	queued := with(at(0, 5, toldQueued), 1, "", "")
	place := with(at(10, 1000, placed), 1, anOrder, "")
	refuse := with(at(10, 1000, decided), 1, "", "")
	ordered := func(from, to int) moment { return with(at(from, to, toldOrdered), 0, anOrder, "") }
	bought := []moment{grant, queued, place, ordered(20, 30)}
	change := func(from int, status string) moment { return with(at(from, from+100, changed), 0, anOrder, status) }
	status := func(from, to int, status string) moment { return with(at(from, to, toldStatus), 0, anOrder, status) }
	for _, h := range []struct {
		name      string
		moments   []moment
		losesData bool
		wrong     string
	}{
		{"queued, then ordered", bought, false, ""},
		{"queued until the reply ordered is received", append(slices.Clone(bought), at(15, 25, toldQueued)), false, ""},
		{"ordered, then queued", append(slices.Clone(bought), at(31, 40, toldQueued)), false, "buyer 7 told queued"},
		{"ordered, then queued, after Redis lost data", append(slices.Clone(bought), at(31, 40, toldQueued)), true, "buyer 7 told queued"},
		{"ordered, then none", append(slices.Clone(bought), at(31, 40, toldNone)), false, "buyer 7 told none"},
		{"ordered, then sold out", append(slices.Clone(bought), at(31, 40, toldSoldOut)), false, "buyer 7 told sold out"},
		{"another order than before", append(slices.Clone(bought), with(at(31, 40, toldOrdered), 0, anotherOrder, "")), false,
			"buyer 7 told ordered order …201657"},
		{"two orders", append(slices.Clone(bought), with(at(31, 40, placed), 0, anotherOrder, "")), false, "buyer 7 placed order …201657"},
		{"ordered before the order was placed", []moment{grant, queued, place, ordered(6, 9)}, false, "buyer 7 told ordered order …201656"},
		{"none before the click", append(slices.Clone(bought), at(-9, -1, toldNone)), false, ""},
		{"queued, then none", []moment{grant, queued, at(6, 9, toldNone)}, false, "buyer 7 told none"},
		{"queued, then none, as Redis lost the ticket", []moment{grant, queued, at(6, 9, toldNone)}, true, ""},
		{"sold out, then ordered, of one ticket", append(slices.Clone(bought), at(6, 9, toldRefused)), false, "buyer 7 told sold out by result"},
		{"sold out, and in a second try ordered",
			[]moment{grant, queued, refuse, at(11, 20, toldRefused), with(at(30, 35, granted), 2, "", ""), with(at(30, 35, toldQueued), 2, "", ""),
				with(at(40, 1000, placed), 2, anOrder, ""), ordered(50, 60)}, false, ""},
		{"the old result in the second try",
			[]moment{grant, queued, refuse, at(11, 20, toldRefused), with(at(30, 35, granted), 2, "", ""), with(at(30, 35, toldQueued), 2, "", ""),
				at(36, 39, toldRefused), with(at(40, 1000, placed), 2, anOrder, ""), ordered(50, 60)}, false, "buyer 7 told sold out by result"},
		{"a second ticket while the first is undecided", []moment{grant, with(at(6, 8, granted), 2, "", ""), with(at(10, 1000, placed), 1, anOrder, ""),
			with(at(6, 8, toldQueued), 2, "", ""), with(at(9, 9, toldQueued), 1, "", "")}, false, "buyer 7 granted ticket 2"},
		{"an unanswered click that Postgres knows to have bought", []moment{with(at(1, 1000, granted), 1, "", ""), place, at(20, 25, toldQueued), ordered(30, 40)}, false, ""},
		{"cancelled, as the reply says", append(slices.Clone(bought), change(40, "cancelled"), status(39, 60, "cancelled")), false, ""},
		{"told cancelled too early", append(slices.Clone(bought), change(40, "cancelled"), status(31, 39, "cancelled")), false,
			"buyer 7 told status order …201656 cancelled"},
		{"cancelled, then pending", append(slices.Clone(bought), change(40, "cancelled"), status(39, 60, "cancelled"), status(61, 70, "pending")), false,
			"buyer 7 told status order …201656 pending"},
		{"paid and then cancelled", append(slices.Clone(bought), change(40, "paid"), change(200, "cancelled")), false,
			"buyer 7 changed order …201656 cancelled"},
		{"paid and refunded", append(slices.Clone(bought), change(40, "paid"), change(200, "refunded"), status(300, 310, "refunded")), false, ""},
		{"paid after the time to pay", append(slices.Clone(bought), with(at(40, 50, overdue), 0, anOrder, "paid")), false,
			"buyer 7 overdue order …201656 paid"},
		{"not to be cancelled while pending", append(slices.Clone(bought), with(at(40, 50, toldClosed), 0, anOrder, "")), false,
			"buyer 7 told no more order …201656"},
		{"not to be cancelled as it is paid", append(slices.Clone(bought), change(40, "paid"), with(at(40, 50, toldClosed), 0, anOrder, "")), false, ""},
	} {
		t.Run(h.name, func(t *testing.T) {
			expectLie(t, []partition{{"a buyer", buyerModel(h.losesData), handmade(h.moments...)}}, h.wrong)
		})
	}
}

// expectLie checks that a history is right, or that one event of it fits nowhere.
func expectLie(t *testing.T, parts []partition, wrong string) {
	t.Helper()
	lies := check(parts, historyLimit)
	switch {
	case wrong == "" && len(lies) > 0:
		t.Errorf("%s: %v fits nowhere", lies[0].result, lies[0].why)
	case wrong != "" && len(lies) == 0:
		t.Errorf("every event fits, want none for %q", wrong)
	case wrong != "" && (lies[0].result != porcupine.Illegal || lies[0].why.String() != wrong):
		t.Errorf("%s: %q fits nowhere, want %q", lies[0].result, lies[0].why, wrong)
	}
	for _, l := range lies {
		var drawn strings.Builder
		if err := l.draw(&drawn); err != nil || !strings.Contains(drawn.String(), l.why.label()) {
			t.Errorf("the drawing does not show %q: %v", l.why, err)
		}
	}
}

// A check that needs more time than it has does not count as right.
func TestHistoryWithoutTimeIsWrong(t *testing.T) {
	slow := unitsModel(1)
	step := slow.Step
	slow.Step = func(state, input, output any) (bool, any) {
		time.Sleep(20 * time.Millisecond)
		return step(state, input, output)
	}
	lies := check([]partition{{"the units", slow, handmade(moment{1, 2, event{kind: granted}})}}, time.Millisecond)
	if len(lies) != 1 || lies[0].result != porcupine.Unknown {
		t.Errorf("a check without time: %v, want %s", lies, porcupine.Unknown)
	}
}
