//go:build faults && linux

package faults

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// pgBouncerScenarios returns the scenario in which the shops and their commands reach Postgres through PgBouncer, in transaction
// mode.
func pgBouncerScenarios() []scenario {
	return []scenario{
		{name: "PgBouncer killed, then its connections", detail: "in transaction mode, as in deploy/pgbouncer.ini", program: "pgbouncer",
			setup: setup{pgBouncer: true}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				env.checkRoleLimits()
				c.WaitSold(20)
				env.Inject("PgBouncer killed", func() {
					env.pgBouncer.Kill()
					c.Wait(700 * time.Millisecond)
					if err := env.pgBouncer.Start(); err != nil {
						env.T.Errorf("start PgBouncer again: %v", err)
					}
				})
				c.WaitSold(60)
				env.Inject("its connections killed", func() {
					env.killSettle()
					for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						env.killBackends()
					}
				})
			},
			after: func(env *Environment, c *Crowd) {
				env.checkRoleLimits()
				if env.scrapeAll(); env.total("miaosha_settle_retries_total") == 0 {
					env.TooLittle("no settle was interrupted")
				}
				if out, err := env.command("audit"); err != nil {
					env.Report("I10: through PgBouncer: %v\n%s", err, out)
				}
			}},
	}
}

// checkRoleLimits checks that a connection through PgBouncer has the limits that the shop cannot set there.
func (env *Environment) checkRoleLimits() {
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	conn, err := pgx.Connect(ctx, env.postgresURL(env.postgresAddr()))
	if err != nil {
		env.T.Error(err)
		return
	}
	defer conn.Close(ctx)
	for _, limit := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		rows, _ := conn.Query(ctx, `select current_setting($1)`, limit)
		if value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string]); err != nil || value == "0" {
			env.Report("I10: through PgBouncer %s is %q (%v)", limit, value, err)
		}
	}
}
