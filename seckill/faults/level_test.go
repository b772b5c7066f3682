//go:build faults && linux

package faults

import (
	"fmt"
	"time"
)

const (
	moreGoroutines = 40       // that may stay: connections of the pools and of the last askers
	moreMemory     = 64 << 20 // bytes of the heap
	backWithin     = 10 * time.Second
)

// level is how many goroutines, and how much heap, each shop has.
type level map[int][2]float64

func (w *World) level() level {
	l := level{}
	for _, s := range w.Shops {
		if m, err := s.metrics(); err == nil {
			l[s.n] = [2]float64{m["go_goroutines"], m["go_memstats_heap_inuse_bytes"]}
		}
	}
	return l
}

// comesBack holds I10: at most 10 s after the end goroutines and memory are where they were. The crowd has gone, and
// hung up.
func (w *World) comesBack(c *Crowd, before level) {
	c.ledger.client.CloseIdleConnections()
	var high string
	if err := until(backWithin, "the level of before", func() bool {
		high = ""
		now := w.level()
		for n, b := range before {
			if a, ok := now[n]; !ok || a[0] > b[0]+moreGoroutines || a[1] > b[1]+moreMemory {
				high += fmt.Sprintf(" shop %d: %.0f goroutines, were %.0f; %.0f MB of heap, were %.0f.", n, a[0], b[0], a[1]/1e6, b[1]/1e6)
			}
		}
		return high == ""
	}); err != nil {
		w.Violate("I10: %v after the end it is not back:%s", backWithin, high)
	}
}
