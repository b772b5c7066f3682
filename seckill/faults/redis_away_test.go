//go:build faults && linux

package faults

import "time"

// redisFaults break Redis, or lose what it holds.
func redisFaults() []scenario {
	return []scenario{
		{name: "FLUSHALL five times in a sale", mayLose: true, setup: setup{sessionsApart: true}, crowd: usual,
			run: func(w *World, c *Crowd) {
				for n := range 5 {
					c.Sold(15 * (n + 1))
					w.Strike("FLUSHALL", w.flush)
				}
			}},
		{name: "Redis killed and started again (appendfsync always)", realRedis: true, hurtsRedis: true,
			setup: setup{fsync: "always"}, crowd: usual,
			run: func(w *World, c *Crowd) {
				c.Sold(40)
				w.Strike("Redis killed", func() {
					w.Redis.Kill()
					c.For(700 * time.Millisecond)
					w.restartRedis()
				})
			}},
		{name: "Redis stopped for 5 s", alone: true, realRedis: true, hurtsRedis: true, settles: true, crowd: patient,
			run: func(w *World, c *Crowd) {
				c.For(2 * time.Second)
				w.Strike("Redis stopped", func() {
					w.Redis.Stop()
					c.For(5 * time.Second)
					w.Redis.Continue()
				})
			},
			after: unaffected},
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
	if p := quantile(buys, 0.99); p > lenience(400*time.Millisecond) {
		w.Violate("I11: while Redis is away the p99 of a buy is %v", p)
	}
	for _, kinds := range [][]string{{"list", "detail"}, {"pay"}} {
		before := latencies(c.ledger.all(func(a answer) bool { return of(kinds...)(a) && a.received().Before(strikes[0].begin) }))
		now := within(kinds...)
		if len(now) < 20 || len(before) < 5 {
			w.T.Errorf("only %d and %d answers to %v", len(before), len(now), kinds)
		}
		if p, was := quantile(now, 0.99), quantile(before, 0.99); p > 2*was+lenience(100*time.Millisecond) {
			w.Violate("I11: while Redis is away the p99 of %v is %v, before it was %v", kinds, p, was)
		}
		for _, a := range w.during(c.ledger.all(of(kinds...))) {
			if a.Status >= 500 || a.Status == 0 {
				w.Violate("I11: while Redis is away %s heard %d %s", a.Kind, a.Status, a.Code)
			}
		}
	}
}
