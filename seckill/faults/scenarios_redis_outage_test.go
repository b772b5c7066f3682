//go:build faults && linux

package faults

import (
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// redisOutageScenarios returns the scenarios in which Redis is down for a while and keeps its data.
func redisOutageScenarios() []scenario {
	return []scenario{
		{name: "Redis killed and started again (appendfsync always)", realRedis: true,
			setup: setup{fsync: "always"}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(40)
				env.Inject("Redis killed", func() {
					env.Redis.Kill()
					c.Wait(700 * time.Millisecond)
					env.restartRedis()
				})
			}},
		{name: "Redis stopped for 5 s", exclusive: true, realRedis: true, checksResources: true, crowd: longPlan,
			run: func(env *Environment, c *Crowd) {
				c.waitAsked(10, "buy", "list", "detail", "pay")
				env.Inject("Redis stopped", func() {
					env.Redis.Stop()
					c.Wait(5 * time.Second)
					env.Redis.Continue()
				})
			},
			after: checkRedisStopped},
		{name: "10 s without Redis and Postgres, then a retry storm", long: true, checksResources: true,
			crowd: plan{buyers: 300, units: 400, span: 11 * time.Second, pays: 40, payAfter: 300 * time.Millisecond, cached: true,
				limit: 45 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.waitAsked(20, "buy")
				env.Inject("both unreachable", func() {
					for _, s := range env.Shops {
						s.ToRedis.Cut()
						s.ToPostgres.Cut()
					}
					c.Wait(10 * time.Second)
					for _, s := range env.Shops {
						env.restore(s.ToRedis)
						env.restore(s.ToPostgres)
					}
				})
				c.storm()
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 100, 0.99, time.Second) }},
	}
}

// restartRedis starts Redis with the data that it had.
func (env *Environment) restartRedis() {
	if err := env.Redis.Start(); err != nil {
		env.T.Errorf("restart Redis: %v", err)
	}
}

// checkRedisStopped checks that a buy is answered soon while Redis is down, and that payments and the lists work as before. The
// buys of the first second wait until the breaker opens and until every process has seen that the sale is bypassed.
func checkRedisStopped(env *Environment, c *Crowd) {
	within := func(kinds ...string) []time.Duration {
		return latencies(env.duringFaults(c.ledger.filter(ofKind(kinds...))))
	}
	faults, _ := env.injected()
	for from, limit := range map[time.Duration]time.Duration{0: time.Second, time.Second: 400 * time.Millisecond} {
		buys := latencies(env.duringFaults(c.ledger.filter(func(resp response) bool {
			return resp.Kind == "buy" && resp.Sent.Sub(faults[0].begin) >= from
		})))
		if len(buys) < 50 {
			env.TooLittle("only %d buys while Redis was down for %v or longer", len(buys), from)
		}
		if p := quantile(buys, 0.99); p > limit {
			env.Late("I11: %v after Redis went down the p99 of a buy is %v", from, p)
		}
	}
	for _, kinds := range [][]string{{"list", "detail"}, {"pay"}} {
		before := latencies(c.ledger.filter(func(resp response) bool { return ofKind(kinds...)(resp) && resp.received().Before(faults[0].begin) }))
		now := within(kinds...)
		if len(now) < 20 || len(before) < 5 {
			env.TooLittle("only %d and %d responses to %v before and during the fault", len(before), len(now), kinds)
		}
		if p, was := quantile(now, 0.99), quantile(before, 0.99); p > 2*was+100*time.Millisecond {
			env.Late("I11: while Redis is down the p99 of %v is %v, before it was %v", kinds, p, was)
		}
		for _, resp := range env.duringFaults(c.ledger.filter(ofKind(kinds...))) {
			if resp.gaveUp() {
				env.Late("I11: while Redis is down %s had no reply in %v", resp.Kind, formatBound(resp.Took))
			} else if resp.Status >= 500 || resp.Status == 0 {
				env.Report("I11: while Redis is down %s got %d %s", resp.Kind, resp.Status, resp.Code)
			}
		}
	}
}

// restore ends the cut of a proxy.
func (env *Environment) restore(proxy *sandboxtest.Proxy) {
	if err := proxy.Join(); err != nil {
		env.T.Errorf("restore a network: %v", err)
	}
}
