//go:build faults && linux

package faults

import (
	"context"

	"github.com/redis/go-redis/v9"
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
				if n := env.rdb.XLen(context.Background(), env.key("dead")).Val(); n != 5*int64(len(poison)) {
					env.Report("I4: %d dead letters, want %d", n, 5*len(poison))
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
