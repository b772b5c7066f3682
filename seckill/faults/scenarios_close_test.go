//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// closeScenarios returns the scenario in which two administrators run a sale from its draft to its close in the rush.
func closeScenarios() []scenario {
	return []scenario{
		{name: "a sale from its plan to its close", detail: "published by a plan; its window moved while buyers wait for the opening; orders refunded and cancelled while their buyers cancel and others buy; closed by both administrators with orders pending and tickets in the journal",
			setup: setup{draft: true, startsIn: 30 * time.Minute}, prepare: publishByPlan,
			crowd: plan{buyers: 300, units: 400, span: 3 * time.Second, twice: 30, pays: 40, cancels: 10, payAfter: 100 * time.Millisecond, limit: 30 * time.Second},
			run:   closeInTheRush, after: checkClosed},
	}
}

// publishByPlan lets an administrator plan that the draft is published, and waits for it.
func publishByPlan(env *Environment) error {
	if err := hireStaff(env); err != nil {
		return err
	}
	if d := env.plan(env.staff[0], env.Shops[0], "publish"); d.status != 200 {
		return fmt.Errorf("plan to publish the draft: %d %s", d.status, d.code)
	}
	env.waitPlans()
	for _, s := range env.Shops {
		if !env.within(planBound, fmt.Sprintf("I11: shop %d showed the sale", s.n), func() bool { return sandboxtest.Call("GET", s.URL()+env.salePath(), "", "").Status == 200 }) {
			return fmt.Errorf("shop %d does not show the sale", s.n)
		}
	}
	return nil
}

// closeInTheRush moves the window while buyers wait for the opening, takes orders back while others buy, and lets both
// administrators close the sale while late buyers have tickets that are not settled.
func closeInTheRush(env *Environment, c *Crowd) {
	late, err := env.newBuyers(20, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	each := func(kind, method string, path func(*sandboxtest.Buyer) string, enough func(response) bool) {
		var asking sync.WaitGroup
		for i, b := range late {
			asking.Go(func() {
				var last response
				if !env.within(planBound, "I4: a late buyer's "+kind+" had its end", func() bool {
					last = c.ledger.request(env.Shops[i%2], b.ID, b.Token, kind, method, env.salePath()+path(b), "")
					return enough(last)
				}) {
					env.Report("I4: a late buyer's %s ended with %d %s%s", kind, last.Status, last.Code, last.Data.State)
				}
			})
		}
		asking.Wait()
	}
	env.Inject("two administrators", func() {
		var moving sync.WaitGroup
		for i, a := range env.staff {
			moving.Go(func() { env.move(a, env.Shops[i], 30*time.Second, 200) })
		}
		moving.Wait()
		env.move(env.staff[1], env.Shops[0], 1500*time.Millisecond, 200)
		env.move(env.staff[0], env.Shops[1], 30*time.Second, 409) // now the start stays
		c.WaitSold(40)
		env.raceForOrders(c)
		env.closing = time.Now()
		var closing sync.WaitGroup
		env.lockSale(func() {
			closing.Go(env.closeByBoth)
			env.waitLocked(2, lockOfSale) // they, or what settles: no later ticket is before them
			each("late buy", "POST", func(b *sandboxtest.Buyer) string { return "/buy/" + b.Path }, func(resp response) bool { return resp.Data.State == "queued" })
		})
		closing.Wait()
		each("result", "GET", func(*sandboxtest.Buyer) string { return "/result" }, func(resp response) bool { return resp.Data.State == "closed" || resp.Data.State == "ordered" })
	})
}

// move lets an administrator set the time of the opening, and wants that status.
func (env *Environment) move(a *administrator, s *Shop, in time.Duration, want int) {
	start, end := time.Now().Add(in), time.Now().Add(time.Hour)
	body := fmt.Sprintf(`{"start_at":%q,"end_at":%q}`, start.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
	if d := a.do(s, env.adminPath("window"), "sale.window", body); d.status != want {
		env.Report("I11: moving the window before the opening: %d %s, want %d", d.status, d.code, want)
	}
}

// checkClosed checks that buyers waited for the opening, and that the close refused tickets. Then it checks the log.
func checkClosed(env *Environment, c *Crowd) {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	rows, _ := env.pool.Query(ctx, `select count(*) from ticket_outcomes where sale_id = $1 and outcome = 'closed'`, env.Sale)
	closed, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	early := c.ledger.filter(func(resp response) bool { return resp.Code == "not_started" })
	if err != nil || closed == 0 || len(early) == 0 {
		env.TooLittle("%d tickets refused by the close, %v, and %d clicks before the opening: want some of each", closed, err, len(early))
	}
	env.T.Logf("%d tickets refused by the close, %d clicks before the opening", closed, len(early))
	env.checkLog(10, 1)
	env.checkAudit()
}

// mayBeClosed reports whether what happened at a time may find the sale closed.
func (env *Environment) mayBeClosed(at time.Time) bool {
	return !env.closing.IsZero() && at.After(env.closing)
}
