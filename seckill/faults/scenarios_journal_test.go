//go:build faults && linux

package faults

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// journalScenarios returns the scenario with journal entries that cannot be settled.
func journalScenarios() []scenario {
	return []scenario{
		{name: "poison messages in the journal", poison: true, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				for n := range 5 {
					c.WaitSold(20 * (n + 1))
					env.Inject("poison messages", env.addPoison)
				}
			},
			after: func(env *Environment, c *Crowd) {
				ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
				defer cancel()
				// A ticket of the user that cannot be is refused, as any other, if all is sold before it is settled.
				rows, _ := env.pool.Query(ctx, `select count(*) from ticket_outcomes where user_id < 0 and outcome = 'sold_out'`)
				refused, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
				if err != nil {
					env.T.Error(err)
				}
				if n := env.rdb.XLen(ctx, env.key("dead")).Val(); n+refused != 5*int64(len(poison)) {
					env.Report("I4: %d dead letters and %d refused, want %d", n, refused, 5*len(poison))
				}
			}},
	}
}

// poison has journal entries that are no tickets, or whose tickets cannot be settled.
var poison = []map[string]any{
	{"x": "y"},
	{"epoch": "1", "n": "1", "tickets": "7 \x00"},
	{"epoch": "1", "n": "1", "tickets": "-5 7c6f1d9e-0f0a-4a52-9f1e-2b8a3a1f0c11"},
	{"epoch": "1", "n": "1", "tickets": "99999999999999999999 7c6f1d9e-0f0a-4a52-9f1e-2b8a3a1f0c11"},
}

// addPoison adds the entries to the journal of the sale, and their tickets to the gate's count.
func (env *Environment) addPoison() {
	for _, entry := range poison {
		if _, err := env.rdb.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
			p.XAdd(context.Background(), &redis.XAddArgs{Stream: env.key("journal2"), Values: entry})
			if n, _ := entry["n"].(string); n != "" {
				p.HIncrBy(context.Background(), env.key("gate"), "in_flight", 1)
			}
			return nil
		}); err != nil {
			env.T.Error(err)
		}
	}
}
