package seckill

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// gateModel is a gate and the Postgres behind it, as a few lines of Go.
type gateModel struct {
	g gate

	durable int                 // sales.stock
	orders  map[int64]uuid.UUID // by user
	results map[string]order.Result
	untold  []order.Result // committed, and the gate has not heard
	told    []order.Result

	stock, qmax int
	epoch       int64
	has         map[int64]string // tickets
	journal     []order.Ticket
	last        []asked
	seen        Reading // the reconciler's look at the gate,
	sawStock    int     // and then at the durable stock
	same        bool    // neither epoch nor ops have changed since
}

func (m *gateModel) reserve(r *rapid.T, crowd []asked) {
	answers, err := m.g.reserve(r.Context(), 1, crowd)
	if err != nil {
		r.Fatal(err)
	}
	m.last = crowd
	for i, a := range crowd {
		has, got := m.has[a.user], answers[i]
		switch {
		case has != "" && has[0] == 'Q' && has[len(has)-36:] == a.nonce:
			if got.ticket != has[1:] {
				r.Fatalf("asked again, user %d gets %+v, had %s", a.user, got, has)
			}
		case has != "" && has[0] != 'X':
			if got.has != has {
				r.Fatalf("user %d gets %+v, has %s", a.user, got, has)
			}
		case m.stock == 0:
			if !errors.Is(got.err, goods.ErrSoldOut) {
				r.Fatalf("user %d gets %+v, want sold out", a.user, got)
			}
		case len(m.journal) >= m.qmax:
			if !errors.Is(got.err, ErrBusy) {
				r.Fatalf("user %d gets %+v, want busy", a.user, got)
			}
		default:
			if got.ticket == "" {
				r.Fatalf("user %d gets %+v, want a ticket", a.user, got)
			}
			m.stock--
			m.has[a.user] = "Q" + got.ticket
			m.journal = append(m.journal, order.Ticket{ID: got.ticket, UserID: a.user})
		}
	}
}

// commit is the settle transaction: some of the journal's tickets, among them ones that have their result already.
func (m *gateModel) commit(tickets []order.Ticket) {
	for _, t := range tickets {
		if _, done := m.results[t.ID]; done {
			m.untold = append(m.untold, m.results[t.ID])
			continue
		}
		res := order.Result{Ticket: t.ID, UserID: t.UserID, Outcome: order.SoldOut}
		if id, has := m.orders[t.UserID]; has {
			res.Outcome, res.OrderID = order.Duplicate, id
		} else if m.durable > 0 {
			m.durable--
			res.Outcome, res.OrderID = order.Ordered, uuid.New()
			m.orders[t.UserID] = res.OrderID
		}
		m.results[t.ID] = res
		m.untold = append(m.untold, res)
	}
}

func (m *gateModel) tell(r *rapid.T, rs []order.Result) {
	if len(rs) == 0 {
		return
	}
	if err := m.g.settle(r.Context(), 1, rs); err != nil {
		r.Fatal(err)
	}
	m.same = false
	gone := map[string]bool{}
	for _, res := range rs {
		gone[res.Ticket] = true
		if res.OrderID != uuid.Nil || m.has[res.UserID] == "Q"+res.Ticket {
			m.has[res.UserID] = remembered(res)
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
	got, err := m.g.install(r.Context(), l, epoch, m.qmax)
	if err != nil || got != (epoch > m.epoch) {
		r.Fatalf("install epoch %d over %d: %v, %v", epoch, m.epoch, got, err)
	}
	if got {
		m.epoch, m.stock, m.same = epoch, max(0, m.durable-len(m.journal)), false
	}
}

// check holds the gate against the model, and both against what must hold at every instant.
func (m *gateModel) check(r *rapid.T) {
	gates, err := ReadGates(r.Context(), m.g.rdb, []int64{1})
	if err != nil {
		r.Fatal(err)
	}
	got := gates[1]
	if got.Stock != m.stock || got.Waiting != len(m.journal) {
		r.Fatalf("the gate has %d units and %d waiting, want %d and %d", got.Stock, got.Waiting, m.stock, len(m.journal))
	}
	undecided := 0
	for _, t := range m.journal {
		if _, done := m.results[t.ID]; !done {
			undecided++
		}
	}
	if m.stock < 0 || m.durable < 0 || m.stock+undecided > m.durable {
		r.Fatalf("%d units at the gate and %d promised, of %d", m.stock, undecided, m.durable)
	}
	for _, res := range m.results {
		if res.Outcome == order.SoldOut {
			r.Fatalf("ticket %s was granted for a unit that is not there", res.Ticket)
		}
	}
}

// Whatever happens in whatever order, no more is promised than there is, and nothing is in the journal but what waits.
func TestGateFollowsItsModel(t *testing.T) {
	t.Parallel()
	rdb := sandboxtest.Redis(t)
	rapid.Check(t, func(r *rapid.T) {
		if err := rdb.FlushDB(t.Context()).Err(); err != nil {
			r.Fatal(err)
		}
		m := &gateModel{
			g: gate{rdb: rdb, consumer: "here"}, durable: rapid.IntRange(0, 6).Draw(r, "stock"), qmax: rapid.IntRange(1, 5).Draw(r, "qmax"),
			orders: map[int64]uuid.UUID{}, results: map[string]order.Result{}, has: map[int64]string{},
		}
		if _, err := m.g.found(t.Context(), 1); err != nil {
			r.Fatal(err)
		}
		m.install(r, 1)
		users := rapid.Int64Range(1, 8)
		m.last = []asked{{1, uuid.NewString()}}
		r.Repeat(map[string]func(*rapid.T){
			"reserve": func(r *rapid.T) {
				crowd := []asked{}
				for _, u := range rapid.SliceOfN(users, 1, 4).Draw(r, "users") {
					crowd = append(crowd, asked{u, uuid.NewString()})
				}
				m.reserve(r, crowd)
			},
			"reserve again": func(r *rapid.T) { m.reserve(r, m.last) },
			"commit": func(r *rapid.T) {
				n := rapid.IntRange(0, len(m.journal)).Draw(r, "n")
				m.commit(m.journal[:n])
			},
			"tell":       func(r *rapid.T) { m.tell(r, m.untold); m.told, m.untold = append(m.told, m.untold...), nil },
			"tell again": func(r *rapid.T) { m.tell(r, m.told) },
			"cancel": func(r *rapid.T) { // he stays barred, his unit comes back
				if len(m.orders) > 0 && m.durable < 6 {
					m.durable++
				}
			},
			"look": func(r *rapid.T) {
				gates, err := ReadGates(r.Context(), rdb, []int64{1})
				if err != nil {
					r.Fatal(err)
				}
				m.seen, m.sawStock, m.same = gates[1], -1, true
			},
			"look at the stock": func(r *rapid.T) {
				if m.sawStock < 0 {
					m.sawStock = m.durable
				}
			},
			"fix": func(r *rapid.T) {
				if m.seen.Epoch == "" || m.sawStock < 0 {
					r.Skip()
				}
				drift, still, err := m.g.fix(r.Context(), 1, m.seen, m.sawStock)
				if err != nil || still != m.same {
					r.Fatal(err)
				}
				want := 0
				if m.same {
					stock := min(max(m.stock, m.sawStock-len(m.journal)), m.sawStock)
					want, m.stock = stock-m.stock, stock
				}
				if drift != want {
					r.Fatalf("drift %d, want %d", drift, want)
				}
			},
			"install": func(r *rapid.T) { m.install(r, m.epoch+rapid.Int64Range(-1, 2).Draw(r, "newer")) },
			"":        m.check,
		})
	})
}
