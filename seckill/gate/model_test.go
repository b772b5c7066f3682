package gate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// gateModel is a model of a gate and of the Postgres behind it.
type gateModel struct {
	g *Gate // the real gate

	durable int                     // sales.stock
	orders  map[int64]uuid.UUID     // by user
	results map[string]order.Result // by ticket
	unacked []order.Result          // committed, not yet acknowledged
	acked   []order.Result

	stock, qmax  int
	epoch        int64
	tickets      map[int64]string // the tickets hash, by user
	journal      []order.Ticket
	lastRequests []Request

	observed      State // the gate, as reconcile read it
	observedStock int   // sales.stock, as reconcile read it after the gate; -1 before
	unmoved       bool  // neither epoch nor ops have changed since the gate was observed
}

// reserve checks that each request receives the reply that the model expects.
func (m *gateModel) reserve(r *rapid.T, requests []Request) {
	replies, err := m.g.reserve(r.Context(), 1, requests)
	if err != nil {
		r.Fatal(err)
	}
	m.lastRequests = requests
	for i, request := range requests {
		user, got := request.UserID, replies[i]
		existing := m.tickets[user]
		switch {
		case existing != "" && existing[0] == 'Q' && existing[len(existing)-36:] == request.Nonce:
			if got.Ticket != existing[1:] {
				r.Fatalf("user %d repeats a request: %+v, want %s", user, got, existing)
			}
		case existing != "" && existing[0] != 'X':
			if got.existing() != existing {
				r.Fatalf("user %d: %+v, want %s", user, got, existing)
			}
		case m.stock == 0:
			if !errors.Is(got.Err, goods.ErrSoldOut) {
				r.Fatalf("user %d: %+v, want sold out", user, got)
			}
		case len(m.journal) >= m.qmax:
			if !errors.Is(got.Err, ErrBusy) {
				r.Fatalf("user %d: %+v, want busy", user, got)
			}
		default:
			if got.Ticket == "" {
				r.Fatalf("user %d: %+v, want a ticket", user, got)
			}
			m.stock--
			m.tickets[user] = "Q" + got.Ticket
			m.journal = append(m.journal, order.Ticket{ID: got.Ticket, UserID: user})
		}
	}
}

// commit settles tickets of the journal. Some of them may have their result already.
func (m *gateModel) commit(tickets []order.Ticket) {
	for _, t := range tickets {
		if stored, done := m.results[t.ID]; done {
			m.unacked = append(m.unacked, stored)
			continue
		}
		res := order.Result{Ticket: t.ID, UserID: t.UserID, Outcome: order.SoldOut}
		if id, ordered := m.orders[t.UserID]; ordered {
			res.Outcome, res.OrderID = order.Duplicate, id
		} else if m.durable > 0 {
			m.durable--
			res.Outcome, res.OrderID = order.Ordered, uuid.New()
			m.orders[t.UserID] = res.OrderID
		}
		m.results[t.ID] = res
		m.unacked = append(m.unacked, res)
	}
}

func (m *gateModel) ack(r *rapid.T, results []order.Result) {
	if len(results) == 0 {
		return
	}
	if err := m.g.Ack(r.Context(), 1, results); err != nil {
		r.Fatal(err)
	}
	m.unmoved = false
	gone := map[string]bool{}
	for _, res := range results {
		gone[res.Ticket] = true
		if res.OrderID != uuid.Nil || m.tickets[res.UserID] == "Q"+res.Ticket {
			m.tickets[res.UserID] = encode(res)
		}
	}
	var rest []order.Ticket
	for _, t := range m.journal {
		if !gone[t.ID] {
			rest = append(rest, t)
		}
	}
	m.journal = rest
}

func (m *gateModel) install(r *rapid.T, epoch int64) {
	l := open(m.durable)
	got, err := m.g.Install(r.Context(), l, epoch, m.qmax, false)
	if err != nil || got != (epoch > m.epoch) {
		r.Fatalf("install epoch %d over %d: %v, %v", epoch, m.epoch, got, err)
	}
	if got {
		m.epoch, m.stock, m.unmoved = epoch, max(0, m.durable-len(m.journal)), false
	}
}

// check compares the gate with the model, and checks what must hold at every moment.
func (m *gateModel) check(r *rapid.T) {
	gates, err := States(r.Context(), m.g.rdb, []int64{1})
	if err != nil {
		r.Fatal(err)
	}
	got := gates[1]
	if got.Stock != m.stock || got.InFlight != len(m.journal) {
		r.Fatalf("the gate has %d units and %d tickets in flight, want %d and %d", got.Stock, got.InFlight, m.stock, len(m.journal))
	}
	undecided := 0
	for _, t := range m.journal {
		if _, done := m.results[t.ID]; !done {
			undecided++
		}
	}
	if m.stock < 0 || m.durable < 0 {
		r.Fatalf("%d units at the gate and %d in Postgres", m.stock, m.durable)
	}
	if m.stock+undecided > m.durable {
		r.Fatalf("%d units at the gate and %d tickets undecided, of %d units", m.stock, undecided, m.durable)
	}
	for _, res := range m.results {
		if res.Outcome == order.SoldOut {
			r.Fatalf("ticket %s was granted without a unit for it", res.Ticket)
		}
	}
}

// In any order of events, the gate behaves as its model: it never grants more tickets than there are units, and the journal
// holds exactly the tickets that are not acknowledged.
func TestGateFollowsItsModel(t *testing.T) {
	t.Parallel()
	rdb := sandboxtest.Redis(t)
	rapid.Check(t, func(r *rapid.T) {
		if err := rdb.FlushDB(t.Context()).Err(); err != nil {
			r.Fatal(err)
		}
		m := &gateModel{
			g: New(rdb, "here", time.Second), durable: rapid.IntRange(0, 6).Draw(r, "stock"), qmax: rapid.IntRange(1, 5).Draw(r, "qmax"),
			orders: map[int64]uuid.UUID{}, results: map[string]order.Result{}, tickets: map[int64]string{},
		}
		if _, err := m.g.CreateTickets(t.Context(), 1); err != nil {
			r.Fatal(err)
		}
		m.install(r, 1)
		users := rapid.Int64Range(1, 8)
		m.lastRequests = []Request{{1, uuid.NewString()}}
		r.Repeat(map[string]func(*rapid.T){
			"reserve": func(r *rapid.T) {
				requests := []Request{}
				for _, u := range rapid.SliceOfN(users, 1, 4).Draw(r, "users") {
					requests = append(requests, Request{u, uuid.NewString()})
				}
				m.reserve(r, requests)
			},
			"reserve again": func(r *rapid.T) { m.reserve(r, m.lastRequests) },
			"commit": func(r *rapid.T) {
				n := rapid.IntRange(0, len(m.journal)).Draw(r, "n")
				for n > 0 && n < len(m.journal) { // a process settles whole entries
					if entry, _ := EntryID(m.journal[n].ID); !strings.Contains(m.journal[n-1].ID, ":"+entry+":") {
						break
					}
					n++
				}
				m.commit(m.journal[:n])
			},
			"ack":       func(r *rapid.T) { m.ack(r, m.unacked); m.acked, m.unacked = append(m.acked, m.unacked...), nil },
			"ack again": func(r *rapid.T) { m.ack(r, m.acked) },
			"cancel": func(r *rapid.T) { // the unit comes back; the buyer keeps the order and cannot buy again
				if len(m.orders) > 0 && m.durable < 6 {
					m.durable++
				}
			},
			"observe the gate": func(r *rapid.T) {
				gates, err := States(r.Context(), rdb, []int64{1})
				if err != nil {
					r.Fatal(err)
				}
				m.observed, m.observedStock, m.unmoved = gates[1], -1, true
			},
			"observe the stock": func(r *rapid.T) {
				if m.observedStock < 0 {
					m.observedStock = m.durable
				}
			},
			"fix": func(r *rapid.T) {
				if m.observed.Epoch == 0 || m.observedStock < 0 {
					r.Skip()
				}
				drift, fixed, err := m.g.Fix(r.Context(), 1, m.observed, m.observedStock)
				if err != nil || fixed != m.unmoved {
					r.Fatalf("fixed %v, %v, want %v", fixed, err, m.unmoved)
				}
				want := 0
				if m.unmoved {
					stock := min(max(m.stock, m.observedStock-len(m.journal)), m.observedStock)
					want, m.stock = stock-m.stock, stock
				}
				if drift != want {
					r.Fatalf("drift %d, want %d", drift, want)
				}
			},
			"lose the journal": func(r *rapid.T) {
				if err := rdb.Del(r.Context(), JournalKey(1)).Err(); err != nil {
					r.Fatal(err)
				}
				// Redis does not restart fast enough to make an entry with the id of a lost one.
				for lost := rdb.Time(r.Context()).Val(); rdb.Time(r.Context()).Val().Sub(lost) < time.Millisecond; {
				}
				// A fix of what was observed before may offer too much, until the next one.
				m.journal, m.observed, m.observedStock = nil, State{}, -1
			},
			"install": func(r *rapid.T) { m.install(r, m.epoch+rapid.Int64Range(-1, 2).Draw(r, "newer")) },
			"":        m.check,
		})
	})
}
