//go:build faults && linux

package faults

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// requiredCounters must each have increased in some scenario, or the long run proved nothing. A name without labels stands
// for the sum over its labels.
var requiredCounters = []string{
	"miaosha_tickets_claimed_total", "miaosha_gate_rebuilds_total", `miaosha_gate_fixes_total{direction="up"}`,
	`miaosha_gate_fixes_total{direction="down"}`, "miaosha_settle_retries_total",
	`miaosha_tickets_settled_total{outcome="duplicate"}`, "miaosha_dead_letters_total", "miaosha_shed_total", "refunds",
}

// totals has the counters of all scenarios so far.
var totals struct {
	mu sync.Mutex
	of map[string]float64
}

var opsClient = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// scrape reads the metrics of every open shop, and keeps the last values of each run. A killed shop loses the counts since
// its last scrape.
func (env *Environment) scrape() {
	for _, s := range env.Shops {
		run, open := s.currentRun()
		if !open {
			continue
		}
		read, err := s.metrics()
		if err != nil {
			continue // the shop is being killed or is busy; the next scrape reads it
		}
		env.mu.Lock()
		env.counters[run] = read
		env.mu.Unlock()
	}
}

// metrics returns the metrics of a shop. A name includes the labels as the shop writes them.
func (s *Shop) metrics() (map[string]float64, error) {
	resp, err := opsClient.Get("http://" + s.ops + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	read := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			read[name] = v
		}
	}
	return read, lines.Err()
}

// scrapeAll is scrape for the last values: it insists on those of every shop that is open.
func (env *Environment) scrapeAll() {
	for _, s := range env.Shops {
		sandboxtest.Poll(func() bool {
			run, open := s.currentRun()
			if !open {
				return true
			}
			read, err := s.metrics()
			if err != nil {
				return false
			}
			env.mu.Lock()
			env.counters[run] = read
			env.mu.Unlock()
			return true
		})
	}
}

// total returns the sum of a required counter over all runs of all shops.
func (env *Environment) total(name string) (sum float64) {
	env.mu.Lock()
	defer env.mu.Unlock()
	for _, read := range env.counters {
		for metric, v := range read {
			if metric == name || strings.HasPrefix(metric, name+"{") {
				sum += v
			}
		}
	}
	return sum
}

// addCounters adds the counters of this environment to the totals: the repairs, the outcomes of tickets, and the
// refusals that the crowd was told of.
func (env *Environment) addCounters(c *Crowd, refunds int) {
	counts := map[string]float64{"refunds": float64(refunds)}
	for _, name := range requiredCounters {
		if name != "refunds" {
			counts[name] = env.total(name)
		}
	}
	env.mu.Lock()
	for _, read := range env.counters {
		for metric, n := range read {
			if strings.HasPrefix(metric, settledCounter+"{") && !slices.Contains(requiredCounters, metric) {
				counts[metric] += n
			}
		}
	}
	env.mu.Unlock()
	for _, resp := range c.ledger.filter(func(resp response) bool { return resp.Status >= 400 }) {
		counts[fmt.Sprintf("refusal %d %s", resp.Status, resp.Code)]++
	}
	totals.mu.Lock()
	defer totals.mu.Unlock()
	if totals.of == nil {
		totals.of = map[string]float64{}
	}
	for name, n := range counts {
		totals.of[name] += n
	}
}

// settledCounter counts tickets by their outcome.
const settledCounter = "miaosha_tickets_settled_total"

// reachedCounts returns the totals so far.
func reachedCounts() map[string]float64 {
	totals.mu.Lock()
	defer totals.mu.Unlock()
	return maps.Clone(totals.of)
}

// sortedNames returns the names of counts: those that a whole run needs first, in their order.
func sortedNames(of map[string]float64) (names []string) {
	for _, name := range requiredCounters {
		if _, ok := of[name]; ok {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if !slices.Contains(requiredCounters, name) {
			names = append(names, name)
		}
	}
	return names
}

// unmoved returns the required counters that are still zero.
func unmoved() (zero []string) {
	totals.mu.Lock()
	defer totals.mu.Unlock()
	for _, name := range requiredCounters {
		if totals.of[name] == 0 {
			zero = append(zero, name)
		}
	}
	return zero
}
