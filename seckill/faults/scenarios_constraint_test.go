//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// constraintScenarios returns the scenario in which the last lines of defence are taken out of the database.
func constraintScenarios() []scenario {
	return []scenario{
		{name: "two constraints dropped in a sale", detail: "until every process and the command audit have found it", long: true,
			crowd: plan{buyers: 300, units: 250, span: 14 * time.Second, twice: 60, pays: 40, cancels: 15,
				payAfter: 300 * time.Millisecond, limit: 40 * time.Second},
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(10)
				env.Inject("constraints dropped", func() {
					env.alter(`alter table orders drop constraint one_order_per_user_and_sale`)
					env.alter(`alter table sales drop constraint stock_within_total`)
					env.checkAlarms()
					env.alter(`alter table orders add constraint one_order_per_user_and_sale unique (sale_id, user_id) include (status)`)
					env.alter(`alter table sales add constraint stock_within_total check (stock between 0 and total)`)
				})
			},
			after: checkDoubleClicks},
	}
}

// alter changes the schema as an operator would, who does not wait long for the lock.
func (env *Environment) alter(sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := env.pool.Exec(ctx, sql); err != nil {
		env.T.Errorf("%s: %v", sql, err)
	}
}

// checkAlarms checks that the audit of every process reports that both constraints are missing, with metrics and a line of the
// log, and that the command audit does so by its exit code. A process audits itself first 5 to 10 s after its start.
func (env *Environment) checkAlarms() {
	var all sync.WaitGroup
	for _, s := range env.Shops {
		all.Go(func() {
			if !env.within(alarmBound, fmt.Sprintf("I10: shop %d had its alarm", s.n), func() bool {
				m, err := s.metrics()
				return err == nil && m[`miaosha_invariant_broken{invariant="I1"}`] == 1 && m[`miaosha_invariant_broken{invariant="I2"}`] == 1
			}) {
				env.Report("I10: shop %d has no alarm %v after the constraints were dropped", s.n, sandboxtest.Hang)
			}
			for _, meaning := range missingConstraints {
				if !strings.Contains(s.Log.String(), meaning) {
					env.Report("I10: the log of shop %d does not say: %s", s.n, meaning)
				}
			}
		})
	}
	all.Wait()
	printed, err := env.command("audit")
	if err == nil {
		env.Report("I10: the command audit finds nothing while two constraints are missing")
	}
	for _, meaning := range missingConstraints {
		if !strings.Contains(printed, meaning) {
			env.Report("I10: the command audit does not say %q:\n%s", meaning, printed)
		}
	}
}

// alarmBound is how long a process may take to find that a constraint is missing.
const alarmBound = 15 * time.Second

// missingConstraints has what the audit says of the two.
var missingConstraints = []string{
	"the check that keeps a sale's stock between 0 and its total is missing",
	"the unique index that refuses a second order of a user in a sale is missing",
}

// checkDoubleClicks checks that units were sold while the constraints were missing, and that users clicked twice, who might have
// bought twice.
func checkDoubleClicks(env *Environment, c *Crowd) {
	if sold := len(env.duringFaults(c.ledger.filter(func(resp response) bool { return resp.Data.State == "ordered" }))); sold < 50 {
		env.TooLittle("buyers were told %d times of an order while the constraints were missing", sold)
	}
	clicks, twice := map[int64]int{}, 0
	for _, resp := range env.duringFaults(c.ledger.filter(ofKind("buy"))) {
		if clicks[resp.User]++; clicks[resp.User] == 2 {
			twice++
		}
	}
	if twice < 20 {
		env.TooLittle("only %d buyers clicked twice while the constraints were missing", twice)
	}
}
