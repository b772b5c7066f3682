//go:build faults && linux

package faults

import (
	"fmt"
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
	return all
}
