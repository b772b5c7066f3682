//go:build faults && linux

package faults

import (
	"context"
	"strings"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// formerScenarios returns the scenario in which a process of a former version sells beside one of this version, as
// deploy/README.md describes it.
func formerScenarios() []scenario {
	return []scenario{
		{name: "a former version beside this one", detail: "this one joins in the sale and upgrades the schema; the former is killed, and cannot start again",
			long: true, realRedis: true, program: "xz", setup: setup{former: true},
			crowd: plan{buyers: 300, units: 400, span: 12 * time.Second, twice: 30, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, cached: true, limit: 60 * time.Second},
			run: replaceFormer},
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
	c.WaitSold(160)
	for _, key := range []string{"journal", "journal2"} {
		if n, err := env.rdb.XInfoStream(context.Background(), env.key(key)).Result(); err != nil || n.LastGeneratedID == "0-0" {
			env.T.Errorf("no ticket was granted in %s: %v", key, err)
		}
	}
	left := int64(0)
	env.Inject("the former killed", func() {
		env.lockSale(func() { // so that some of its tickets are queued
			for left == 0 && c.running() {
				left = env.rdb.XLen(context.Background(), env.key("journal")).Val()
				time.Sleep(time.Millisecond)
			}
			former.Kill()
		})
	})
	if !env.within(8*time.Second, "I4: the journal of the former version was empty", func() bool {
		n, err := env.rdb.XLen(context.Background(), env.key("journal")).Result()
		return err == nil && n == 0
	}) {
		env.Report("I4: tickets of the former version are in its journal %v after its end", sandboxtest.Hang)
	}
	if env.T.Logf("the former version left %d tickets", left); left == 0 {
		env.TooLittle("the former version had no ticket in its journal when it was killed")
	}
	if err := former.Start(""); err == nil || !strings.Contains(err.Error(), "use a newer miaosha") {
		env.T.Errorf("the former version starts on the newer schema: %v", err)
	}
}
