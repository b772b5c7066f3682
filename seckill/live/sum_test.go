package live

import (
	"maps"
	"math"
	"testing"
	"time"
)

func newSums() *sums { return &sums{processes: map[string]*process{}} }

// told returns the figures of a process that has been up so long and has told so many buyers yes.
func told(name string, up time.Duration, yes int64) figures {
	return figures{Name: name, Up: up, Counters: map[int64]map[string]int64{shop: {"buy.ok": yes}, 7: {"buy.ok": yes}}}
}

// Rates are per second of the process's own clock, whenever its figures are read.
func TestRatesAreOfTheProcessesOwnSeconds(t *testing.T) {
	t.Parallel()
	s, now := newSums(), time.Now()
	s.addAll(now, []figures{told("a", time.Hour, 1000), told("b", time.Hour, 500)})
	if got := s.rate(now, 7); len(got) != 0 {
		t.Errorf("%v a second of processes that were just found, want none", got)
	}
	now = now.Add(1700 * time.Millisecond) // a late reading
	s.addAll(now, []figures{told("a", time.Hour+2*time.Second, 1200), told("b", time.Hour+time.Second, 550)})
	for scope := range map[int64]bool{shop: true, 7: true} {
		if got := s.rate(now, scope); got["buy.ok"] != 100+50 {
			t.Errorf("%v a second in scope %d, want 150", got, scope)
		}
	}
	now = now.Add(time.Second)
	s.addAll(now, []figures{told("a", time.Hour+2*time.Second, 1200), told("b", time.Hour+2*time.Second, 600)}) // a has not written since
	if got := s.rate(now, shop); got["buy.ok"] != 150 {
		t.Errorf("%v a second while one process has no news for a second, want 150", got)
	}
}

// The counts of a process that died stay. Its rates end. The process that starts in its place has a new name, and counts from 0.
func TestADeadProcessKeepsItsCounts(t *testing.T) {
	t.Parallel()
	s, now := newSums(), time.Now()
	s.addAll(now, []figures{told("a", time.Second, 100), told("b", time.Hour, 500)})
	if got := s.rate(now, shop); got["buy.ok"] != 100 {
		t.Errorf("%v a second of a process in its first second, want 100", got)
	}
	now = now.Add(holdRate)
	s.addAll(now, []figures{told("b", time.Hour+holdRate, 500)})
	if got := s.rate(now, shop); got["buy.ok"] != 0 {
		t.Errorf("%v a second after the process died, want 0", got)
	}
	now = now.Add(time.Second)
	s.addAll(now, []figures{told("b", time.Hour+4*time.Second, 500), told("a again", time.Second, 7)})
	if got := s.total(shop); got["buy.ok"] != 607 {
		t.Errorf("%v in all, want 607", got)
	}
	if got := s.rate(now, shop); got["buy.ok"] != 7 {
		t.Errorf("%v a second, want 7 of the new process", got)
	}
}

func TestProcessesAreBounded(t *testing.T) {
	t.Parallel()
	s, now := newSums(), time.Now()
	for i := range 2 * maxProcesses {
		s.addAll(now.Add(time.Duration(i)*time.Second), []figures{told(newName("host", i, now), time.Hour, 1)})
	}
	if n := s.total(shop)["buy.ok"]; n != maxProcesses || len(s.processes) != maxProcesses {
		t.Errorf("%d processes are remembered, want %d", n, maxProcesses)
	}
}

// Latencies are of the observations of the last ten seconds in all processes, which may have other bounds.
func TestLatenciesAreOfAllProcesses(t *testing.T) {
	t.Parallel()
	s, now := newSums(), time.Now()
	slow := func(up time.Duration, counts ...uint64) figures {
		return figures{Name: "slow", Up: up, Buy: histogram{[]float64{0.1, 1}, counts}}
	}
	fast := func(up time.Duration, counts ...uint64) figures {
		return figures{Name: "fast", Up: up, Buy: histogram{[]float64{0.001, 0.01}, counts}}
	}
	buy := func(l latencies) observed { return l.buy }
	s.addAll(now, []figures{slow(time.Hour, 5, 50, 900), fast(time.Hour, 1, 1, 1)})
	if got := s.latencyOf(buy); got != nil {
		t.Errorf("%+v without an observation, want nil", got)
	}
	s.addAll(now.Add(time.Second), []figures{slow(time.Hour+time.Second, 5, 60, 910), fast(time.Hour+time.Second, 91, 91, 91)})
	got := s.latencyOf(buy)
	if got == nil || got.Count != 100 || math.Abs(got.P50-1000*0.001*50/90) > 1e-9 || math.Abs(got.P99-1000*(0.1+0.9*9/10)) > 1e-9 {
		t.Errorf("%+v, want 90 under 1 ms and ten under 1 s", got)
	}
	s.addAll(now.Add(time.Second+latencyOver), nil)
	if got := s.latencyOf(buy); got != nil {
		t.Errorf("%+v ten seconds later, want nil", got)
	}
}

// An observation above the last bound counts as that bound.
func TestQuantileAboveTheLastBound(t *testing.T) {
	t.Parallel()
	o := observed{}
	o.addSince(histogram{[]float64{0.5}, []uint64{1, 4}}, histogram{})
	if want := (observed{0.5: 1, math.Inf(1): 3}); !maps.Equal(o, want) {
		t.Fatalf("%v, want %v", o, want)
	}
	if got := o.quantile(4, 0.99); got != 500 {
		t.Errorf("%v ms, want 500", got)
	}
}
