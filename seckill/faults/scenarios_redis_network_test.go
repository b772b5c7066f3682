//go:build faults && linux

package faults

import (
	"math"
	"net/http"
	"time"
)

// redisNetworkScenarios returns the scenarios in which the network to Redis is slow or resets connections.
func redisNetworkScenarios() []scenario {
	return []scenario{
		{name: "Redis slow by 2 s", long: true, checksResources: true, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("Redis slow", func() {
					for _, s := range env.Shops {
						s.ToRedis.Delay(2 * time.Second)
					}
					c.Wait(5 * time.Second)
					env.healRedis()
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 40, 0.9, time.Second) }},
		{name: "connections to Redis reset every 200 ms", long: true, crowd: amplePlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(20)
				env.Inject("connections reset", func() {
					for range 20 {
						for _, s := range env.Shops { // each reply is lost, and its connection reset
							s.ToRedis.Lose("", math.MaxInt)
						}
						c.Wait(20 * time.Millisecond)
						env.healRedis()
						c.Wait(180 * time.Millisecond)
					}
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkResponseTimes(c, 40, 0.9, time.Second) }},
	}
}

// checkResponseTimes checks that a share of the buys during the fault is answered within a limit. Each buy must get a
// ticket or an order, or a refusal with Retry-After. A number of buys is needed, or the check proves nothing.
func (env *Environment) checkResponseTimes(c *Crowd, least int, share float64, limit time.Duration) {
	buys := env.duringFaults(c.ledger.filter(ofKind("buy")))
	if len(buys) < least {
		env.TooLittle("only %d buys during the fault", len(buys))
	}
	if p := quantile(latencies(buys), share); p > limit {
		env.Late("I10: during the fault %.0f%% of the buys took up to %v", 100*share, p)
	}
	for _, resp := range buys {
		switch {
		case resp.gaveUp():
			env.Late("I10: during the fault a buy had no reply in %v", formatBound(resp.Took))
		case resp.Status == http.StatusServiceUnavailable && resp.RetryAfter > 0, resp.Status == http.StatusAccepted:
		default:
			env.Report("I10: during the fault a buy got %d %s %s, Retry-After %v", resp.Status, resp.Code, resp.Data.State, resp.RetryAfter)
		}
	}
}
