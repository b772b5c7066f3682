//go:build faults && linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// standbyScenarios returns the scenarios with a synchronous standby of Postgres.
func standbyScenarios() []scenario {
	return []scenario{
		{name: "Postgres killed and its standby promoted", detail: "a synchronous standby; promoted a second later",
			setup: setup{standby: true}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("primary killed", func() { env.promoteStandby(c, time.Second) })
			}},
		standbyAway(),
	}
}

// standbyAway is the scenario in which the synchronous standby is away. Commits wait for it. The first time it comes back. The
// second time the waits are cancelled, so that orders are visible which the standby does not have, and then it is promoted.
func standbyAway() scenario {
	type span struct{ from, to time.Time }
	var away []span // when nothing new could be on the standby
	return scenario{name: "the standby away, commits without it, then it is promoted", detail: "away for 3 s and for 2.5 s", long: true,
		setup: setup{standby: true}, crowd: longPlan,
		run: func(env *Environment, c *Crowd) {
			c.WaitSold(20)
			env.Inject("standby away", func() {
				env.Standby.FromPrimary.Cut()
				from := time.Now()
				c.Wait(3 * time.Second)
				away = append(away, span{from, time.Now()})
				env.restore(env.Standby.FromPrimary)
				if err := env.Standby.waitInSync(env.DB); err != nil {
					env.T.Error(err)
				}
			})
			c.WaitSold(int(c.ordered.Load()) + 20)
			env.Inject("standby away, waits cancelled, primary killed", func() {
				env.Standby.FromPrimary.Cut()
				from := time.Now()
				env.cancelWaits(2500 * time.Millisecond)
				before := env.orderIDs(env.DB)
				has := env.orderIDs(env.Standby.Postgres)
				for len(before) <= len(has) && !c.isOver() { // until there is an order that the standby does not have
					env.cancelWaits(100 * time.Millisecond)
					before = env.orderIDs(env.DB)
				}
				env.DB.kill()
				away = append(away, span{from, time.Now()})
				if err := env.Standby.Promote(); err != nil {
					env.T.Error(err)
				}
				lost := 0
				after := env.orderIDs(env.Standby.Postgres)
				for id := range before {
					if !after[id] {
						lost++
					}
				}
				if env.T.Logf("%d orders were lost with the primary", lost); lost == 0 {
					env.TooLittle("the primary had no order that the standby did not have")
				}
			})
		},
		after: func(env *Environment, c *Crowd) {
			ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
			defer cancel()
			sale, err := env.readSale(ctx)
			if err != nil {
				env.T.Fatal(err)
			}
			waiting := 0
			for _, resp := range c.ledger.filter(ofKind("buy", "result", "order", "confirm", "cancel")) {
				for _, s := range away {
					if resp.Sent.Before(s.from) || resp.received().After(s.to) {
						continue
					}
					o, exists := sale.orders[sale.ofUser[resp.User]]
					done := func(at *time.Time) bool { return exists && at != nil && at.Before(s.from) }
					switch {
					case resp.Code == "busy", resp.Data.State == "queued":
						waiting++
					case resp.Data.State == "ordered" && !done(&o.CreatedAt),
						resp.Data.Status == "paid" && !done(o.PaidAt), resp.Data.Status == "captured" && !done(o.PaidAt),
						resp.Kind == "cancel" && resp.Status == 200 && !done(o.CancelledAt):
						env.Report("I3: without the standby %s told user %d %d %s%s", resp.Kind, resp.User, resp.Status, resp.Data.State, resp.Data.Status)
					}
				}
			}
			if waiting < 100 {
				env.TooLittle("without the standby only %d replies were queued or busy", waiting)
			}
		},
	}
}

// cancelWaits cancels the waits for the standby, and those that come, for d.
func (env *Environment) cancelWaits(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		rows, _ := env.pool.Query(ctx, `select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'`)
		if _, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]); err != nil && ctx.Err() == nil {
			env.T.Error(err)
		}
	}
}

// orderIDs returns the orders that are visible at a server.
func (env *Environment) orderIDs(at *Postgres) map[string]bool {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	conn, err := pgx.Connect(ctx, at.URL())
	if err != nil {
		env.T.Error(err)
		return nil
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, `select id::text from orders`)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		env.T.Error(err)
	}
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}
