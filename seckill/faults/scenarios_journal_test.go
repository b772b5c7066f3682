//go:build faults && linux

package faults

import (
	"context"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// journalScenarios returns the scenario with journal entries that cannot be settled.
func journalScenarios() []scenario {
	return []scenario{
		{name: "poison messages in the journal", detail: "without an owner, of a process that never was, and of one that lives", poison: true, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				living := env.living()
				for n, owner := range []string{"", "none", living[0], "", living[1]} {
					c.WaitSold(20 * (n + 1))
					env.Inject("poison messages", func() { env.addPoison(owner) })
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

// living returns the processes that live, as they name themselves in the journal.
func (env *Environment) living() (names []string) {
	if !sandboxtest.Poll(func() bool {
		names = env.rdb.HKeys(context.Background(), "ms:beats").Val()
		return len(names) >= len(env.Shops)
	}) {
		env.T.Fatalf("only these processes beat: %q", names)
	}
	return names
}

// addPoison adds the entries to the journal of the sale, as those of an owner unless it is "", and their tickets to the gate's count.
func (env *Environment) addPoison(owner string) {
	for _, entry := range poison {
		if owner != "" {
			entry = maps.Clone(entry)
			entry["owner"] = owner
		}
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
