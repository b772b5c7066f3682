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

// Report records a broken truth: "I3: what is wrong". It is wrong on any machine, also a slow one.
func (env *Environment) Report(format string, args ...any) {
	env.record(&env.found.truths, format, args)
}

// Late records a bound on time that was missed, with the invariant that it belongs to and the figure: "I6: the gate was
// right only 1.2s after the last fault". On a machine that others use it proves nothing.
func (env *Environment) Late(format string, args ...any) {
	env.record(&env.found.late, format, args)
}

// TooLittle records what the row needed and did not reach: so many requests, or the moment that it is about.
func (env *Environment) TooLittle(format string, args ...any) {
	env.record(&env.found.little, format, args)
}

// record keeps the first five findings of each format.
func (env *Environment) record(in *[]string, format string, args []any) {
	text := fmt.Sprintf(format, args...)
	env.mu.Lock()
	defer env.mu.Unlock()
	if env.reported[format]++; env.reported[format] <= 5 && !slices.Contains(*in, text) {
		*in = append(*in, text)
	}
}

// verdict returns the findings so far.
func (env *Environment) verdict() verdict {
	env.mu.Lock()
	defer env.mu.Unlock()
	v := env.found
	v.truths, v.late, v.little = slices.Clone(v.truths), slices.Clone(v.late), slices.Clone(v.little)
	return v
}

// longest returns how long the suite waits before it takes something for what never happens: a minute, or only as long
// as the bound if a truth is broken already.
func (env *Environment) longest(bound time.Duration) time.Duration {
	if len(env.verdict().truths) > 0 {
		return bound
	}
	return sandboxtest.Hang
}

// within waits until ok returns true. A wait longer than the bound is recorded as late: what, with the figure. It reports
// false, which is a truth to report, if nothing came of it in a minute, sixty times as long as most bounds.
func (env *Environment) within(bound time.Duration, what string, ok func() bool) bool {
	began := time.Now()
	if !sandboxtest.PollFor(env.longest(bound), ok) {
		return false
	}
	if took := time.Since(began); took > bound {
		env.Late("%s only after %v", what, formatBound(took))
	}
	return true
}

func (env *Environment) markKilled(point string) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.killed[point] = true
}

// WaitKilled waits until a shop was killed at a failpoint and runs again. A failpoint that no process passes proves nothing.
func (env *Environment) WaitKilled(point string) {
	if !sandboxtest.Poll(func() bool { return env.wasKilled(point) }) {
		env.TooLittle("no shop was killed at %s and restarted", point)
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
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
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
