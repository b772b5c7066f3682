//go:build faults && linux

package faults

import (
	"encoding/csv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// plan says who comes. Shares are in a hundred.
type plan struct {
	buyers, units        int
	span                 time.Duration // they arrive at random within it
	twice, pays, cancels int           // who double-clicks, who pays, and who cancels his order
	asksPath             int           // who asks for an address; the others have one
	payAfter             time.Duration // payers think it over for about so long
	known                bool          // each shop has seen each of them before, as when he has looked at the sale
	limit                time.Duration // who has no answer by then has none
}

// usual is a crowd that wants more than there is.
var usual = plan{buyers: 300, units: 120, span: 4 * time.Second, twice: 30, pays: 40, cancels: 15, asksPath: 20,
	payAfter: 300 * time.Millisecond, limit: 40 * time.Second}

// Crowd is all buyers and a passer-by, who only looks.
type Crowd struct {
	w       *World
	plan    plan
	ledger  *Ledger
	buyers  []*buyer
	began   time.Time
	arrived atomic.Int64
	wanting atomic.Int64  // have come and have no final answer
	ordered atomic.Int64  // know that they have an order
	giving  atomic.Int64  // of those, may yet cancel it
	sellout chan struct{} // closed when nothing can come back on sale
	stop    chan struct{} // closed when the passer-by is to go
	all     sync.WaitGroup
	looks   sync.WaitGroup
}

// newCrowd makes the buyers, with live sessions.
func newCrowd(w *World, p plan) (*Crowd, error) {
	out, err := w.command("users", "-n", strconv.Itoa(p.buyers), "--sale", strconv.FormatInt(w.Sale, 10))
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		return nil, err
	}
	c := &Crowd{w: w, plan: p, ledger: newLedger(), sellout: make(chan struct{}), stop: make(chan struct{})}
	in := func(percent int) bool { return w.rng.IntN(100) < percent }
	for _, r := range rows[1:] {
		id, _ := strconv.ParseInt(r[0], 10, 64)
		b := &buyer{c: c, id: id, token: r[2], path: r[3], arrives: time.Duration(w.rng.Int64N(int64(p.span))),
			twice: in(p.twice), rng: rand.New(rand.NewPCG(w.rng.Uint64(), w.rng.Uint64()))}
		if in(p.asksPath) {
			b.path = ""
		}
		if b.cancels = in(p.cancels); !b.cancels {
			b.pays = in(p.pays * 100 / max(1, 100-p.cancels))
		}
		c.buyers = append(c.buyers, b)
	}
	return c, nil
}

// greet has every shop see every buyer.
func (c *Crowd) greet() {
	var all errgroup.Group
	all.SetLimit(16)
	for _, b := range c.buyers {
		for _, s := range c.w.Shops {
			all.Go(func() error { c.ledger.ask(s, b.id, b.token, "me", "GET", "/api/me", ""); return nil })
		}
	}
	all.Wait()
}

// start lets them come: the first ones a second before the sale begins, if it has not begun.
func (c *Crowd) start() {
	if c.plan.known {
		c.greet()
	}
	time.Sleep(time.Until(c.w.begins.Add(-time.Second)))
	c.began = time.Now()
	for _, b := range c.buyers {
		c.all.Go(func() {
			time.Sleep(b.arrives)
			c.arrived.Add(1)
			c.wanting.Add(1)
			b.shop()
			c.giving.Add(1)
			c.wanting.Add(-1)
			if b.state == "ordered" {
				c.ordered.Add(1)
				b.after()
			}
			c.giving.Add(-1)
		})
	}
	c.looks.Go(c.look)
}

// look is the passer-by: he browses all the time, which works whatever is broken.
func (c *Crowd) look() {
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		kind, path := "list", "/api/sales"
		if i%2 == 1 {
			kind, path = "detail", c.w.salePath()
		}
		c.ledger.ask(c.w.anyShop(i/2), 0, "", kind, "GET", path, "")
	}
}

func (c *Crowd) goesOn() bool { return time.Since(c.began) < c.plan.limit }

// over tells that nothing can come back on sale.
func (c *Crowd) over() bool {
	select {
	case <-c.sellout:
		return true
	default:
		return false
	}
}

// Sold waits until so many buyers know that they have an order: the middle of the sale. If it never comes to that the
// test fails, for what is broken after a sale proves nothing.
func (c *Crowd) Sold(n int) {
	for c.ordered.Load() < int64(n) {
		if c.arrived.Load()-c.wanting.Load() == int64(len(c.buyers)) || !c.goesOn() {
			c.w.T.Errorf("the sale was over before %d were sold", n)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// For lets the sale go on as it is: how long a fault lasts.
func (c *Crowd) For(d time.Duration) { time.Sleep(d) }

// askAgain has everybody ask for his result once more, at rest.
func (c *Crowd) askAgain() {
	var all sync.WaitGroup
	for i, b := range c.buyers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			b.ask("result", "GET", c.w.salePath()+"/result", "")
		})
	}
	all.Wait()
}
