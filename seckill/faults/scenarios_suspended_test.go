//go:build faults && linux

package faults

import (
	"slices"
	"strings"
	"syscall"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
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
		{name: "the reader of the gate stopped before it publishes", detail: "while a process without Redis sells directly",
			// The next reader comes to its own stop after the first one goes on.
			setup: setup{shops: 3, failpoints: "BeforePublish=stop@30*1", failpointsEverywhere: true}, crowd: amplePlan, run: stopReader},
	}
}

// stopReader waits until the reader of the sale's gate has stopped between its read and its publication, cuts another process from
// Redis, which sells directly, and lets the reader go on with what it had read.
func stopReader(env *Environment, c *Crowd) {
	reader := -1
	if !sandboxtest.Poll(func() bool {
		reader = slices.IndexFunc(env.Shops, func(s *Shop) bool { return strings.Contains(s.Log.String(), "failpoint BeforePublish: stop") })
		return reader >= 0
	}) {
		env.TooLittle("no reader of a gate has stopped")
		return
	}
	env.Inject("the reader stopped, and another process without Redis", func() {
		direct := env.Shops[(reader+1)%len(env.Shops)]
		direct.ToRedis.Cut()
		before := env.directOrders()
		if !sandboxtest.Poll(func() bool { return env.directOrders() > before+5 }) {
			env.TooLittle("too few orders without the gate")
		}
		env.Shops[reader].signal(syscall.SIGCONT)
		c.Wait(time.Second)
		for _, s := range env.Shops { // the next reader too
			s.signal(syscall.SIGCONT)
		}
		env.restore(direct.ToRedis)
	})
}

// directOrders counts the orders that were placed without the gate.
func (env *Environment) directOrders() (n int) {
	if err := env.pool.QueryRow(env.T.Context(), `select count(*) from orders where starts_with(ticket, 'direct:')`).Scan(&n); err != nil {
		env.T.Errorf("count the direct orders: %v", err)
	}
	return n
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
