//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// rushScenarios returns the scenario in which everything suggests that a process has died, and none has.
func rushScenarios() []scenario {
	return []scenario{
		{name: tenMinutes, detail: "3 processes, one on one processor; the sale locked for 8 s at a time; Redis fails over to a clock that is 2 s ahead, and back, or is away for 7 s",
			long: true, realRedis: true, program: "cc", losesData: true, exclusive: true, exhibition: true,
			setup: setup{shops: 3, sentinel: true, machines: true, ahead: true, oneProcessor: true}, run: rushOnABusyMachine, after: checkNoneRejected,
			crowd: plan{buyers: 6000, units: 7000, span: 10 * time.Minute, twice: 20, pays: 40, cancels: 5,
				payAfter: 300 * time.Millisecond, limit: 12 * time.Minute}},
	}
}

const tenMinutes = "ten minutes of rush beside busy loops"

// shortRush is enough for a mutant.
func shortRush(p *plan) { p.buyers, p.span = 1000, 50*time.Second }

// rushOnABusyMachine locks the sale again and again, so that tickets are older than a silence that means a death. Their owners live:
// no process may take them over, which the observer checks.
func rushOnABusyMachine(env *Environment, c *Crowd) {
	defer env.loop(2 * runtime.NumCPU())()
	c.WaitSold(20)
	for n := 0; int(c.arrived.Load()) < len(c.buyers) && c.running(); n++ {
		c.Wait(5 * time.Second)
		env.Inject("the sale locked", func() {
			env.lockSale(func() {
				c.Wait(time.Second)
				switch n % 3 {
				case 0:
					env.failOverByClock()
				case 1:
					env.stopRedis(7 * time.Second)
				}
				c.Wait(7 * time.Second)
			})
		})
	}
}

// stopRedis lets every Redis stand still for a time.
func (env *Environment) stopRedis(d time.Duration) {
	env.Inject("Redis away", func() {
		for _, r := range env.group.nodes {
			r.Stop()
			defer r.Continue()
		}
		time.Sleep(d)
	})
}

// failOverByClock kills the master, and starts it again as the replica of the other one, whose clock shows another time.
func (env *Environment) failOverByClock() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*sandboxtest.Hang)
	defer cancel()
	master, replica := env.masterAndReplica()
	before, err := env.group.of(master).Time(ctx).Result()
	after, failed := env.group.of(replica).Time(ctx).Result()
	if apart := after.Sub(before).Abs(); err != nil || failed != nil || apart < redisAhead/2 {
		env.T.Errorf("the clocks of the master and its replica are %v apart: %v, %v", apart, err, failed)
	}
	env.failOver(master, replica)
	env.restartNode(master)
	if !sandboxtest.Poll(func() bool { return env.group.replication(ctx, master, "master_link_status") == "up" }) {
		env.T.Error("the former master never became a replica")
	}
}

// loop keeps n processors busy until stop is called.
func (env *Environment) loop(n int) (stop func()) {
	var loops []*process
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		p, err := startProcess(cmd)
		if err != nil {
			env.T.Error(err)
			continue
		}
		loops = append(loops, p)
	}
	return func() {
		for _, p := range loops {
			p.End(syscall.SIGKILL, sandboxtest.Hang)
		}
	}
}

// checkNoneRejected checks that each accepted ticket has a result, and that none was given up.
func checkNoneRejected(env *Environment, c *Crowd) {
	env.checkTicketsKept(c)
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	if n, err := env.rdb.XLen(ctx, env.key("dead")).Result(); err != nil || n > 0 {
		env.Report("I4: there are %d dead letters: %v", n, err)
	}
}

// redisAhead is how far the clock of a Redis may be ahead of the others.
const redisAhead = 2 * time.Second

// clockOfRedis builds a library that sets the clock of a program ahead by redisAhead: its functions stand before those of the system.
var clockOfRedis = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(shared.dir, "ahead.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-O2", "-x", "c", "-o", path, "-")
	cmd.Stdin = strings.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a clock for Redis: %w: %s", err, out)
	}
	return path, nil
})

const clockSource = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *t) {
	int (*system)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	int failed = system(clock, t);
	if (!failed && clock == CLOCK_REALTIME) t->tv_sec += 2;
	return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec, t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}
`
