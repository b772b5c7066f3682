//go:build faults && linux

package faults

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// formerScenarios returns the scenario in which a process of a former version sells beside one of this version, as
// deploy/README.md describes it.
func formerScenarios() []scenario {
	return []scenario{
		{name: "a former version beside this one", detail: "this one joins in the sale and is killed, then the former; each settles what the other has left",
			long: true, realRedis: true, program: "xz", setup: setup{former: true},
			crowd: plan{buyers: 400, units: 500, span: 24 * time.Second, twice: 30, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, cached: true, limit: 60 * time.Second},
			run: replaceFormer, after: refuseOldJournal},
	}
}

func replaceFormer(env *Environment, c *Crowd) {
	former, ours := env.Shops[0], env.Shops[1]
	c.WaitSold(20)
	env.Inject("this version joins", func() {
		if err := ours.Start(""); err != nil {
			env.T.Fatalf("start this version beside the former: %v", err)
		}
	})
	c.WaitSold(100)
	env.killWithTickets(c, "this version", ours, ours.owns())
	env.restart(1)
	c.WaitSold(200)
	env.killWithTickets(c, "the former version", former, func(o owner) bool { return o.process == "" })
	env.restart(0)
}

// killWithTickets kills a shop that has entries in the journal. The other one has to settle them.
func (env *Environment) killWithTickets(c *Crowd, what string, s *Shop, of func(owner) bool) {
	env.Inject(what+" killed", func() {
		var left []string
		env.lockSale(func() { // so that some of its tickets are queued
			left = env.waitEntries(c, of)
			s.Kill()
		})
		env.checkSettled(what, left, machineBound)
	})
}

// refuseOldJournal starts this version on a ticket in the journal of two versions ago, which it does not read. The former version
// settles it, and then this one starts.
func refuseOldJournal(env *Environment, c *Crowd) {
	former, ours := env.Shops[0], env.Shops[1]
	for _, s := range env.Shops {
		s.Term()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*sandboxtest.Hang)
	defer cancel()
	old := env.key("journal")
	if err := env.rdb.XAdd(ctx, &redis.XAddArgs{Stream: old, Values: []any{
		"epoch", "1", "user", c.buyers[0].ID, "nonce", "7c6f1d9e-0f0a-4a52-9f1e-2b8a3a1f0c11"}}).Err(); err != nil {
		env.T.Error(err)
	}
	if err := ours.Start(""); err == nil || !strings.Contains(err.Error(), "have tickets in the journal of a release") {
		env.Report("I4: this version starts on the journal of two versions ago: %v", err)
	}
	env.restart(0)
	if !sandboxtest.Poll(func() bool { n, err := env.rdb.XLen(ctx, old).Result(); return err == nil && n == 0 }) {
		env.Report("I4: the former version does not settle the journal of the one before it")
	}
	rows, _ := env.pool.Query(ctx, `select count(*) from ticket_outcomes where ticket like '1:%' and user_id = $1`, c.buyers[0].ID)
	if n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int]); err != nil || n != 1 {
		env.Report("I4: a ticket of two versions ago has %d results: %v", n, err)
	}
	former.Term()
	env.restart(1)
}
