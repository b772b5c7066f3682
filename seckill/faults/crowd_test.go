//go:build faults && linux

package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/sandbox/sandboxtest"
)

// plan describes a crowd. Shares are in percent.
type plan struct {
	buyers, units        int
	span                 time.Duration // the buyers arrive at random within it
	twice, pays, cancels int           // share of the buyers who click twice, pay, or cancel their order
	fetchesPath          int           // share who ask for an address; the others have one
	payAfter             time.Duration // payers wait about so long before they pay
	phases               int           // the buyers come in so many groups, the later ones when the row says so: see nextPhase; 0 for one
	cached               bool          // every shop has every session in its cache, as after a look at the sale
	again                time.Duration // who is told "sold out" tries again after about it; 0 for a quarter of a second
	limit                time.Duration // every buyer is to be done by then; they give up a minute later
}

// defaultPlan is a crowd that wants more units than there are.
var defaultPlan = plan{buyers: 300, units: 120, span: 4 * time.Second, twice: 30, pays: 40, cancels: 15, fetchesPath: 20,
	payAfter: 300 * time.Millisecond, limit: 40 * time.Second}

// amplePlan is a crowd with a unit for every buyer: no buyer may be told "sold out" while the gate is missing for seconds.
// The shops have the sessions in their caches. Without them, a Redis that is down would keep every buyer from the gate.
var amplePlan = plan{buyers: 300, units: 400, span: 7 * time.Second, twice: 30, pays: 40, cancels: 5,
	payAfter: 300 * time.Millisecond, cached: true, limit: 40 * time.Second}

// longPlan is a crowd that arrives for so long that a fault of 5 s is in the middle, and that pays all the time.
var longPlan = plan{buyers: 400, units: 500, span: 9 * time.Second, twice: 20, pays: 60, cancels: 5, fetchesPath: 0,
	payAfter: 300 * time.Millisecond, cached: true, limit: 40 * time.Second}

// Crowd is the buyers of a scenario, and a visitor who only reads.
type Crowd struct {
	env       *Environment
	plan      plan
	ledger    *Ledger
	buyers    []*buyer
	started   time.Time
	arrived   atomic.Int64
	waiting   atomic.Int64    // buyers who have arrived and have no final state
	ordered   atomic.Int64    // buyers who know that they have an order
	deciding  atomic.Int64    // buyers who may still cancel it
	phases    []chan struct{} // closed when the buyers of a group may come
	phase     int             // the last that may
	came      time.Time       // since when
	soldOut   chan struct{}   // closed when no unit can come back on sale
	stop      chan struct{}   // closed to stop the visitor
	all       sync.WaitGroup
	observers sync.WaitGroup
}

// newCrowd creates the buyers, with sessions.
func newCrowd(env *Environment, p plan) (*Crowd, error) {
	sessions, err := env.newBuyers(p.buyers, env.Sale)
	if err != nil {
		return nil, err
	}
	if p.again == 0 {
		p.again = 250 * time.Millisecond
	}
	c := &Crowd{env: env, plan: p, ledger: newLedger(), soldOut: make(chan struct{}), stop: make(chan struct{})}
	if env.Nginx != nil {
		c.ledger.client.Transport = manyAddresses()
	}
	groups := max(1, p.phases)
	for range groups {
		c.phases = append(c.phases, make(chan struct{}))
	}
	in := func(percent int) bool { return env.rng.IntN(100) < percent }
	for _, session := range sessions {
		arrives, twice := time.Duration(env.rng.Int64N(int64(p.span))), in(p.twice)
		b := newBuyer(c, session, rand.New(rand.NewPCG(env.rng.Uint64(), env.rng.Uint64())))
		each := p.span / time.Duration(groups)
		b.phase, b.arrives, b.twice = min(int(arrives/each), groups-1), arrives%each, twice
		if in(p.fetchesPath) {
			b.Path = ""
		}
		if b.cancels = in(p.cancels); !b.cancels {
			b.pays = in(p.pays * 100 / max(1, 100-p.cancels))
		}
		c.buyers = append(c.buyers, b)
	}
	return c, nil
}

// newBuyers creates users with sessions and with the address of a sale.
func (env *Environment) newBuyers(n int, sale int64) ([]*sandboxtest.Buyer, error) {
	id := strconv.FormatInt(sale, 10)
	var printed string
	var err error
	if !sandboxtest.Poll(func() bool { // a command does not wait long for a store
		printed, err = env.command("users", "-n", strconv.Itoa(n), "--sale", id)
		return err == nil
	}) {
		return nil, err
	}
	buyers, err := sandboxtest.ReadBuyers(printed, id)
	if err == nil && len(buyers) != n {
		err = fmt.Errorf("miaosha users -n %d created %d", n, len(buyers))
	}
	return buyers, err
}

// cacheSessions sends a request of each of these buyers to every shop.
func (c *Crowd) cacheSessions(buyers []*buyer) {
	var all errgroup.Group
	all.SetLimit(16)
	for _, b := range buyers {
		for _, s := range c.env.Shops {
			all.Go(func() error { c.ledger.request(s, b.ID, b.Token, "me", "GET", "/api/me", ""); return nil })
		}
	}
	all.Wait()
}

// start starts the buyers and the visitor.
func (c *Crowd) start() {
	if c.plan.cached {
		c.cacheSessions(c.buyers)
	}
	c.started = time.Now()
	c.came = c.started
	close(c.phases[0])
	for _, b := range c.buyers {
		c.all.Go(func() {
			<-c.phases[b.phase]
			time.Sleep(b.arrives)
			c.arrived.Add(1)
			c.waiting.Add(1)
			b.buy()
			c.deciding.Add(1)
			c.waiting.Add(-1)
			if b.State == "ordered" {
				c.ordered.Add(1)
				b.useOrder()
			}
			c.deciding.Add(-1)
		})
	}
	c.observers.Go(c.browse)
}

// nextPhase lets the next group of buyers come. So there are some for each step of a fault, however long the step
// takes.
func (c *Crowd) nextPhase() {
	c.phase++
	c.came = time.Now()
	close(c.phases[c.phase])
}

// waitAsked waits until there are n replies to each of these kinds of requests: the middle of the sale, with which a
// fault is compared.
func (c *Crowd) waitAsked(n int, kinds ...string) {
	for _, kind := range kinds {
		for len(c.ledger.filter(ofKind(kind))) < n {
			if c.isOver() || !c.running() {
				c.env.TooLittle("the sale was over before %d requests of the kind %s", n, kind)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// browse is the visitor. It reads the list and the sale all the time: that must work in every fault.
func (c *Crowd) browse() {
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		kind, path := "list", "/api/sales"
		if i%2 == 1 {
			kind, path = "detail", c.env.salePath()
		}
		c.ledger.request(c.env.anyShop(i/2), 0, "", kind, "GET", path, "")
	}
}

// deadline returns when the buyers give up.
func (c *Crowd) deadline() time.Time { return c.started.Add(c.plan.limit + sandboxtest.Hang) }

func (c *Crowd) running() bool { return time.Now().Before(c.deadline()) }

// isSoldOut reports whether no unit can come back on sale.
func (c *Crowd) isSoldOut() bool {
	select {
	case <-c.soldOut:
		return true
	default:
		return false
	}
}

// WaitSold waits until n buyers know that they have an order: the middle of the sale. A fault after the sale proves
// nothing.
func (c *Crowd) WaitSold(n int) {
	for c.ordered.Load() < int64(n) {
		if c.isOver() || !c.running() {
			c.env.TooLittle("the sale was over before %d units were sold", n)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// waitReplies waits until there is a reply, received after the call, that enough likes; why says what the row has not
// reached otherwise.
func (c *Crowd) waitReplies(why string, enough func(response) bool) {
	since := time.Now()
	for c.running() {
		if len(c.ledger.filter(func(resp response) bool { return resp.received().After(since) && enough(resp) })) > 0 {
			return
		}
		if c.isOver() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	c.env.TooLittle("%s", why)
}

// isOver reports whether every buyer has a final state.
func (c *Crowd) isOver() bool { return c.arrived.Load()-c.waiting.Load() == int64(len(c.buyers)) }

// Wait lets the sale go on for d: the time that a fault lasts.
func (c *Crowd) Wait(d time.Duration) { time.Sleep(d) }

// requestResults asks for the result of every buyer once more, after the sale.
func (c *Crowd) requestResults() {
	var all sync.WaitGroup
	for i, b := range c.buyers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			b.atRandom().AskResult()
		})
	}
	all.Wait()
}

// orderOwners returns the buyers who were told of an order so far.
func (c *Crowd) orderOwners() (owners []*buyer) {
	told := map[int64]bool{}
	for _, resp := range c.ledger.filter(ofKind("buy", "result")) {
		if resp.Data.State == "ordered" {
			told[resp.User] = true
		}
	}
	for _, b := range c.buyers {
		if told[b.ID] {
			owners = append(owners, b)
		}
	}
	return owners
}

// storm clicks at every shop at once, for every buyer without an order. No buyer may ask for an address meanwhile.
func (c *Crowd) storm() { c.clickAll(false) }

// clickAgain is storm for the buyers who have an order.
func (c *Crowd) clickAgain() { c.clickAll(true) }

func (c *Crowd) clickAll(ordered bool) {
	told := map[*buyer]bool{}
	for _, b := range c.orderOwners() {
		told[b] = true
	}
	var clicks sync.WaitGroup
	for _, b := range c.buyers {
		if told[b] != ordered {
			continue
		}
		for _, s := range c.env.Shops {
			clicks.Go(func() {
				c.ledger.request(s, b.ID, b.Token, "buy", "POST", c.env.salePath()+"/buy/"+b.Path, "")
			})
		}
	}
	clicks.Wait()
}
