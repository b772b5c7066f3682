//go:build faults && linux

package faults

import (
	"fmt"
	"strings"
	"time"
)

// points kills a process as it passes each failpoint in the middle of a sale.
func points() (all []scenario) {
	some := func(n uint64) string { return fmt.Sprint("@", 8+(seed+n)%8) } // not the first pass, and one that there is on a slow machine too
	for _, p := range []struct {
		point, at, what string
		long            bool
		setup           setup
		crowd           plan
		run             func(*World, *Crowd)
	}{
		{point: "F1", at: "@20", what: "admitted, before the script"},
		{point: "F2", at: "@25", what: "after the script, before the answer"},
		{point: "F3", at: some(0), what: "before BEGIN"},
		{point: "F4", at: some(1), what: "before COMMIT"},
		{point: "F5", at: some(2), what: "after COMMIT, before the gate is told"},
		{point: "F6", at: some(3), what: "between a batch and the next"},
		{point: "F7", at: "@2", what: "the sweeper after its COMMIT", setup: setup{payWithin: 2 * time.Second}},
		{point: "F8", at: "@10", what: "after the capture, before COMMIT"},
		{point: "F9", at: "@2", what: "rebuild after install, before COMMIT", run: func(w *World, c *Crowd) {
			for n := 1; n < 20 && !w.hasFired("F9"); n++ {
				c.Sold(n * 5)
				w.Strike("FLUSHALL", func() { w.flush() })
				c.For(100 * time.Millisecond)
			}
		}},
		{point: "F10", at: "", what: "as it drains its queue", run: func(w *World, c *Crowd) {
			c.Sold(40)
			w.Strike("SIGTERM and kill", func() {
				if code := w.Shops[0].Term(); code != -1 {
					w.T.Errorf("exit code %d, want a kill", code)
				}
				w.restart(0)
			})
		}},
	} {
		sc := scenario{name: "kill -9 at " + p.point, detail: p.what, long: p.long, setup: p.setup, crowd: usual, run: p.run}
		sc.setup.points = p.point + "=kill" + p.at
		if p.point == "F9" {
			sc.mayLose, sc.setup.sessionsApart = true, true
		}
		run := sc.run
		sc.run = func(w *World, c *Crowd) {
			if run != nil {
				run(w, c)
			}
			w.Fired(p.point, 20*time.Second)
		}
		all = append(all, sc)
	}
	return append(all, scenario{name: "errors, lost calls and pauses at every failpoint", detail: "of both processes, which are then restarted in turn",
		setup: setup{points: harmless, pointsOfAll: true, payWithin: 2 * time.Second}, crowd: usual,
		run: func(w *World, c *Crowd) {
			w.Strike("failpoints", func() {
				c.Sold(60)
				w.acted("F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9")
				for n, s := range w.Shops {
					if code := s.Term(); code != 0 {
						w.Violate("I10: shop %d ended with exit code %d", n, code)
					}
					w.restart(n)
				}
			})
			w.acted("F10")
		}})
}

// harmless arms every point with what a process survives: its stores fail, what it says to the gate is lost, it is slow.
const harmless = "F1=error%10;F2=drop%20;F3=error%25;F4=sleep:50ms%25;F5=drop%20;F6=sleep:100ms%20;F7=error*2;F8=error*3;F9=error*1;" +
	"F10=sleep:200ms"

// acted waits until each of the points has acted in some shop.
func (w *World) acted(points ...string) {
	for _, p := range points {
		if err := until(15*time.Second, p+" acts", func() bool {
			for _, s := range w.Shops {
				if strings.Contains(s.Log.String(), "failpoint "+p+": ") {
					return true
				}
			}
			return false
		}); err != nil {
			w.T.Error(err)
		}
	}
}
