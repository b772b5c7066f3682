//go:build faults && linux

package faults

import (
	"fmt"
	"io"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

const (
	extraGoroutines = 40       // that may stay: of connections of the pools and of the last requests
	extraMemory     = 64 << 20 // bytes of the heap that may stay
	resourceBound   = 10 * time.Second
)

// resourceUsage has the number of goroutines and the heap size of each shop.
type resourceUsage map[int][2]float64

func (env *Environment) resourceUsage() resourceUsage {
	l := resourceUsage{}
	for _, s := range env.Shops {
		if m, err := s.metrics(); err == nil {
			l[s.n] = [2]float64{m["go_goroutines"], m["go_memstats_heap_inuse_bytes"]}
		}
	}
	return l
}

// checkResources checks that goroutines and memory are back at their old level at most 10 s after the end (I10). What
// stays for a minute is a leak. The connections of the crowd are closed.
func (env *Environment) checkResources(c *Crowd, before resourceUsage) {
	var high string
	if !env.within(resourceBound, "I10: after the end the shops used as little as before", func() bool {
		c.ledger.client.CloseIdleConnections() // each time: a connection that is still dialed becomes idle later
		high = ""
		now := env.resourceUsage()
		for n, b := range before {
			if a, ok := now[n]; !ok || a[0] > b[0]+extraGoroutines || a[1] > b[1]+extraMemory {
				high += fmt.Sprintf(" shop %d: %.0f goroutines, were %.0f; %.0f MB of heap, were %.0f.", n, a[0], b[0], a[1]/1e6, b[1]/1e6)
			}
		}
		return high == ""
	}) {
		for _, s := range env.Shops {
			high += fmt.Sprintf("\nshop %d: %s", s.n, s.goroutines())
		}
		env.Report("I10: %v after the end the shops still use too much:%s", sandboxtest.Hang, high)
	}
}

// goroutines returns what the goroutines of a shop do: the stacks of its largest groups.
func (s *Shop) goroutines() string {
	resp, err := opsClient.Get("http://" + s.ops + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 6000)) // the largest groups come first
	if err != nil {
		return err.Error()
	}
	return string(b)
}
