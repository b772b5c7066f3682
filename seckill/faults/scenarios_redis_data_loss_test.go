//go:build faults && linux

package faults

import (
	"context"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// redisDataLossScenarios returns the scenarios in which Redis loses all its data, or the latest.
func redisDataLossScenarios() []scenario {
	return []scenario{
		{name: "FLUSHALL five times in a sale", losesData: true, setup: setup{separateSessions: true}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				for n := range 5 {
					c.WaitSold(15 * (n + 1))
					env.Inject("FLUSHALL", env.flush)
				}
			}},
		{name: "Redis killed and started again (appendfsync everysec)",
			detail:    "with a process that has a queue, so that only the journal has its tickets",
			realRedis: true, losesData: true, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(10)
				env.lockSale(func() { // so that the queue is older than the data that may be lost
					c.Wait(3 * time.Second)
					env.Inject("Redis and a shop killed", func() {
						env.Shops[0].Kill()
						env.Redis.Kill()
						c.Wait(500 * time.Millisecond)
						env.restartRedis()
						env.restart(0)
					})
				})
			},
			after: checkOnlyLatestLost},
		{name: "Redis restored from an older AOF", realRedis: true, losesData: true,
			crowd: plan{buyers: 300, units: 260, span: 7 * time.Second, twice: 20, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: restoreOldAOF,
			after: func(env *Environment, c *Crowd) {
				if env.scrapeAll(); env.total(`miaosha_gate_fixes_total{direction="down"}`) == 0 {
					env.TooLittle("no gate had too many units: Redis did not start with the old AOF")
				}
			}},
		{name: "five processes on an empty Redis",
			setup: setup{shops: 5, startsIn: 5 * time.Minute, separateSessions: true},
			crowd: plan{buyers: 200, units: 80, span: 4 * time.Second, twice: 30, pays: 40, cancels: 15,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			prepare: func(env *Environment) error {
				sandboxtest.Poll(func() bool { env.scrape(); return env.total("miaosha_gate_rebuilds_total") > 0 })
				env.checkRebuilds(1)
				return nil
			},
			// Before the sale starts, so no buyer has a ticket yet. The first ones wait for the start.
			run: func(env *Environment, c *Crowd) {
				env.Inject("FLUSHALL", env.flush)
				sandboxtest.Poll(func() bool { env.scrape(); return env.total("miaosha_gate_rebuilds_total") > 1 })
				env.checkRebuilds(2)
				env.openSale()
			}},
	}
}

// checkOnlyLatestLost checks that every lost ticket is of the last two seconds before the kill: a Redis that syncs each
// second may delay a write for so long. Every older ticket must have a result.
func checkOnlyLatestLost(env *Environment, c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	sale, err := env.readSale(ctx)
	if err != nil {
		env.T.Error(err)
		return
	}
	faults, _ := env.injected()
	from, to := faults[0].begin.Add(-2*time.Second), faults[0].end
	lost, waited := map[string]bool{}, 0
	for _, resp := range c.ledger.filter(ofKind("buy")) {
		if resp.Data.State != "queued" {
			continue
		}
		at := grantedAt(resp.Data.Ticket)
		r, ok := sale.tickets[resp.Data.Ticket]
		if ok && at.Before(from) && r.CreatedAt.After(to) {
			waited++
		}
		if ok {
			continue
		}
		if lost[resp.Data.Ticket] = true; at.Before(from) || at.After(to) {
			env.Report("I4: ticket %s is lost, granted %v after the kill: it is not of the two seconds before it", resp.Data.Ticket, at.Sub(faults[0].begin))
		}
	}
	env.T.Logf("%d tickets were lost; %d of the older ones were settled after the kill", len(lost), waited)
}

// restoreOldAOF starts Redis with the AOF of an earlier moment. Tickets that were queued then have their orders now.
func restoreOldAOF(env *Environment, c *Crowd) {
	c.WaitSold(15)
	env.lockSale(func() {
		c.waitReplies("no ticket was queued", func(resp response) bool { return resp.Kind == "buy" && resp.Data.State == "queued" })
		c.Wait(400 * time.Millisecond)
		if err := env.Redis.SaveAOF(); err != nil {
			env.T.Error(err)
		}
	})
	c.WaitSold(100)
	stop := c.askOwners()
	env.Inject("Redis restored", func() {
		env.Redis.Kill()
		if err := env.Redis.RestoreAOF(); err != nil {
			env.T.Error(err)
		}
		env.restartRedis()
	})
	stop()
}

// askOwners lets the owners ask for their results all the time, until 2 s after stop is called. So a response that is wrong for a
// moment only is in the ledger too.
func (c *Crowd) askOwners() (stop func()) {
	owners, over := c.orderOwners(), make(chan struct{})
	if len(owners) < 50 {
		c.env.TooLittle("only %d buyers have an order", len(owners))
	}
	for n := range 4 {
		c.observers.Go(func() {
			done := over
			for i, end := n, time.Now().Add(time.Minute); time.Now().Before(end); i++ {
				select {
				case <-done:
					done, end = nil, time.Now().Add(2*time.Second)
				case <-time.After(2 * time.Millisecond):
				}
				b := owners[i*7%len(owners)]
				c.ledger.request(c.env.anyShop(i), b.ID, b.Token, "result", "GET", c.env.salePath()+"/result", "")
			}
		})
	}
	return func() { close(over) }
}

// checkRebuilds checks how many gates all processes together have built.
func (env *Environment) checkRebuilds(want float64) {
	env.scrapeAll()
	if n := env.total("miaosha_gate_rebuilds_total"); n != want {
		env.Report("I6: %d processes built %.0f gates, want %.0f", len(env.Shops), n, want)
	}
}
