//go:build faults && linux

package faults

import (
	"flag"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

// scenario is one row of the results.
type scenario struct {
	name            string
	detail          string // shown after the name in the results
	long            bool   // not in the short run
	realRedis       bool   // kills, stops or restarts Redis: skipped on the embedded Redis
	program         string // the scenario needs it: skipped where it is not installed, but not in CI
	losesData       bool   // Redis loses data: a ticket may be lost, and then a second request is safe
	gateless        bool   // there is no gate to check
	poison          bool   // there are tickets that cannot be settled
	silent          bool   // a process stands still for so long that the others take it for dead
	exclusive       bool   // checks latencies, so no other scenario runs at the same time
	exhibition      bool   // a crowd that keeps the machine busy: no bound on times
	checksResources bool   // checks goroutines and memory 10 s after the end
	setup           setup
	crowd           plan
	prepare         func(*Environment) error   // prepares the sale before the crowd comes; nil for nothing
	run             func(*Environment, *Crowd) // injects faults while the crowd buys; nil for none
	after           func(*Environment, *Crowd) // additional checks when nothing changes any more
}

// TestFaults runs the scenarios.
func TestFaults(t *testing.T) {
	atOnce := min(2, int64(runtime.GOMAXPROCS(0)))
	slots := semaphore.NewWeighted(atOnce)
	t.Run("all", func(t *testing.T) {
		for i, sc := range scenarios() {
			t.Run(sc.name, func(t *testing.T) {
				if sc.long && testing.Short() {
					t.Skip("in the long run only")
				}
				t.Parallel()
				takes := int64(1)
				if sc.exclusive {
					takes = atOnce
				}
				if err := slots.Acquire(t.Context(), takes); err != nil {
					t.Fatal(err)
				}
				defer slots.Release(takes)
				v := repeat(t, sc.name, func(t testing.TB) verdict {
					v := runScenario(t, sc, build(t, ""), seed+uint64(i))
					for _, broken := range v.wrong() {
						t.Error(broken)
					}
					return v
				})
				if isStrict() && len(v.open()) > 0 {
					t.Errorf("inconclusive after %d runs: %s", runs, strings.Join(v.open(), "; "))
				}
				judged.add(sc.name, v, t.Failed())
			})
		}
	})
	if wholeRun() && !t.Failed() {
		if zero := unmoved(); len(zero) > 0 {
			t.Errorf("counters that are zero after all scenarios, so the run proved nothing about them: %v", zero)
		}
		if err := writeResults(); err != nil {
			t.Error(err)
		}
	}
	printResults(t)
}

// wholeRun reports whether every row is to be run, so that RESULTS.md is written.
func wholeRun() bool { return !testing.Short() && flag.Lookup("test.run").Value.String() == "" }

// runScenario runs one scenario from start to end and returns what it has found.
func runScenario(t testing.TB, sc scenario, binary string, seed uint64) verdict {
	t.Helper()
	if sc.realRedis {
		needRealRedis(t)
	}
	if sc.setup.nginx {
		needProgram(t, "nginx")
	}
	if sc.program != "" {
		needProgram(t, sc.program)
	}
	began := time.Now()
	env := newEnvironment(t, sc, binary, seed)
	ready := time.Since(began)
	if sc.prepare != nil {
		if err := sc.prepare(env); err != nil {
			t.Fatal(err)
		}
	}
	c, err := newCrowd(env, sc.crowd)
	if err != nil {
		t.Fatal(err)
	}
	usage := env.resourceUsage()
	o := &observer{env: env, c: c, faultsOver: make(chan struct{})}
	stop := make(chan struct{})
	others, err := startMeter()
	if err != nil {
		t.Fatal(err)
	}
	c.observers.Go(func() { o.run(stop) })
	c.start()
	if sc.run != nil {
		sc.run(env, c)
	}
	for c.phase < len(c.phases)-1 {
		c.nextPhase()
	}
	recovered := env.measureRecovery()
	close(o.faultsOver)
	c.all.Wait()
	if took := time.Since(c.came); took > c.plan.limit {
		env.Late("I4: the last buyer had a final state, and had used the order, only after %v", formatBound(took))
	}
	sale := env.checkFinalState(c)
	if all := time.Since(env.healthySince(c)); all > finalBound && !sc.exhibition {
		env.Late("I4: the last result was final only %v after the last fault", formatBound(all))
	}
	close(c.stop)
	close(stop)
	c.observers.Wait()
	env.checkResponses(c, o.samples)
	env.checkHistory(c, sale)
	if o.audits == 0 {
		env.TooLittle("no audit succeeded during the sale")
	}
	if sc.crowd.units < sc.crowd.buyers && sc.setup.payWithin == 0 && sale.Stock > 0 {
		env.Report("I5: %d units are left, and a buyer has none", sale.Stock)
	}
	if sc.after != nil {
		sc.after(env, c)
	}
	if sc.checksResources {
		env.checkResources(c, usage)
	}
	env.scrapeAll()
	env.addCounters(c, sale.Refunds)
	v := env.verdict()
	if v.outside, err = others.outside(); err != nil {
		t.Error(err)
	}
	addRow(env, c, recovered, v)
	t.Logf("ready in %v, all in %v, seed %d; others had %s of the processors", ready.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond), seed, formatShare(v.outside))
	return v
}
