//go:build faults && linux

package faults

import (
	"syscall"
	"time"
)

// suspendedScenarios returns the scenarios in which every process stands still, as on a machine that is suspended.
func suspendedScenarios() []scenario {
	// A request that hangs is given up after 15 s, so each buyer who came during the fault tries at least twice.
	crowd := plan{buyers: 300, units: 400, span: 37 * time.Second, twice: 20, pays: 40, cancels: 5,
		payAfter: 300 * time.Millisecond, limit: 60 * time.Second}
	return []scenario{
		{name: "everything stopped for 30 s", detail: "the shops, Redis and every process of Postgres", long: true, realRedis: true,
			crowd: crowd, run: stopEverything, after: checkStopped},
		{name: "everything stopped for 30 s, with a wrong clock", detail: "five minutes ahead, in one process of two", long: true, realRedis: true,
			setup: setup{clockAhead: true, env: []string{"MIAOSHA_PAY_WITHIN=4m"}}, crowd: crowd, run: stopEverything, after: checkStopped},
	}
}

// stopEverything stops all processes for 30 s in the middle of the sale.
func stopEverything(env *Environment, c *Crowd) {
	c.WaitSold(20)
	env.Inject("everything stopped", func() {
		first := env.DB.cmd.Process.Pid
		send := func(sig syscall.Signal) {
			for _, s := range env.Shops {
				s.signal(sig)
			}
			env.Redis.Signal(sig)
			env.DB.Signal(sig) // before its children are listed, so that there is no new one
			for _, pid := range env.childrenOf(first) {
				if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
					env.T.Errorf("send %v to a backend: %v", sig, err)
				}
			}
		}
		send(syscall.SIGSTOP)
		c.Wait(30 * time.Second)
		send(syscall.SIGCONT)
	})
}

// signal sends a signal to the shop's process.
func (s *Shop) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.p.Signal(sig)
}

// checkStopped checks that no reply came while everything was stopped, and that buyers got orders soon after it.
func checkStopped(env *Environment, c *Crowd) {
	faults, _ := env.injected()
	begin, end := faults[0].begin, faults[0].end
	hung, orders := 0, 0
	for _, resp := range c.ledger.filter(ofKind("buy", "result")) {
		switch at := resp.received(); {
		case at.After(begin.Add(time.Second)) && at.Before(end) && resp.Status != 0:
			env.TooLittle("a reply %v after everything was stopped: %d", at.Sub(begin), resp.Status)
		case at.After(begin) && at.Before(end):
			hung++
		case at.After(end) && at.Before(end.Add(5*time.Second)) && resp.Data.State == "ordered":
			orders++
		}
	}
	if hung < 50 {
		env.TooLittle("only %d requests hung", hung)
	}
	if orders < 50 {
		env.Late("I4: buyers were told of only %d orders in the five seconds after everything was stopped", orders)
	}
}
