package strategies

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
)

// try runs the one strategy of a plan.
func try(ctx context.Context, s lab.Stores, p lab.Plan) (lab.Result, error) {
	labtest.ParallelRuns <- struct{}{}
	defer func() { <-labtest.ParallelRuns }()
	results, err := Run(ctx, s, p, nil)
	if err != nil || len(results) != 1 {
		return lab.Result{}, fmt.Errorf("%+v: %d results, %w", p, len(results), err)
	}
	if results[0].Error != "" {
		return lab.Result{}, fmt.Errorf("%+v: %s", p, results[0].Error)
	}
	return results[0], nil
}

// The table of strategies is right: a right strategy is exact under every crowd, and a wrong one goes
// wrong as the table says under at least one.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, info := range All() {
		t.Run(info.Name, func(t *testing.T) {
			t.Parallel()
			s, shown := labtest.Stores(t), []uint64(nil)
			n, all := labtest.Seeds(t, info.Right, 3)
			for seed := uint64(0); seed < n && (all || len(shown) == 0); seed++ {
				r, err := try(t.Context(), s, labtest.SmallPlan(seed+1, info.Name, info.Needs...))
				if err != nil {
					t.Fatal(err)
				}
				if info.Right && !r.Right {
					t.Errorf("seed %d: a right strategy goes wrong: %+v", seed+1, r)
				}
				if r.Lucky != (r.Right && !info.Right) {
					t.Errorf("seed %d: lucky is %v: %+v", seed+1, r.Lucky, r)
				}
				if !info.Right && labtest.Failures(r)[info.Wrong] > 0 {
					shown = append(shown, seed+1)
				}
			}
			if !info.Right && len(shown) == 0 {
				t.Errorf("not %s with any of %d seeds", info.Wrong, n)
			}
			t.Logf("right: %v; %s with seeds %v", info.Right, info.Wrong, shown)
		})
	}
}

// A wrong strategy that meets no double click and no fault is exact, and the result says that this is luck.
func TestLuckIsSaid(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	p := lab.Plan{Strategies: []string{"guard", "guard-unique", "lua", "lua-channel"}, Buyers: 20, Stock: 10, Seed: 1, Seconds: lab.MaxSeconds}
	results, err := Run(t.Context(), s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	lucky := map[string]bool{}
	for _, r := range results {
		if !r.Right {
			t.Errorf("not exact: %+v", r)
		}
		lucky[r.Strategy] = r.Lucky
	}
	if want := map[string]bool{"guard": true, "guard-unique": false, "lua": false, "lua-channel": true}; !maps.Equal(lucky, want) {
		t.Errorf("lucky: %v, want %v", lucky, want)
	}
	// The lock of a process is enough for one process, so there it is no luck.
	for what, p := range map[string]lab.Plan{"one process": {Nodes: 1}, "two": {Nodes: 2}, "one that dies": {Nodes: 1, Faults: []string{lab.Kill}}} {
		if lucky := specOf("mutex").Lucky(p); lucky != (what != "one process") {
			t.Errorf("an exact outcome of mutex with %s is luck: %v", what, lucky)
		}
	}
}

// A right strategy that does not finish in its time is slow, and says so: with the row locked for several milliseconds, 500
// buyers take more than a second. A wrong one that has not shown its fault by then is not called exact.
func TestWhatIsOnlySlowSaysSo(t *testing.T) {
	t.Parallel()
	labtest.ParallelRuns <- struct{}{}
	defer func() { <-labtest.ParallelRuns }()
	p := lab.Plan{Strategies: []string{"for-update", "mutex"}, Buyers: 500, Stock: 500, Faults: []string{lab.SlowPostgres}, Seconds: 1}
	results, err := Run(t.Context(), labtest.Stores(t), p, nil)
	late := func(r lab.Result, slow bool) bool { return r.Slow == slow && !r.Right && r.Error != "" }
	if err != nil || len(results) != 2 || !late(results[0], true) || !late(results[1], false) {
		t.Errorf("%+v, %v", results, err)
		for _, r := range results {
			t.Logf("%s: %s", r.Strategy, r.Error)
		}
	}
}

// The strategies behave under faults as their comments say.
func TestVerdictsUnderFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strategy string
		nodes    int
		faults   []string
		wrong    string // the failure with one of the seeds; "": exact with each
	}{
		"a mutex is right on one node":                   {"mutex", 1, nil, ""},
		"a channel is right while no process dies":       {"lua-channel", 2, nil, ""},
		"a script alone leaves units after a kill":       {"lua", 2, []string{lab.Kill}, lab.Unsold},
		"a transaction survives a kill":                  {"guard-unique", 2, []string{lab.Kill}, ""},
		"one under a row lock survives a kill":           {"for-update", 2, []string{lab.Kill}, ""},
		"one that skips locked rows survives a kill":     {"skip-locked", 2, []string{lab.Kill}, ""},
		"one that is retried survives a kill":            {"serializable", 2, []string{lab.Kill}, ""},
		"the shop survives a silent Redis":               {"shop", 2, []string{lab.RedisPause}, ""},
		"the shop survives a slow Postgres":              {"shop", 2, []string{lab.SlowPostgres}, ""},
		"the shop survives a kill":                       {"shop", 2, []string{lab.Kill}, ""},
		"the shop survives all three, on one node":       {"shop", 1, []string{lab.Kill, lab.RedisPause, lab.SlowPostgres}, ""},
		"tokens in a list die with a process":            {"list-pop", 2, []string{lab.Kill}, lab.Unsold},
		"a check-back returns the units of a dead one":   {"outbox", 2, []string{lab.Kill}, ""},
		"a ledger survives a kill":                       {"insert-only", 2, []string{lab.Kill}, ""},
		"a fenced lock survives the kill of its holder":  {"lock-fencing", 2, []string{lab.Kill}, ""},
		"a guard alone loses the unit of a dead process": {"guard", 2, []string{lab.Kill, lab.SlowPostgres}, lab.Unsold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, shown := labtest.Stores(t), atomic.Int64{}
			n, every := labtest.Seeds(t, c.wrong == "", 2)
			var all errgroup.Group
			if all.SetLimit(1); c.strategy == "shop" && slices.Contains(c.faults, lab.Kill) {
				all.SetLimit(5) // most of the time they wait for the 5 s after which another process may take a ticket over
			}
			for seed := range n {
				if !every && shown.Load() > 0 {
					break
				}
				all.Go(func() error {
					p := labtest.SmallPlan(seed+1, c.strategy, c.faults...)
					p.Nodes = c.nodes
					r, err := try(t.Context(), s, p)
					if labtest.Failures(r)[c.wrong] > 0 {
						shown.Add(1)
					}
					if c.wrong == "" && err == nil && !r.Right {
						t.Errorf("seed %d: not exact: %+v", seed+1, r)
					}
					if r.Oversold > 0 {
						t.Errorf("seed %d: oversold: %+v", seed+1, r)
					}
					if c.strategy == "lua" && r.Lost > 0 {
						t.Errorf("seed %d: orders are lost: %+v", seed+1, r)
					}
					return err
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
			if c.wrong != "" && shown.Load() == 0 {
				t.Errorf("not %s with any of %d seeds", c.wrong, n)
			}
			t.Logf("%q with %d seeds", c.wrong, shown.Load())
		})
	}
}

// A refill does not write over a counter that has changed since the comparison.
func TestARefillWritesOnlyOverWhatItCompared(t *testing.T) {
	t.Parallel()
	rdb := labtest.Stores(t).Redis
	for counted, want := range map[string]string{"-3": "7", "-4": "-3"} {
		if err := rdb.Set(t.Context(), "stock", "-3", 0).Err(); err != nil {
			t.Fatal(err)
		}
		set, err := setIfSame.Run(t.Context(), rdb, []string{"stock"}, counted, 7).Bool()
		if got := rdb.Get(t.Context(), "stock").Val(); err != nil || got != want || set != (got == "7") {
			t.Errorf("a counter of -3, compared as %s: %s, reply %v, %v; want %s", counted, got, set, err, want)
		}
	}
}

// Each strategy has a file, and marks on the lines that decide.
func TestSourcesAreMarked(t *testing.T) {
	t.Parallel()
	for _, info := range All() {
		lines := strings.Split(info.Source, "\n")
		if !strings.HasPrefix(info.Source, "package strategies\n") {
			t.Errorf("%s does not begin with its package: %.50q", info.File, info.Source)
		}
		if len(lines) > 110 {
			t.Errorf("%s has %d lines, at most 110 fit a page", info.File, len(lines))
		}
		if strings.Contains(info.Source, "//lab:") {
			t.Errorf("%s shows the comments of its marks", info.File)
		}
		if len(info.Marks) == 0 {
			t.Errorf("%s has no marks", info.File)
		}
		for _, m := range info.Marks {
			if m[0] < 1 || m[1] < m[0] {
				t.Errorf("%s: the mark %v is empty", info.File, m)
			} else if m[1] >= len(lines) {
				t.Errorf("%s: the mark %v is beyond line %d", info.File, m, len(lines))
			} else if strings.TrimSpace(lines[m[0]-1]) == "" {
				t.Errorf("%s: the mark %v begins with an empty line", info.File, m)
			}
		}
	}
}
