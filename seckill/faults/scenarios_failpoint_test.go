//go:build faults && linux

package faults

import (
	"fmt"
	"strings"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// failpointScenarios returns the scenarios that kill a process at a failpoint in the middle of a sale, and one that
// disturbs it at every failpoint.
func failpointScenarios() (all []scenario) {
	some := func(n uint64) string { return fmt.Sprint("@", 8+(seed+n)%8) } // not the first pass, and few enough for a slow machine
	for _, p := range []struct {
		point, at, detail string
		long              bool
		setup             setup
		crowd             plan
		run               func(*Environment, *Crowd)
	}{
		{point: "BeforeReserve", at: some(4), detail: "admitted, before the script"},
		{point: "AfterReserve", at: some(5), detail: "after the script, before the reply"},
		{point: "BeforeBegin", at: some(0), detail: "before BEGIN"},
		{point: "BeforeCommit", at: some(1), detail: "before COMMIT"},
		{point: "BeforeAck", at: some(2), detail: "after COMMIT, before the ack at the gate"},
		{point: "AfterAck", at: some(3), detail: "between two batches"},
		{point: "AfterExpire", at: "@2", detail: "the sweeper after its COMMIT", setup: setup{payWithin: 2 * time.Second}},
		{point: "BeforeCaptureCommit", at: "@5", detail: "after the capture, before COMMIT"},
		{point: "BeforeInstallCommit", at: "@2", detail: "rebuild after install, before COMMIT", run: func(env *Environment, c *Crowd) {
			for n := 1; n < 20 && !env.wasKilled("BeforeInstallCommit"); n++ {
				c.WaitSold(n * 5)
				env.Inject("FLUSHALL", func() { env.flush() })
				// On a busy machine a rebuild takes longer than the pause, and its gate would be gone before it is installed.
				sandboxtest.PollFor(2*time.Second, func() bool {
					_, err := env.readGate(env.T.Context())
					return err == nil || env.wasKilled("BeforeInstallCommit")
				})
				c.Wait(100 * time.Millisecond)
			}
		}},
		{point: "BeforeDrain", at: "", detail: "as it drains its queue", run: func(env *Environment, c *Crowd) {
			c.WaitSold(40)
			env.Inject("SIGTERM and kill", func() {
				if code := env.Shops[0].Term(); code != -1 {
					env.T.Errorf("exit code %d, want a kill", code)
				}
				env.restart(0)
			})
		}},
	} {
		sc := scenario{name: "kill -9 at " + p.point, detail: p.detail, long: p.long, setup: p.setup, crowd: defaultPlan, run: p.run}
		sc.setup.failpoints = p.point + "=kill" + p.at
		if p.point == "BeforeInstallCommit" {
			sc.losesData, sc.setup.separateSessions = true, true
		}
		run := sc.run
		sc.run = func(env *Environment, c *Crowd) {
			if run != nil {
				run(env, c)
			}
			env.WaitKilled(p.point)
		}
		all = append(all, sc)
	}
	return append(all, scenario{name: "errors, lost calls and pauses at every failpoint",
		detail: "in both processes, which are then restarted in turn",
		setup:  setup{failpoints: survivable, failpointsEverywhere: true, payWithin: 2 * time.Second}, crowd: defaultPlan,
		run: func(env *Environment, c *Crowd) {
			env.Inject("failpoints", func() {
				c.WaitSold(60)
				env.waitActed("BeforeReserve", "AfterReserve", "BeforeBegin", "BeforeCommit", "BeforeAck", "AfterAck", "AfterExpire",
					"BeforeCaptureCommit", "BeforeInstallCommit")
				for n, s := range env.Shops {
					if code := s.Term(); code != 0 {
						env.Report("I10: shop %d ended with exit code %d", n, code)
					}
					env.restart(n)
				}
			})
			env.waitActed("BeforeDrain")
		}})
}

// survivable arms every failpoint with something that a process survives: an error of a store, a lost call, a pause.
const survivable = "BeforeReserve=error%10;AfterReserve=drop%20;BeforeBegin=error%25;BeforeCommit=sleep:50ms%25;" +
	"BeforeAck=drop%20;AfterAck=sleep:100ms%20;AfterExpire=error*2;BeforeCaptureCommit=error*3;" +
	"BeforeInstallCommit=error*1;BeforeDrain=sleep:200ms"

// waitActed waits until each of the failpoints has acted in some shop.
func (env *Environment) waitActed(points ...string) {
	for _, p := range points {
		if !sandboxtest.Poll(func() bool {
			for _, s := range env.Shops {
				if strings.Contains(s.Log.String(), "failpoint "+p+": ") {
					return true
				}
			}
			return false
		}) {
			env.TooLittle("failpoint %s did not act", p)
		}
	}
}
