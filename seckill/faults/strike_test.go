//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// strike is a fault, from when to when; end is zero while it lasts.
type strike struct {
	what       string
	begin, end time.Time
}

// Strike does harm: do is the fault, from its begin to its end.
func (w *World) Strike(what string, do func()) {
	w.mu.Lock()
	i := len(w.strikes)
	w.strikes = append(w.strikes, strike{what: what, begin: time.Now()})
	w.mu.Unlock()
	do()
	w.mu.Lock()
	w.strikes[i].end = time.Now()
	w.mu.Unlock()
}

// Violate notes a broken invariant: "I3: what". Of one format the first five are kept.
func (w *World) Violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said[format]++; w.said[format] <= 5 && !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

// Broken lists the violations so far.
func (w *World) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

func (w *World) fire(point string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired[point] = true
}

// Fired waits until a shop was killed at a failpoint and is back. A point that nobody passes proves nothing.
func (w *World) Fired(point string, limit time.Duration) {
	if err := until(limit, "a shop is killed at "+point+" and comes back", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fired[point]
	}); err != nil {
		w.T.Error(err)
	}
}

// struck gives the strikes so far, and when the last one ended: the zero time if there were none or one lasts.
func (w *World) struck() (all []strike, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all = slices.Clone(w.strikes)
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

// ready is when the shop was whole again, or from the beginning, if nothing broke it.
func (w *World) ready(c *Crowd) time.Time {
	if _, ended := w.struck(); !ended.IsZero() {
		return ended
	}
	return c.began
}

// flush is FLUSHALL.
func (w *World) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.rdb.FlushAll(ctx).Err(); err != nil {
		w.T.Errorf("FLUSHALL: %v", err)
	}
}

// restart starts a shop that has ended.
func (w *World) restart(n int) {
	if err := w.Shops[n].Start(""); err != nil {
		w.Violate("I10: a shop can't be started again: %v", err)
	}
}

func (w *World) hasFired(point string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fired[point]
}
