//go:build faults && linux

package faults

import (
	"syscall"
	"time"
)

// processScenarios returns the scenarios that kill whole processes, or give one a wrong clock.
func processScenarios() []scenario {
	return []scenario{
		{name: "both processes killed and started", crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(40)
				env.Inject("both killed", func() {
					for _, s := range env.Shops {
						s.Kill()
					}
					for n := range env.Shops {
						env.restart(n)
					}
				})
			}},
		{name: "SIGTERM under load, then kill -9", detail: "half a second later, before its queue is empty", crowd: defaultPlan,
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(40)
				env.Inject("SIGTERM and kill", func() {
					env.lockSale(func() { // so that the process cannot empty its queue
						c.Wait(300 * time.Millisecond)
						if env.Shops[0].termThenKill(500 * time.Millisecond) {
							env.T.Error("the process exited before it was killed")
						}
					})
					env.restart(0)
				})
			},
			after: func(env *Environment, c *Crowd) {
				env.scrape()
				if env.total("miaosha_tickets_claimed_total") == 0 {
					env.T.Error("no ticket was left in the journal: the kill came too late")
				}
			}},
		{name: "a clock five minutes ahead", detail: "in one process of two", long: true,
			setup: setup{clockAhead: true, env: []string{"MIAOSHA_PAY_WITHIN=4m"}}, crowd: defaultPlan},
	}
}

// termThenKill sends SIGTERM to a shop and kills it some time after that. It reports whether the shop had exited by then.
func (s *Shop) termThenKill(after time.Duration) (exited bool) {
	s.env.scrape() // the process takes its counters with it
	s.mu.Lock()
	s.ending, s.open = true, false
	p := s.p
	s.mu.Unlock()
	p.Signal(syscall.SIGTERM)
	time.Sleep(after)
	exited = p.Ended()
	s.Kill()
	return exited
}
