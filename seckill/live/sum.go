package live

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	holdRate     = 3 * time.Second  // how long a process without news keeps its last rates
	missingAfter = 4 * time.Second  // a process that has written nothing for longer is missing
	latencyOver  = 10 * time.Second // the span of the latencies
	maxProcesses = 256              // whose counters are remembered, even when they have ended
)

// sums adds up the figures of all processes. A count of a process that is gone stays in the totals. A process that
// starts again has a new name and counts from 0, so no counter goes back.
type sums struct {
	processes map[string]*process
	latencies []latencies // of the last seconds
}

// process is what is known of a process, this one or another.
type process struct {
	figures
	heard time.Time // when its newest figures came
	rates map[int64]map[string]float64
}

type latencies struct {
	at                   time.Time
	buy, redis, postgres observed
}

// add takes the newest figures of a process. Rates are counts per second of the process's own monotonic clock, so
// neither a wrong clock nor a late reading changes them. A process that is seen for the first time has no rates, unless
// it has just begun.
func (s *sums) add(now time.Time, f figures, l *latencies) {
	p := s.processes[f.Name]
	if p == nil {
		p = &process{}
		s.processes[f.Name] = p
		if f.Up > holdRate {
			p.figures, p.heard = f, now
			return
		}
	}
	since := (f.Up - p.Up).Seconds()
	if since <= 0 {
		return // no news
	}
	rates := map[int64]map[string]float64{}
	for scope, counters := range f.Counters {
		rates[scope] = map[string]float64{}
		for name, n := range counters {
			if fresh := n - p.Counters[scope][name]; fresh > 0 {
				rates[scope][name] = float64(fresh) / since
			}
		}
	}
	l.buy.addSince(f.Buy, p.Buy)
	l.redis.addSince(f.Redis, p.Redis)
	l.postgres.addSince(f.Postgres, p.Postgres)
	p.figures, p.heard, p.rates = f, now, rates
}

// addAll takes the figures of one second.
func (s *sums) addAll(now time.Time, all []figures) {
	l := latencies{now, observed{}, observed{}, observed{}}
	for _, f := range all {
		s.add(now, f, &l)
	}
	s.latencies = append(s.latencies, l)
	s.latencies = slices.DeleteFunc(s.latencies, func(l latencies) bool { return now.Sub(l.at) >= latencyOver })
	if len(s.processes) > maxProcesses {
		silent := slices.SortedFunc(maps.Keys(s.processes),
			func(a, b string) int { return s.processes[a].heard.Compare(s.processes[b].heard) })
		for _, name := range silent[:len(silent)-maxProcesses] {
			delete(s.processes, name)
		}
	}
}

// total returns the counts of a scope since the processes began.
func (s *sums) total(scope int64) map[string]int64 {
	all := map[string]int64{}
	for _, p := range s.processes {
		for name, n := range p.Counters[scope] {
			all[name] += n
		}
	}
	return all
}

// rate returns the counts a second of a scope, of the processes that were heard lately.
func (s *sums) rate(now time.Time, scope int64) map[string]float64 {
	all := map[string]float64{}
	for _, p := range s.processes {
		if now.Sub(p.heard) < holdRate {
			for name, r := range p.rates[scope] {
				all[name] += r
			}
		}
	}
	return all
}

// oldest returns how long the ticket that was granted first has been waiting in a process that was heard lately.
func (s *sums) oldest(now time.Time) (waits time.Duration) {
	for _, p := range s.processes {
		if now.Sub(p.heard) < holdRate {
			waits = max(waits, p.Oldest)
		}
	}
	return waits
}

// latency is in milliseconds.
type latency struct {
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Count float64 `json:"count"`
}

// latencyOf returns the latency of the last seconds, or nil if there was no observation: that is not zero.
func (s *sums) latencyOf(which func(latencies) observed) *latency {
	all, n := observed{}, 0.0
	for _, l := range s.latencies {
		for bound, count := range which(l) {
			all[bound] += count
			n += count
		}
	}
	if n == 0 {
		return nil
	}
	return &latency{all.quantile(n, 0.5), all.quantile(n, 0.99), n}
}

// quantile returns the value in milliseconds below which the part q of n observations lies, between the bounds in
// proportion.
func (o observed) quantile(n, q float64) float64 {
	below, seen := 0.0, 0.0
	for _, bound := range slices.SortedFunc(maps.Keys(o), cmp.Compare[float64]) {
		if count := o[bound]; seen+count >= q*n && count > 0 {
			if bound > 1e6 { // above the last bound
				return 1000 * below
			}
			return 1000 * (below + (bound-below)*(q*n-seen)/count)
		}
		seen += o[bound]
		below = bound
	}
	return 1000 * below
}
