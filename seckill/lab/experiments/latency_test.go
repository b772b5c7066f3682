//go:build latency

package experiments

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
)

// related lists what must hold between the figures of an experiment's variants.
var related = map[string]func(by map[string]map[string]float64) bool{
	"cache": func(by map[string]map[string]float64) bool {
		return by["a read from the memory of the process"]["read_us"] < by["a read from Redis"]["read_us"]
	},
	"load": func(by map[string]map[string]float64) bool {
		closed, corrected := by["closed loop"], by["the same run, with the clicks that it left out"]
		return closed["late"] < closed["asked"]/50 && corrected["longest_ms"] == closed["longest_ms"] && corrected["asked"] > closed["asked"]+100
	},
	"batch-size": func(by map[string]map[string]float64) bool {
		one, many := by["1 order in a transaction"], by["64 orders in a transaction"]
		return many["per_second"] > 3*one["per_second"] && by["512 orders in a transaction"]["turns"] < one["turns"]
	},
	"little": func(by map[string]map[string]float64) bool {
		for _, figures := range by {
			if off := figures["inside"] / figures["law"]; off < 0.7 || off > 1.4 {
				return false
			}
		}
		return by["400 clicks a second, 40 ms each"]["inside"] > by["200 clicks a second, 20 ms each"]["inside"]
	},
	"fair": func(by map[string]map[string]float64) bool {
		return by["first come, first served"]["bots"] > by["a lot"]["bots"] && by["a lot, and each bot has ten accounts"]["bots"] > 2*by["the same, one entry for each phone"]["bots"]
	},
	"hold": func(by map[string]map[string]float64) bool {
		locked, inside, outside := by["look up with the row locked"], by["look up in the transaction, before the write"], by["look up before the transaction"]
		return inside["per_second"] > 1.5*locked["per_second"] && outside["per_second"] > 1.5*inside["per_second"]
	},
	"failover": func(by map[string]map[string]float64) bool {
		return by["synchronous for 20 ms, then alone"]["lost"] > 0 && by["asynchronous standby"]["beyond"] <= by["asynchronous standby"]["lost"]
	},
	"backup": func(by map[string]map[string]float64) bool {
		return by["beside a backup (pg_dump)"]["table_kb"] > 2*by["no other transaction"]["table_kb"]
	},
	"retries": func(by map[string]map[string]float64) bool {
		once, budget := by["retry at once, without a bound"], by["backoff, jitter and a retry budget"]
		return once["tries"] > by["backoff and jitter, five tries"]["tries"] && budget["good"] > once["good"] && budget["wasted"] < once["wasted"]
	},
}

// waiting are experiments that mostly wait, and whose figures hardly depend on what runs beside them. The test runs
// them at the same time.
var waiting = []string{"load", "little", "fair", "hold", "failover"}

// The figures of the experiments, with ranges for those that are times or depend on them, and the verdicts that a
// pace decides.
func TestLatencyOfExperiments(t *testing.T) {
	for _, name := range Names() {
		for _, seed := range []uint64{1, 20261111} {
			if slices.Contains(waiting, name) || related[name] != nil && seed != 1 {
				continue
			}
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) { showsItsLesson(t, labtest.Stores(t), name, seed) })
		}
	}
	t.Run("waiting", func(t *testing.T) {
		var all sync.WaitGroup
		for _, name := range waiting {
			s := labtest.Stores(t)
			all.Go(func() { showsItsLesson(t, s, name, 1) })
		}
		all.Wait()
	})
}

// showsItsLesson runs an experiment and checks its findings. It has three runs, because whatever else the machine
// does may spoil its figures.
func showsItsLesson(t *testing.T, s lab.Stores, name string, seed uint64) {
	t.Helper()
	for run := range 3 {
		off := findings(t, s, name, seed)
		if len(off) == 0 || t.Failed() {
			return
		}
		t.Logf("%s, run %d: %s", name, run+1, strings.Join(off, "; "))
	}
	t.Errorf("%s does not show its lesson", name)
}

// findings runs an experiment once, and returns what it should have found and has not.
func findings(t *testing.T, s lab.Stores, name string, seed uint64) (off []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // the limit in web
	defer cancel()
	got, err := Run(ctx, s, name, seed, func(Progress) {})
	if err != nil || len(got.Rows) != len(lessons[name]) {
		t.Errorf("%s: %+v, %v", name, got, err)
		return nil
	}
	by := map[string]map[string]float64{}
	for i, want := range lessons[name] {
		row := got.Rows[i]
		t.Logf("%s, seed %d, %s: %v", name, seed, row.Variant, row.Figures)
		by[row.Variant] = row.Figures
		if row.Verdict != want.verdict {
			off = append(off, fmt.Sprintf("%q is %s", row.Variant, row.Verdict))
		}
		for figure, span := range want.figures {
			if n := row.Figures[figure]; n < span.from || n > span.to {
				off = append(off, fmt.Sprintf("%s: %s %v, want %v to %v (%v)", row.Variant, figure, n, span.from, span.to, row.Figures))
			}
		}
		for _, series := range row.Series {
			if !slices.ContainsFunc(series.Points, func(p [2]float64) bool { return p[1] > 0 }) {
				off = append(off, fmt.Sprintf("%s: nothing to draw in %+v", row.Variant, series))
			}
		}
	}
	if holds := related[name]; holds != nil && !holds(by) {
		off = append(off, fmt.Sprintf("how they are related: %v", by))
	}
	labtest.NothingIsLeft(t, s)
	return off
}
