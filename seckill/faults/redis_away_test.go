//go:build faults && linux

package faults

import (
	"slices"
	"sync"
	"time"
)

// redisAway are the scenarios in which Redis is gone for a while and keeps what it has.
func redisAway() []scenario {
	return []scenario{
		{name: "Redis killed and started again (appendfsync always)", realRedis: true,
			setup: setup{fsync: "always"}, crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(40)
				w.Strike("Redis killed", func() {
					w.Redis.Kill()
					c.For(700 * time.Millisecond)
					w.restartRedis()
				})
			}},
		{name: "Redis stopped for 5 s", alone: true, realRedis: true, settles: true, crowd: patient,
			run: func(w *World, c *Crowd) {
				c.For(2 * time.Second)
				w.Strike("Redis stopped", func() {
					w.Redis.Stop()
					c.For(5 * time.Second)
					w.Redis.Continue()
				})
			},
			after: unaffected},
		{name: "10 s without Redis and Postgres, then a retry storm", long: true, settles: true,
			crowd: plan{buyers: 300, units: 400, span: 11 * time.Second, pays: 40, payAfter: 300 * time.Millisecond, known: true,
				limit: 45 * time.Second},
			run: func(w *World, c *Crowd) {
				c.For(2 * time.Second)
				w.Strike("both away", func() {
					for _, s := range w.Shops {
						s.ToRedis.Cut()
						s.ToPostgres.Cut()
					}
					c.For(10 * time.Second)
					for _, s := range w.Shops {
						w.join(s.ToRedis)
						w.join(s.ToPostgres)
					}
				})
				c.storm()
			},
			after: func(w *World, c *Crowd) { w.answersWithin(c, 100, 0.99, time.Second) }},
	}
}

// patient comes for so long that a fault of 5 s lies in the middle, and pays all the time.
var patient = plan{buyers: 400, units: 500, span: 9 * time.Second, twice: 20, pays: 60, cancels: 5, asksPath: 0,
	payAfter: 300 * time.Millisecond, known: true, limit: 40 * time.Second}

// restartRedis starts it with its data.
func (w *World) restartRedis() {
	if err := w.Redis.Start(); err != nil {
		w.T.Errorf("start Redis again: %v", err)
	}
}

// unaffected: while Redis is away a buy is answered soon, and paying and browsing go on as ever.
func unaffected(w *World, c *Crowd) {
	within := func(kinds ...string) []time.Duration { return latencies(w.during(c.ledger.all(of(kinds...)))) }
	strikes, _ := w.struck()
	buys := within("buy")
	if len(buys) < 50 {
		w.T.Errorf("only %d buys while Redis was away", len(buys))
	}
	if p := quantile(buys, 0.99); p > 400*time.Millisecond {
		w.Violate("I11: while Redis is away the p99 of a buy is %v", p)
	}
	for _, kinds := range [][]string{{"list", "detail"}, {"pay"}} {
		before := latencies(c.ledger.all(func(a answer) bool { return of(kinds...)(a) && a.received().Before(strikes[0].begin) }))
		now := within(kinds...)
		if len(now) < 20 || len(before) < 5 {
			w.T.Errorf("only %d and %d answers to %v", len(before), len(now), kinds)
		}
		if p, was := quantile(now, 0.99), quantile(before, 0.99); p > 2*was+100*time.Millisecond {
			w.Violate("I11: while Redis is away the p99 of %v is %v, before it was %v", kinds, p, was)
		}
		for _, a := range w.during(c.ledger.all(of(kinds...))) {
			if a.Status >= 500 || a.Status == 0 {
				w.Violate("I11: while Redis is away %s heard %d %s", a.Kind, a.Status, a.Code)
			}
		}
	}
}

// owners are the buyers who were told of an order so far.
func (c *Crowd) owners() (owners []*buyer) {
	told := map[int64]bool{}
	for _, a := range c.ledger.all(of("buy", "result")) {
		if a.Data.State == "ordered" {
			told[a.User] = true
		}
	}
	for _, b := range c.buyers {
		if told[b.id] {
			owners = append(owners, b)
		}
	}
	return owners
}

// storm has everybody who has no order click at once, at every shop. Nobody of the crowd may be asking for addresses.
func (c *Crowd) storm() {
	owners := c.owners()
	var clicks sync.WaitGroup
	for _, b := range c.buyers {
		if slices.Contains(owners, b) {
			continue
		}
		for _, s := range c.w.Shops {
			clicks.Go(func() { c.ledger.ask(s, b.id, b.token, "buy", "POST", c.w.salePath()+"/buy/"+b.path, "") })
		}
	}
	clicks.Wait()
}

func (w *World) join(wire *Wire) {
	if err := wire.Join(); err != nil {
		w.T.Errorf("join a wire: %v", err)
	}
}
