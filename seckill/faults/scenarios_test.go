//go:build faults && linux

package faults

import (
	"slices"
	"testing"
	"time"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// scenarios is the matrix.
func scenarios() []scenario {
	return slices.Concat(calm(), people(), points(), processes(), redisAway(), redisLost(), redisSlow(),
		redisFull(), lostReplies(), postgresFaults())
}

func needRealRedis(t testing.TB) {
	t.Helper()
	if sandboxtest.Kind() != sandbox.Server {
		t.Skip("kills, stops or restarts Redis: needs a server")
	}
}

// calm breaks nothing: what holds here is what the others are measured by.
func calm() []scenario {
	return []scenario{{
		name: "none", setup: setup{startsIn: 2 * time.Second}, crowd: usual,
		after: func(w *World, c *Crowd) {
			if p := quantile(known(c), 1); p > 5*time.Second {
				w.Violate("I4: on a healthy system an outcome took %v", p)
			}
			early := c.ledger.all(func(a answer) bool { return a.Code == "not_started" })
			if len(early) == 0 {
				w.T.Error("nobody came before the start")
			}
		},
	}}
}
