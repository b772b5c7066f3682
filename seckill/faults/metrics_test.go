//go:build faults && linux

package faults

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// watched are the counters without which the long run proved nothing: each must have moved in some scenario. The sum over
// the labels that a name doesn't say.
var watched = []string{
	"miaosha_tickets_claimed_total", "miaosha_gate_rebuilds_total", `miaosha_gate_fixes_total{direction="up"}`,
	`miaosha_gate_fixes_total{direction="down"}`, "miaosha_settle_retries_total",
	`miaosha_tickets_settled_total{outcome="duplicate"}`, "miaosha_dead_letters_total", "miaosha_shed_total", "refunds",
}

// sums are the counters of all scenarios so far.
var sums struct {
	mu sync.Mutex
	of map[string]float64
}

var opsClient = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// scrape reads every open shop's metrics. The last reading of each life of a shop is kept: a killed one takes what it
// counted after it along.
func (w *World) scrape() {
	for _, s := range w.Shops {
		life, open := s.life()
		if !open {
			continue
		}
		read, err := s.metrics()
		if err != nil {
			continue // it is being killed, or is busy: the next time
		}
		w.mu.Lock()
		w.counters[life] = read
		w.mu.Unlock()
	}
}

// metrics gives a shop's metrics, with the labels in the name as it writes them.
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

// total sums one of the watched counters over the lives of all shops of this world.
func (w *World) total(name string) (sum float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, read := range w.counters {
		for has, v := range read {
			if has == name || strings.HasPrefix(has, name+"{") {
				sum += v
			}
		}
	}
	return sum
}

// addUp adds this world's counters to the sums.
func (w *World) addUp(refunds int) {
	sums.mu.Lock()
	defer sums.mu.Unlock()
	if sums.of == nil {
		sums.of = map[string]float64{}
	}
	for _, name := range watched {
		if name == "refunds" {
			sums.of[name] += float64(refunds)
		} else {
			sums.of[name] += w.total(name)
		}
	}
}

// never lists the watched counters that are still zero.
func never() (zero []string) {
	sums.mu.Lock()
	defer sums.mu.Unlock()
	for _, name := range watched {
		if sums.of[name] == 0 {
			zero = append(zero, name)
		}
	}
	return zero
}
