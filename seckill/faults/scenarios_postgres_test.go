//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// postgresScenarios returns the scenarios in which Postgres is broken or blocked.
func postgresScenarios() []scenario {
	return []scenario{
		{name: "Postgres backends killed every 10 ms for 3 s", crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("backends killed", func() {
					env.killSettle()
					for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						env.killBackends()
					}
				})
			},
			after: func(env *Environment, c *Crowd) {
				if env.scrapeAll(); env.total("miaosha_settle_retries_total") == 0 {
					env.TooLittle("no settle was interrupted")
				}
			}},
		{name: "Postgres restarted three times", detail: "by the immediate shutdown, fsync on",
			setup: setup{postgres: []string{"fsync=on"}}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				for n := range 3 {
					c.WaitSold(20 * (n + 1))
					env.Inject("Postgres restarted", func() {
						env.DB.End(syscall.SIGQUIT)
						if err := env.DB.Start(); err != nil {
							env.T.Errorf("restart Postgres: %v", err)
						}
					})
				}
			}},
		{name: "Postgres unreachable for 30 s", long: true,
			crowd: plan{buyers: 300, units: 400, span: 37 * time.Second, twice: 20, pays: 40, cancels: 10,
				payAfter: 300 * time.Millisecond, limit: 55 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.waitAsked(30, "buy", "result")
				env.Inject("Postgres unreachable", func() {
					for _, s := range env.Shops {
						s.ToPostgres.Cut()
					}
					c.Wait(30 * time.Second)
					for _, s := range env.Shops {
						env.restore(s.ToPostgres)
					}
				})
			},
			after: checkQueueThenBusy},
		{name: "the sale's row locked for 5 s", exclusive: true,
			crowd: plan{buyers: 300, units: 120, span: 7 * time.Second, twice: 30, pays: 40, cancels: 15, fetchesPath: 20,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				c.waitAsked(10, "buy", "result")
				env.Inject("row locked", func() { env.lockSale(func() { c.Wait(5 * time.Second) }) })
			},
			after: func(env *Environment, c *Crowd) {
				if env.scrapeAll(); env.total("miaosha_settle_retries_total") == 0 {
					env.TooLittle("no settle was retried: the row was not locked")
				}
				env.checkUnaffected(c, 30, "buy")
				env.checkUnaffected(c, 30, "result")
			}},
		{name: "six of twenty sales locked for 5 s", detail: "the crowd buys in one of the others; two buyers wait in each of the six", long: true, exclusive: true,
			crowd: plan{buyers: 600, units: 700, span: 25 * time.Second, pays: 40, cancels: 15, payAfter: 300 * time.Millisecond, limit: 55 * time.Second},
			run:   lockOtherSales,
			after: func(env *Environment, c *Crowd) {
				env.checkUnaffected(c, 30, "buy")
				env.checkUnaffected(c, 30, "result")
				faults, _ := env.injected()
				late := faults[0].begin.Add(faults[0].end.Sub(faults[0].begin) / 2) // a ticket of before the fault had its result long ago
				if !slices.ContainsFunc(c.ledger.filter(ofKind("result")), func(resp response) bool {
					return resp.Path == env.salePath()+"/result" && resp.Sent.After(late) && resp.received().Before(faults[0].end) && resp.Data.OrderID != ""
				}) {
					env.Report("I4: no buyer of a free sale had an order while others were locked")
				}
			}},
		{name: "the web pool starved", detail: "log-ins need a table that is locked for 7 s; 8 of them wait at each process for a second, and then one at a time",
			long: true, exclusive: true,
			crowd: plan{buyers: 300, units: 400, span: 9 * time.Second, twice: 20, pays: 60, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.waitAsked(10, "buy", "result", "pay", "list", "detail")
				var logins sync.WaitGroup
				over := make(chan struct{})
				env.Inject("users locked", func() {
					env.locked(`lock table users in access exclusive mode`, func() {
						for i := range 20 * len(env.Shops) {
							logins.Go(func() { c.logInAgain(env.Shops[i%len(env.Shops)], fmt.Sprintf("139%08d", i), over) })
						}
						env.waitLocked(len(env.Shops), "%from   users where phone%")
						c.Wait(7 * time.Second)
						close(over)
						logins.Wait()
					})
				})
			},
			after: func(env *Environment, c *Crowd) {
				for _, kind := range []string{"buy", "result", "pay", "list", "detail"} {
					env.checkUnaffected(c, 20, kind)
				}
			}},
	}
}

// locked runs f while another transaction holds a lock.
func (env *Environment) locked(sql string, f func(), args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	err := pgx.BeginFunc(ctx, env.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return err
		}
		f()
		return nil
	})
	if err != nil {
		env.T.Errorf("%s: %v", sql, err)
	}
}

// lockOtherSales makes nineteen sales beside that of the crowd, and locks six for 5 s while they have buyers. These have their orders
// afterwards.
func lockOtherSales(env *Environment, c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	var others []*otherSale
	var ids []int64
	for range 6 {
		other, err := newOtherSale(env, c, 2, 5)
		if err != nil {
			env.T.Error(err)
			return
		}
		others, ids = append(others, other), append(ids, other.sale)
	}
	if _, err := env.pool.Exec(ctx, `
		insert into sales (goods_id, price, total, stock, state, starts_at, ends_at)
		select goods_id, price, total, stock, state, starts_at, ends_at from sales, generate_series(1, 13) where id = $1`, ids[0]); err != nil {
		env.T.Error(err)
		return
	}
	c.WaitSold(20)
	c.waitAsked(10, "buy", "result")
	env.Inject("six sales locked", func() {
		env.locked(`select from sales where id = any($1) for update`, func() {
			for _, other := range others {
				for i, b := range other.buyers {
					if resp := other.click(i%len(env.Shops), b); resp.Status != http.StatusAccepted {
						env.Late("I4: the buyer of a locked sale got %d %s", resp.Status, resp.Code)
					}
				}
			}
			c.Wait(5 * time.Second)
		}, ids)
	})
	for _, other := range others {
		for i, b := range other.buyers {
			other.order(i%len(env.Shops), b)
		}
		other.checkFinalState(ctx)
	}
}

// lockOfSale is in the statement that every change of a sale's stock and state begins with.
const lockOfSale = "%from   sales s join goods g%"

// logInAgain tries to log in at a shop, again and again, until over is closed.
func (c *Crowd) logInAgain(s *Shop, phone string, over <-chan struct{}) {
	for {
		c.ledger.request(s, 0, "", "login", "POST", "/api/login", fmt.Sprintf(`{"phone":%q,"password":"whatever it was"}`, phone))
		select {
		case <-over:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// waitLocked waits until n connections of the shops wait for a lock in a statement that is like a pattern.
func (env *Environment) waitLocked(n int, like string) (locked bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*sandboxtest.Hang)
	defer cancel()
	most := 0
	if !sandboxtest.Poll(func() bool {
		waiting := 0
		err := env.pool.QueryRow(ctx, `
			select count(*) from pg_stat_activity where application_name = 'miaosha' and wait_event_type = 'Lock' and query like $1`, like).Scan(&waiting)
		most = max(most, waiting)
		return err == nil && waiting >= n
	}) {
		env.TooLittle("at most %d statements like %q waited for a lock at once, want %d", most, like, n)
		return false
	}
	return true
}

func (env *Environment) lockSale(f func()) {
	env.locked(`select from sales where id = $1 for update`, f, env.Sale)
}

// lockOpenSale is lockSale while others pause and resume the sale: it takes the lock in a moment in which the sale and its gate are
// open. If it were paused then, its buyers would be told so until the lock is given back.
func (env *Environment) lockOpenSale(f func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*sandboxtest.Hang)
	defer cancel()
	var err error
	if open := sandboxtest.Poll(func() (open bool) {
		err = pgx.BeginFunc(ctx, env.pool, func(tx pgx.Tx) error {
			var state, epoch string
			if err := tx.QueryRow(ctx, `select state, epoch::text from sales where id = $1 for update`, env.Sale).Scan(&state, &epoch); err != nil {
				return err
			}
			gate, err := env.readGate(ctx)
			if open = err == nil && state == "published" && gate.epoch == epoch; open {
				f()
			}
			return err
		})
		return open || err != nil
	}); !open || err != nil {
		env.T.Errorf("the open sale was not locked: %v", err)
	}
}

// checkUnaffected checks requests that do not need the broken part: they must be as fast as before the fault, and none may
// fail. least is the number of them that the check needs.
func (env *Environment) checkUnaffected(c *Crowd, least int, kind string) {
	faults, _ := env.injected()
	before := latencies(c.ledger.filter(func(resp response) bool { return resp.Kind == kind && resp.received().Before(faults[0].begin) }))
	responses := env.duringFaults(c.ledger.filter(ofKind(kind)))
	if len(responses) < least || len(before) < 5 {
		env.TooLittle("only %d and %d responses to %s before and during the fault", len(before), len(responses), kind)
	}
	if p, was := quantile(latencies(responses), 0.99), quantile(before, 0.99); p > 2*was+150*time.Millisecond {
		env.Late("I11: during the fault the p99 of %s is %v, before it was %v", kind, p, was)
	}
	for _, resp := range responses {
		switch {
		case resp.gaveUp() || resp.Code == "busy": // it had to wait for too long
			env.Late("I11: during the fault %s got %d %s after %v", kind, resp.Status, resp.Code, formatBound(resp.Took))
		case resp.Status >= 500 || resp.Status == 0:
			env.Report("I11: during the fault %s got %d %s", kind, resp.Status, resp.Code)
		}
	}
}

// checkQueueThenBusy checks a sale without Postgres. The gate grants tickets until the oldest has waited for 10 s; after
// that every buy is refused. A buyer with a ticket is told that it is queued by the process that has it in its queue; the other
// may say busy. Any request that needs Postgres is refused at once.
func checkQueueThenBusy(env *Environment, c *Crowd) {
	faults, _ := env.injected()
	begin, end := faults[0].begin, faults[0].end
	const cutting = 50 * time.Millisecond // from the cut of the first proxy to that of the last
	const known = 2 * time.Second         // when a process has surely noticed: then it says queued of its own tickets only
	has := map[int64]int{}                // users who were told of a ticket or an order: by this shop, or -1 if by any
	accepted := map[int64]int{}           // users with a ticket: the shop that has it
	for _, resp := range c.ledger.filter(ofKind("buy")) {
		if resp.Data.State == "queued" && resp.Sent.Sub(begin) > cutting {
			accepted[resp.User] = resp.Shop
		}
	}
	granted, refused := 0, 0
	for _, resp := range c.ledger.filter(ofKind("buy", "result", "order", "pay", "cancel", "confirm")) {
		since := resp.Sent.Sub(begin)
		within := since > cutting && resp.received().Before(end)
		shop, told := has[resp.User]
		holder, holds := accepted[resp.User]
		elsewhere := resp.Code == "busy" && (told && shop != resp.Shop || holds && holder != resp.Shop)
		switch {
		case !within, elsewhere:
		case resp.Kind == "buy" && resp.Status == http.StatusServiceUnavailable:
			if refused++; since < 8*time.Second {
				env.Late("I4: a buy was refused %v after Postgres went down: %s", since, resp.Code)
			} else if resp.RetryAfter == 0 {
				env.Report("I10: a refusal has no Retry-After")
			}
		case resp.Kind == "buy" && resp.Data.State == "queued":
			granted++
			if late := grantedAt(resp.Data.Ticket).Sub(begin); late > 12*time.Second {
				env.Late("I10: a ticket was granted %v after Postgres went down", formatBound(late))
			}
		case resp.Kind == "buy" && resp.Data.State != "ordered":
			env.Report("I4: without Postgres a buy got %d %s %s", resp.Status, resp.Code, resp.Data.State)
		case resp.Kind == "result" && told && resp.Data.State != "queued" && resp.Data.State != "ordered":
			env.Report("I4: without Postgres the owner of a ticket got %d %s %s", resp.Status, resp.Code, resp.Data.State)
		case resp.Kind != "buy" && resp.Kind != "result" && (resp.gaveUp() || resp.Status == http.StatusServiceUnavailable && resp.Took > time.Second):
			env.Late("I11: without Postgres %s got %d %s only after %v", resp.Kind, resp.Status, resp.Code, formatBound(resp.Took))
		case resp.Kind != "buy" && resp.Kind != "result" && resp.Status != http.StatusServiceUnavailable:
			env.Report("I11: without Postgres %s got %d %s after %v", resp.Kind, resp.Status, resp.Code, resp.Took)
		}
		switch {
		case resp.Data.State == "queued" && since > known && within:
			has[resp.User] = resp.Shop
		case !told && (resp.Data.State == "queued" || resp.Data.State == "ordered"):
			has[resp.User] = -1
		}
	}
	if granted < 20 || refused < 100 {
		env.TooLittle("without Postgres only %d tickets were granted and %d buys refused", granted, refused)
	}
}

// killSettle kills a settle transaction for certain: it waits for the sale's row.
func (env *Environment) killSettle() {
	env.lockSale(func() {
		env.waitLocked(1, lockOfSale)
		env.killBackends()
	})
}

// killBackends ends the connections of the shops that are not idle.
func (env *Environment) killBackends() {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	if _, err := env.pool.Exec(ctx, `
		select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'miaosha' and state <> 'idle'`); err != nil {
		env.T.Errorf("kill backends: %v", err)
	}
}
