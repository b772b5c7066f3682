//go:build faults && linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

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
			},
			after: checkSameIncarnation}, // a user who was logged out breaks I11
		standbyBehind(),
		standbyAway(),
	}
}

// checkSameIncarnation checks that the shop has the incarnation of the template.
func checkSameIncarnation(env *Environment, _ *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	var drawn bool
	if err := env.pool.QueryRow(ctx, `select former is not null from shop`).Scan(&drawn); err != nil || drawn {
		env.Report("I11: a new incarnation was drawn: %v (%v)", drawn, err)
	}
}

// standbyBehind is the scenario in which a standby is promoted that lacks 200 ms of commits. The shops end by
// themselves, and a supervisor starts them. Then the crowd comes: what it is told must be true.
func standbyBehind() scenario {
	return scenario{name: "Postgres killed and a standby promoted that was 200 ms behind", detail: "asynchronous; a new incarnation of the shop begins",
		setup: setup{standby: true, asynchronous: true}, crowd: defaultPlan,
		prepare: (*Environment).loseCommits}
}

func (env *Environment) loseCommits() error {
	sale, err := env.command("sale", "--title", "T", "--price", "990", "--stock", "5", "--end", "1h")
	if err != nil {
		return err
	}
	sale = strings.TrimSpace(sale)
	printed, err := env.command("users", "-n", "2", "--sale", sale)
	if err != nil {
		return err
	}
	buyers, err := sandboxtest.ReadBuyers(printed, sale)
	if err != nil {
		return err
	}
	for i, b := range buyers {
		b.At(env.Shops[i].URL)
		if !sandboxtest.Poll(func() bool { return b.Send("sale", "GET", "/api/sales/"+sale, "").Status == 200 }) {
			return fmt.Errorf("shop %d does not know the sale", i) // it may have listed the sales just before
		}
	}
	kept, has := buyers[0].Order(env.T), false
	if !sandboxtest.Poll(func() bool { has = env.orderIDs(env.Standby.Postgres)[kept]; return has }) {
		return errors.New("the standby does not have the first order")
	}
	var was string
	if err := env.pool.QueryRow(context.Background(), `select incarnation::text from shop`).Scan(&was); err != nil {
		return err
	}
	env.Inject("primary killed", func() { err = env.failBehind(buyers[1]) })
	if err != nil {
		return err
	}
	var former string
	if err := env.pool.QueryRow(context.Background(), `select coalesce(former::text, '') from shop`).Scan(&former); err != nil {
		return err
	}
	if former != was {
		env.Report("I11: not one incarnation was drawn: it was %s, and the present one replaces %q", was, former)
	}
	for i, b := range buyers {
		b.At(env.Shops[1-i].URL)
		if r := b.Send("me", "GET", "/api/me", ""); r.Status != 401 {
			env.Report("I11: a token of before the failover opens an account: %d %s", r.Status, r.Raw)
		}
	}
	return nil
}

// failBehind promotes the standby without the last 200 ms, in which b buys, and starts the shops again when they have ended.
func (env *Environment) failBehind(b *sandboxtest.Buyer) error {
	env.Standby.FromPrimary.Cut()
	began := time.Now()
	lost := b.Order(env.T)
	time.Sleep(200*time.Millisecond - time.Since(began))
	var ended []*process
	for _, s := range env.Shops {
		ended = append(ended, s.mayEnd())
	}
	env.DB.kill()
	if err := env.Standby.Promote(); err != nil {
		return err
	}
	if env.orderIDs(env.Standby.Postgres)[lost] {
		return errors.New("the standby has the order that it was to lack")
	}
	for i, p := range ended {
		select {
		case <-p.done:
		case <-time.After(sandboxtest.Hang):
			return fmt.Errorf("shop %d runs on after a failover that lost an order", i)
		}
	}
	var starts errgroup.Group
	for _, s := range env.Shops {
		starts.Go(func() error { return s.Start("") })
	}
	return starts.Wait()
}

// standbyAway is the scenario in which the synchronous standby is down. Commits wait for it. The first time it comes back. The
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
