//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// fault is an injected fault. end is zero while it lasts.
type fault struct {
	name       string
	begin, end time.Time
}

// Inject records a fault that lasts as long as do runs.
func (env *Environment) Inject(what string, do func()) {
	env.mu.Lock()
	i := len(env.faults)
	env.faults = append(env.faults, fault{name: what, begin: time.Now()})
	env.mu.Unlock()
	do()
	env.mu.Lock()
	env.faults[i].end = time.Now()
	env.mu.Unlock()
}

// Report records a broken invariant: "I3: what is wrong". It keeps the first five of each format.
func (env *Environment) Report(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.reported[format]++; env.reported[format] <= 5 && !slices.Contains(env.violations, text) {
		env.violations = append(env.violations, text)
	}
}

// Violations returns the broken invariants so far.
func (env *Environment) Violations() []string {
	env.mu.Lock()
	defer env.mu.Unlock()
	return slices.Clone(env.violations)
}

func (env *Environment) markKilled(point string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.killed[point] = true
}

// WaitKilled waits until a shop was killed at a failpoint and runs again. A failpoint that no process passes proves nothing.
func (env *Environment) WaitKilled(point string, limit time.Duration) {
	if !sandboxtest.PollFor(limit, func() bool { return env.wasKilled(point) }) {
		env.T.Errorf("no shop was killed at %s and restarted in %v", point, limit)
	}
}

// injected returns the faults so far and the end of the last one: the zero time if there was no fault, or if one lasts.
func (env *Environment) injected() (all []fault, ended time.Time) {
	env.mu.Lock()
	defer env.mu.Unlock()
	all = slices.Clone(env.faults)
	for _, s := range all {
		if s.end.IsZero() {
			return all, time.Time{}
		}
		if s.end.After(ended) {
			ended = s.end
		}
	}
	return all, ended
}

// healthySince returns the end of the last fault, or the start of the crowd if there was no fault.
func (env *Environment) healthySince(c *Crowd) time.Time {
	if _, ended := env.injected(); !ended.IsZero() {
		return ended
	}
	return c.started
}

// flush deletes all data of Redis.
func (env *Environment) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := env.rdb.FlushAll(ctx).Err(); err != nil {
		env.T.Errorf("FLUSHALL: %v", err)
	}
}

// restart starts a shop that has exited.
func (env *Environment) restart(n int) {
	if err := env.Shops[n].Start(""); err != nil {
		env.Report("I10: a shop cannot be restarted: %v", err)
	}
}

func (env *Environment) wasKilled(point string) bool {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.killed[point]
}
