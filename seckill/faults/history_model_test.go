package faults

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// A history is what happened in one sale, as operations with a beginning and an end. porcupine looks for one point in time in
// each operation so that all operations, carried out at these points, agree with a model. If there are none, a reply was a lie.
//
// Postgres notes the time of each change of an order while it holds the lock of the sale's row, so the changes have one known
// order, and only the replies have to be placed. So two small models are enough. A unitsModel counts the units; each sold-out
// reply must fit into its changes. A buyerModel is the purchase of one buyer; each other reply must fit into that.

// event is the input of an operation: a change, or a reply.
type event struct {
	kind   kind
	user   int64
	ticket int    // the number of the ticket among those that the gate granted to the user, from 1; 0 for a ticket without a gate
	order  string // an order's id
	status string // of the order
}

type kind string

const (
	granted kind = "granted" // the gate granted a ticket, and holds a unit for it
	placed  kind = "placed"  // Postgres placed an order
	freed   kind = "freed"   // an order was cancelled, expired or was refunded, and its unit is on its way back to the gate
	back    kind = "back"    // at the latest now the gate must offer a unit again
	decided kind = "decided" // a ticket has its result: the user's order, or none
	changed kind = "changed" // the order has another status
	overdue kind = "overdue" // the order was paid after its payment deadline

	toldQueued  kind = "told queued"
	toldOrdered kind = "told ordered"
	toldRefused kind = "told sold out by result" // the final result of a ticket
	toldNone    kind = "told none"
	toldStatus  kind = "told status"  // of the order
	toldClosed  kind = "told no more" // the order can't be cancelled any more
	toldSoldOut kind = "told sold out"
	noneLeft    kind = "refused for want of units" // the result of a ticket in Postgres
)

func (e event) String() string {
	if e.user != 0 {
		return fmt.Sprintf("buyer %d %s", e.user, e.label())
	}
	return e.label()
}

// label is String without the buyer.
func (e event) label() string {
	text := string(e.kind)
	if e.ticket != 0 {
		text += fmt.Sprintf(" ticket %d", e.ticket)
	}
	if e.order != "" {
		text += " order …" + e.order[max(0, len(e.order)-6):]
	}
	if e.status != "" {
		text += " " + e.status
	}
	return text
}

// operation returns an operation whose point in time is between two moments.
func operation(e event, from, to time.Time) porcupine.Operation {
	return porcupine.Operation{Input: e, Call: from.UnixNano(), Return: max(from.UnixNano(), to.UnixNano())}
}

// units is a sale's stock. left is the number in Postgres. held units are left there, but the gate does not offer them: there
// is an undecided ticket for each, or they are on their way back.
type units struct{ left, held int }

// unitsModel is the model of a sale's units. A buyer may be told "sold out" if each unit is owned or held. An order needs a
// unit that is left: otherwise it has two owners.
func unitsModel(total int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return units{left: total} },
		Step: func(state, input, _ any) (bool, any) {
			u, e := state.(units), input.(event)
			switch e.kind {
			case granted:
				u.held++
			case placed:
				if u.left--; e.ticket != 0 {
					u.held--
				}
				return u.left >= 0, u
			case freed:
				u.left, u.held = u.left+1, u.held+1
			case back:
				u.held--
			case noneLeft:
				return u.left == 0, u
			case toldSoldOut:
				return u.left <= u.held, u
			default:
				return false, u
			}
			return true, u
		},
		DescribeOperation: func(input, _ any) string { return input.(event).String() },
		DescribeState: func(state any) string {
			u := state.(units)
			return fmt.Sprintf("%d left, %d of them held", u.left, u.held)
		},
	}
}

// purchase is what one buyer has. The sets of tickets have a bit for each number.
type purchase struct {
	granted, told, decided uint64
	refused                bool // a ticket was sold out
	order, status          string
}

// undecided returns the tickets of a set that have no result.
func (p purchase) undecided(tickets uint64) uint64 { return tickets &^ p.decided }

// buyerModel is the model of one buyer's purchase. No reply contradicts an earlier one: the gate grants no second ticket while
// one is undecided, "queued" turns into one result, and an order stays. If Redis lost data, tickets may be lost, so a buyer
// may be told "queued" or "none" where nothing is decided.
func buyerModel(losesData bool) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return purchase{} },
		Step: func(state, input, _ any) (bool, any) {
			p, e := state.(purchase), input.(event)
			var bit uint64
			if e.ticket != 0 {
				bit = 1 << e.ticket
			}
			switch e.kind {
			case granted:
				fits := losesData || p.undecided(p.granted) == 0
				p.granted |= bit
				return fits, p
			case decided:
				p.decided |= bit
				p.refused = p.refused || e.order == ""
			case placed:
				fits := p.order == ""
				p.decided, p.order, p.status = p.decided|bit, e.order, "pending"
				return fits, p
			case changed:
				fits := p.order != "" && (p.status == "pending" && e.status != "refunded" || p.status == "paid" && e.status == "refunded")
				p.status = e.status
				return fits, p
			case toldQueued:
				open := p.undecided(p.granted)
				if losesData && p.order == "" {
					open = p.granted
				}
				if bit != 0 {
					open &= bit
				}
				p.told |= open
				return open != 0, p
			case toldOrdered:
				return p.order != "" && p.order == e.order, p
			case toldRefused:
				return p.refused && p.order == "" && (losesData || p.undecided(p.told) == 0), p
			case toldNone:
				return p.order == "" && (losesData || !p.refused && p.undecided(p.granted) == 0), p
			case toldSoldOut:
				return p.order == "" && p.undecided(p.granted) == 0, p
			case toldStatus:
				return p.order == e.order && p.status == e.status, p
			case toldClosed:
				return p.order == e.order && p.status != "pending", p
			default: // also overdue, which must not be
				return false, p
			}
			return true, p
		},
		DescribeOperation: func(input, _ any) string { return input.(event).label() },
		DescribeState: func(state any) string {
			p := state.(purchase)
			switch {
			case p.order != "":
				return "order " + p.status
			case p.undecided(p.granted) != 0:
				return "ticket undecided"
			case p.refused:
				return "ticket refused"
			}
			return "nothing"
		},
	}
}

// partition is a part of a history that is checked alone.
type partition struct {
	name  string
	model porcupine.Model
	ops   []porcupine.Operation
}

// repliesAtOnce is how many replies of a partition may overlap. Each one doubles the orders that porcupine tries at worst.
const repliesAtOnce = 6

// unitsPartitions returns the changes of a sale's units once for each group of replies. Replies change nothing, so a history is
// right if each reply fits into the changes, whatever the other replies are. No reply is left out.
func unitsPartitions(total int, changes, replies []porcupine.Operation) []partition {
	// No two changes may be at the same time, or porcupine would try them in every order.
	changes = slices.Clone(changes)
	slices.SortStableFunc(changes, byCall)
	for i := range changes {
		if i > 0 {
			changes[i].Call = max(changes[i].Call, changes[i-1].Call+1)
		}
		changes[i].Return = changes[i].Call
	}
	replies = slices.Clone(replies)
	slices.SortFunc(replies, byCall)
	var groups [][]porcupine.Operation
	for _, r := range replies {
		i := slices.IndexFunc(groups, func(g []porcupine.Operation) bool {
			n := 0
			for _, o := range g {
				if o.Return >= r.Call {
					n++
				}
			}
			return n < repliesAtOnce
		})
		if i < 0 {
			groups, i = append(groups, nil), len(groups)
		}
		groups[i] = append(groups[i], r)
	}
	if len(groups) == 0 {
		groups = append(groups, nil)
	}
	var parts []partition
	for _, g := range groups {
		parts = append(parts, partition{"the units", unitsModel(total), slices.Concat(changes, g)})
	}
	return parts
}

func byCall(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) }

// historyLimit is the time for all checks of a history. They take milliseconds.
const historyLimit = 10 * time.Second

// lie is a partition that has no right order.
type lie struct {
	partition
	result porcupine.CheckResult // Illegal, or Unknown without time
	why    event                 // the first event that fits nowhere
}

// check returns the partitions that have no right order. After limit the others count as wrong too.
func check(parts []partition, limit time.Duration) (lies []lie) {
	deadline := time.Now().Add(limit)
	for _, p := range parts {
		assignRows(p.ops)
		result, info := porcupine.CheckOperationsVerbose(p.model, p.ops, max(time.Millisecond, time.Until(deadline)))
		if result != porcupine.Ok {
			lies = append(lies, lie{p, result, firstMisfit(p.ops, info)})
		}
	}
	return lies
}

// firstMisfit returns, of the operations that are not in the longest right order, the one that ends first.
func firstMisfit(ops []porcupine.Operation, info porcupine.LinearizationInfo) event {
	longest := map[int]bool{}
	for _, ids := range info.PartialLinearizations()[0] {
		if len(ids) > len(longest) {
			clear(longest)
			for _, id := range ids {
				longest[id] = true
			}
		}
	}
	first := -1
	for i, o := range ops { // an operation's id is its index
		if !longest[i] && (first < 0 || o.Return < ops[first].Return) {
			first = i
		}
	}
	if first < 0 {
		return event{}
	}
	return ops[first].Input.(event)
}

// draw writes an HTML page with the operations, and with the longest right orders of them. Of equal replies in a row it shows
// the first and the last, and it counts the time from the first operation.
func (l lie) draw(w io.Writer) error {
	var ops []porcupine.Operation
	for i, o := range l.ops { // in the order of their calls
		o.Call, o.Return = o.Call-l.ops[0].Call, o.Return-l.ops[0].Call
		if i == 0 || i+1 == len(l.ops) || l.ops[i-1].Input != o.Input || l.ops[i+1].Input != o.Input {
			ops = append(ops, o)
		}
	}
	assignRows(ops)
	_, info := porcupine.CheckOperationsVerbose(l.model, ops, historyLimit)
	return porcupine.Visualize(l.model, info, w)
}

// assignRows sorts the operations and puts the operations into rows of the drawing, so that none covers another.
func assignRows(ops []porcupine.Operation) {
	slices.SortStableFunc(ops, byCall)
	var ends []int64
	for i := range ops {
		row := slices.IndexFunc(ends, func(end int64) bool { return end < ops[i].Call })
		if row < 0 {
			ends, row = append(ends, 0), len(ends)
		}
		ends[row], ops[i].ClientId = ops[i].Return, row
	}
}
