//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
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
						c.waitReplies("the process had no queue", func(resp response) bool {
							return resp.Shop == 0 && resp.Kind == "buy" && resp.Data.State == "queued"
						})
						if env.Shops[0].termThenKill(500 * time.Millisecond) {
							env.TooLittle("the process exited before it was killed")
						}
					})
					env.restart(0)
				})
			},
			after: func(env *Environment, c *Crowd) {
				if env.scrapeAll(); env.total("miaosha_tickets_claimed_total") == 0 {
					env.TooLittle("no ticket was left in the journal: the kill came too late")
				}
			}},
		{name: "killed twenty times", detail: "the only process; its tickets settle within 1 s after its restart", long: true,
			setup: setup{shops: 1}, crowd: killsPlan,
			run: func(env *Environment, c *Crowd) { env.killOften(c, 20, settledBound) }},
		{name: "one of two killed twenty times", detail: "its tickets settle within 1 s after its death", long: true, crowd: killsPlan,
			run: func(env *Environment, c *Crowd) { env.killOften(c, 20, settledBound) }},
		{name: threeMachines, detail: "only its silence tells; its tickets settle within 8 s after its death",
			long: true, setup: setup{shops: 3, machines: true}, run: killMachines,
			crowd: plan{buyers: 800, units: 900, span: 80 * time.Second, twice: 20, cached: true, limit: 120 * time.Second}},
		{name: "a process stopped for 12 s", detail: "another settles its tickets, and then it goes on", long: true, silent: true, run: stopProcess,
			crowd: plan{buyers: 400, units: 500, span: 18 * time.Second, twice: 20, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, cached: true, limit: 60 * time.Second}},
		{name: "a clock five minutes ahead", detail: "in one process of two", long: true,
			setup: setup{clockAhead: true, env: []string{"MIAOSHA_PAY_WITHIN=4m"}}, crowd: defaultPlan},
	}
}

// killsPlan is a crowd that comes for as long as killOften takes.
var killsPlan = plan{buyers: 600, units: 700, span: 50 * time.Second, twice: 20, cached: true, limit: 90 * time.Second}

const (
	threeMachines = "one of three machines killed six times"

	settledBound = time.Second     // for the tickets of a dead process, if another runs on its machine
	machineBound = 8 * time.Second // if not: its beat is quiet for 5 s, as others see it, who beat and look each second
)

// killOften kills the first shop again and again while tickets are queued, and restarts it. It checks how long the tickets wait
// for their results from the moment on in which another process may know of the death.
func (env *Environment) killOften(c *Crowd, kills int, bound time.Duration) {
	late, err := env.newBuyers(kills, env.Sale)
	if err != nil {
		env.T.Error(err)
		return
	}
	c.WaitSold(10)
	var took []time.Duration
	env.Inject("killed again and again", func() {
		for len(took) < kills {
			b, queued := late[len(took)], false
			env.lockSale(func() { // so that the ticket of this buyer is queued, and others
				queued = sandboxtest.Poll(func() bool {
					return c.ledger.request(env.Shops[0], b.ID, b.Token, "late buy", "POST", env.salePath()+"/buy/"+b.Path, "").Data.State == "queued"
				})
				env.Shops[0].Kill()
			})
			if !queued {
				env.Report("I4: buyer %d never had a ticket", b.ID)
			}
			since := time.Now()
			if len(env.Shops) == 1 {
				env.restart(0)
			}
			known := time.Now()
			settled := sandboxtest.Poll(func() bool {
				g, err := env.readGate(context.Background())
				return err == nil && (len(g.tickets) == 0 || g.oldest.After(since))
			})
			took = append(took, time.Since(known))
			if !settled {
				env.Report("I4: the tickets of a killed process wait for %v", sandboxtest.Hang)
				return
			}
			if len(env.Shops) > 1 {
				env.restart(0)
			}
		}
	})
	slices.Sort(took)
	env.T.Logf("tickets of a dead process waited: p50 %v, max %v", quantile(took, 0.5), took[len(took)-1])
	if longest := took[len(took)-1]; longest > bound {
		env.Late("I4: the tickets of a dead process wait for %v", formatBound(longest))
	}
}

// killMachines is killOften for processes of which no other one can prove the death. One time more, the sale stays locked until the
// entries of the dead process have a new owner: each is counted once.
func killMachines(env *Environment, c *Crowd) {
	env.killOften(c, 6, machineBound)
	env.Inject("killed, and the sale locked", func() {
		env.lockSale(func() {
			of := env.Shops[0].owns()
			left := env.waitEntries(c, of)
			env.Shops[0].Kill()
			left = append(left, env.entriesOf(of)...)
			if !env.within(machineBound, "I4: the entries of a dead process had a new owner", func() bool { return len(env.entriesOf(of)) == 0 }) {
				env.Report("I4: the entries of a dead process have no other owner after %v", sandboxtest.Hang)
			}
			g, err := env.readGate(context.Background())
			if err != nil {
				env.T.Error(err)
			}
			for _, entry := range left {
				if n := g.owners[entry].n; n != 2 {
					env.Report("I4: an entry of a dead process has had %d owners, want 2", n)
				}
			}
		})
		env.restart(0)
	})
}

// stopProcess stops a process that has tickets, for much longer than the silence that means a death.
func stopProcess(env *Environment, c *Crowd) {
	c.WaitSold(40)
	env.Inject("a process stopped", func() {
		began, s, left := time.Now(), env.Shops[0], []string(nil)
		env.lockSale(func() {
			left = env.waitEntries(c, s.owns())
			s.signal(syscall.SIGSTOP)
			c.Wait(2 * time.Second) // Postgres ends its waits for the lock, or it would get the lock and keep it
		})
		env.checkSettled("a stopped process", left, machineBound)
		c.Wait(12*time.Second - time.Since(began))
		s.signal(syscall.SIGCONT)
	})
}

// waitEntries waits until there are such entries in the journal, and returns them.
func (env *Environment) waitEntries(c *Crowd, of func(owner) bool) (entries []string) {
	sandboxtest.Poll(func() bool { entries = env.entriesOf(of); return len(entries) > 0 || c.isOver() })
	if len(entries) == 0 {
		env.TooLittle("the process had no entry in the journal")
	}
	return entries
}

// entriesOf returns the entries of the journal whose owner is so.
func (env *Environment) entriesOf(is func(owner) bool) (entries []string) {
	g, err := env.readGate(context.Background())
	if err != nil {
		return nil
	}
	for entry, owner := range g.owners {
		if is(owner) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// checkSettled checks how long it takes until these entries have left the journal.
func (env *Environment) checkSettled(of string, entries []string, bound time.Duration) {
	began := time.Now()
	if !env.within(bound, "I4: the tickets of "+of+" were settled", func() bool {
		g, err := env.readGate(context.Background())
		return err == nil && !slices.ContainsFunc(entries, func(entry string) bool { _, waits := g.owners[entry]; return waits })
	}) {
		env.Report("I4: tickets of %s are in the journal after %v", of, sandboxtest.Hang)
	}
	env.T.Logf("%d entries of %s were settled after %v", len(entries), of, time.Since(began).Round(time.Millisecond))
}

// owns tells which owner is the process that the shop runs now.
func (s *Shop) owns() func(owner) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := fmt.Sprintf("-%d-", s.p.cmd.Process.Pid)
	return func(o owner) bool { return strings.Contains(o.process, name) }
}

// termThenKill sends SIGTERM to a shop and kills it some time after that. It reports whether the shop had exited by then.
func (s *Shop) termThenKill(after time.Duration) (exited bool) {
	s.env.scrape() // the process takes its counters with it
	s.mu.Lock()
	p := s.p
	s.stopped, s.open = p, false
	s.mu.Unlock()
	p.Signal(syscall.SIGTERM)
	time.Sleep(after)
	exited = p.Ended()
	s.Kill()
	return exited
}
