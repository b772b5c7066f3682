//go:build faults && linux

package faults

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// scenarios returns every scenario.
func scenarios() []scenario {
	return slices.Concat(withoutFault(), cancelScenarios(), activityScenarios(), adminScenarios(), closeScenarios(), paymentScenarios(), journalScenarios(), failpointScenarios(),
		processScenarios(), redisOutageScenarios(), redisDataLossScenarios(), redisNetworkScenarios(), redisFullScenarios(),
		redisLostReplyScenarios(), redisClusterScenarios(), redisSentinelScenarios(), rushScenarios(), sessionScenarios(), postgresScenarios(),
		standbyScenarios(), pgBouncerScenarios(), postgresFullScenarios(), constraintScenarios(), postgresSnapshotScenarios(), suspendedScenarios(),
		openFilesScenarios(), nginxScenarios(), everywhereScenarios(), formerScenarios(), attackerScenarios())
}

func needRealRedis(t testing.TB) {
	t.Helper()
	if sandboxtest.Kind() != sandbox.Server {
		t.Skip("kills, stops or restarts Redis: needs a Redis server")
	}
}

// findProgram returns the path of an installed program. Those that only root runs by hand may be outside a user's PATH.
func findProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return exec.LookPath("/usr/sbin/" + name)
	}
	return path, nil
}

func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := findProgram(name); err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: %v", name, err)
	} else if err != nil {
		t.Skipf("%s is not installed", name)
	}
}

// withoutFault returns the scenarios in which nothing is broken: "none" is the baseline for the others.
func withoutFault() []scenario {
	return []scenario{
		{name: "none", setup: setup{startsIn: 5 * time.Minute}, crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) { env.openSale() },
			after: func(env *Environment, c *Crowd) {
				if p := quantile(resultWaits(c), 1); p > 5*time.Second {
					env.Late("I4: on a healthy system a result took %v", p)
				}
				early := c.ledger.filter(func(resp response) bool { return resp.Code == "not_started" })
				if len(early) == 0 {
					env.TooLittle("no buyer came before the start")
				}
			}},
		{name: "a crowd without a gate", gateless: true, setup: setup{env: []string{"MIAOSHA_GATE=off"}},
			crowd: plan{buyers: 300, units: 200, span: 50 * time.Millisecond, twice: 80, limit: 30 * time.Second}},
	}
}
