package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func stores(t *testing.T) Stores {
	t.Helper()
	schema, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	return Stores{DatabaseURL: sandboxtest.DatabaseURL(t), Redis: sandboxtest.Redis(t), Schema: string(schema)}
}

// seeds is how many crowds a way has to stand: few, or MIAOSHA_LAB_SEEDS of them (fifty by hand). Then all of them are tried;
// else a way that has gone wrong as it should is not tried again.
func seeds(t *testing.T, few uint64) (n uint64, all bool) {
	n, err := strconv.ParseUint(os.Getenv("MIAOSHA_LAB_SEEDS"), 10, 64)
	if err != nil {
		return few, false
	}
	t.Logf("%d seeds", n)
	return n, true
}

// crowdOf is a small crowd of a seed.
func crowdOf(seed uint64, strategy string, faults ...string) Plan {
	return Plan{Strategies: []string{strategy}, Buyers: 60, Stock: 20, DoubleClicks: 60, Faults: faults, Seed: seed, Seconds: 20}
}

// atOnce bounds the runs and races at one time, each of which has up to 27 connections to the test's Postgres.
var atOnce = make(chan struct{}, 10)

func try(ctx context.Context, s Stores, p Plan) (Result, error) {
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	results, err := Run(ctx, s, p, nil)
	if err != nil || len(results) != 1 {
		return Result{}, fmt.Errorf("%+v: %d results, %w", p, len(results), err)
	}
	if results[0].Error != "" {
		return Result{}, fmt.Errorf("%+v: %s", p, results[0].Error)
	}
	return results[0], nil
}

func race(t *testing.T, strategy string, seed uint64) (Recording, error) {
	atOnce <- struct{}{}
	defer func() { <-atOnce }()
	return Race(t.Context(), stores(t), strategy, seed)
}

// wrongs is what is wrong with a result, by name.
func wrongs(r Result) map[string]int {
	return map[string]int{Oversold: r.Oversold, Unsold: r.Unsold, Duplicates: r.Duplicates, Lost: r.Lost}
}

// The ladder's own table: a way that is called right is exact under every crowd, and one that is called wrong goes wrong in the
// way that it is said to, under one of them at least.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, w := range Ladder() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			s, shown := stores(t), []uint64(nil)
			n, all := seeds(t, 5)
			for seed := uint64(0); seed < n && (all || len(shown) == 0); seed++ {
				r, err := try(t.Context(), s, crowdOf(seed+1, w.Name, w.Needs...))
				if err != nil {
					t.Fatal(err)
				}
				if w.Right && !r.Right {
					t.Errorf("seed %d: called right, and %+v", seed+1, r)
				}
				if !w.Right && wrongs(r)[w.Wrong] > 0 {
					shown = append(shown, seed+1)
				}
			}
			if !w.Right && len(shown) == 0 {
				t.Errorf("called wrong (%s), and was not in any of %d seeds", w.Wrong, n)
			}
			t.Logf("right: %v; %s with seeds %v", w.Right, w.Wrong, shown)
		})
	}
}

// What the comments say of the ways besides their verdicts.
func TestVerdictsUnderOtherCircumstances(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strategy string
		nodes    int
		faults   []string
		wrong    string // what it shows with one of the seeds; "": exact with each
	}{
		"a mutex is right on one node":              {"mutex", 1, nil, ""},
		"a channel is right while nobody dies":      {"lua-channel", 2, nil, ""},
		"a script alone leaves units if one dies":   {"lua", 2, []string{Kill}, Unsold},
		"a transaction survives a kill":             {"guard-unique", 2, []string{Kill}, ""},
		"so does one under a row lock":              {"for-update", 2, []string{Kill}, ""},
		"so do rows that others skip":               {"skip-locked", 2, []string{Kill}, ""},
		"so does one that is retried":               {"serializable", 2, []string{Kill}, ""},
		"the shop survives a silent Redis":          {"shop", 2, []string{RedisPause}, ""},
		"the shop survives a slow Postgres":         {"shop", 2, []string{SlowPostgres}, ""},
		"the shop survives a kill":                  {"shop", 2, []string{Kill}, ""},
		"the shop survives all of it, on one node":  {"shop", 1, []string{Kill, RedisPause, SlowPostgres}, ""},
		"a guard alone loses the unit of a process": {"guard", 2, []string{Kill, SlowPostgres}, Unsold},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, shown, few := stores(t), atomic.Int64{}, uint64(8)
			if c.wrong == "" {
				few = 3
			}
			n, every := seeds(t, few)
			var all errgroup.Group
			if all.SetLimit(1); c.strategy == "shop" && slices.Contains(c.faults, Kill) {
				all.SetLimit(5) // they wait, most of the time, for the five seconds after which a ticket is anybody's
			}
			for seed := range n {
				if !every && shown.Load() > 0 {
					break
				}
				all.Go(func() error {
					p := crowdOf(seed+1, c.strategy, c.faults...)
					p.Nodes = c.nodes
					r, err := try(t.Context(), s, p)
					if wrongs(r)[c.wrong] > 0 {
						shown.Add(1)
					}
					if c.wrong == "" && err == nil && !r.Right || r.Oversold > 0 || c.strategy == "lua" && r.Lost > 0 {
						t.Errorf("seed %d: %+v", seed+1, r)
					}
					return err
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
			if c.wrong != "" && shown.Load() == 0 {
				t.Errorf("not %s in any of %d seeds", c.wrong, n)
			}
			t.Logf("%q with %d seeds", c.wrong, shown.Load())
		})
	}
}

// Every race shows what its way is called: two buyers, every statement, the answers.
func TestRaces(t *testing.T) {
	t.Parallel()
	for _, w := range Ladder() {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			rec, err := race(t, w.Name, 1)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Right != w.Right {
				t.Errorf("right is %v, of a way that is called %v: %+v", rec.Right, w.Right, rec)
			}
			kinds := map[string]int{}
			for i, s := range rec.Steps {
				kinds[s.Kind]++
				if s.Text == "" || strings.Contains(s.Text, "\n") || s.Buyer < 1 || s.Buyer > 2 || i > 0 && s.At < rec.Steps[i-1].At {
					t.Errorf("step %d is %+v", i, s)
				}
			}
			if kinds["answer"] < 2 || kinds["code"] < 1 || (kinds["redis"] > 0) != (w.Store != "postgres") {
				t.Errorf("the steps are %v", kinds)
			}
		})
	}
}

// The steps say what was read: of two who oversell, both have read the same 1.
func TestARaceShowsWhatWasRead(t *testing.T) {
	t.Parallel()
	rec, err := race(t, "read-then-write", 1)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, s := range rec.Steps {
		if s.Text == "select stock from item" && s.Result == "1" {
			read++
		}
	}
	if read != 2 || rec.Sold != 2 {
		t.Errorf("%d have read a 1, %d are sold: %+v", read, rec.Sold, rec.Steps)
	}
}

// Each way has its file, and in it lines that decide.
func TestSourcesAreMarked(t *testing.T) {
	t.Parallel()
	for _, w := range Ladder() {
		lines := strings.Split(w.Source, "\n")
		if !strings.HasPrefix(w.Source, "package lab\n") || len(lines) > 110 || strings.Contains(w.Source, "//lab:") || len(w.Marks) == 0 {
			t.Errorf("%s: %d lines, marks %v", w.File, len(lines), w.Marks)
		}
		for _, m := range w.Marks {
			if m[0] < 1 || m[1] < m[0] || m[1] >= len(lines) || strings.TrimSpace(lines[m[0]-1]) == "" {
				t.Errorf("%s: the mark %v of %d lines", w.File, m, len(lines))
			}
		}
	}
}

// Nothing is left, whether a run ends, is broken off, or was killed with its process.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	s := stores(t)
	ctx, stop := context.WithCancel(t.Context())
	p := Plan{Strategies: []string{"lua", "shop", "optimistic-retry"}, Buyers: 300, Stock: 100, Seed: 1, Seconds: 20}
	_, err := Run(ctx, s, p, func(now Progress) {
		if now.Strategy == "optimistic-retry" {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a run that is broken off gives %v", err)
	}
	left := func() (schemas int) {
		t.Helper()
		db, err := pgx.Connect(t.Context(), s.DatabaseURL)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close(t.Context())
		if err := db.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'lab%'`).Scan(&schemas); err != nil {
			t.Fatal(err)
		}
		return schemas
	}
	if n, keys := left(), s.Redis.Keys(t.Context(), "*").Val(); n != 0 || len(keys) != 0 {
		t.Errorf("%d schemas and the keys %v are left", n, keys)
	}

	dead, err := openPlace(t.Context(), s, tables)
	if err != nil {
		t.Fatal(err)
	}
	s.Redis.Set(t.Context(), dead.key("stock"), 1, 0)
	living, err := openPlace(t.Context(), s, tables)
	if err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 2 {
		t.Errorf("a living run's schema is not kept: %d", n)
	}
	dead.admin.Close(t.Context())
	next, err := openPlace(t.Context(), s, tables)
	if err != nil {
		t.Fatal(err)
	}
	if n, keys := left(), s.Redis.Keys(t.Context(), "*").Val(); n != 2 || len(keys) != 0 {
		t.Errorf("beside two living runs there are %d schemas and the keys %v", n, keys)
	}
	if err := errors.Join(living.close(t.Context()), next.close(t.Context())); err != nil || left() != 0 {
		t.Errorf("%d are left: %v", left(), err)
	}
}

func TestPlansThatCannotBe(t *testing.T) {
	t.Parallel()
	good := Plan{Buyers: 10, Stock: 1, Seconds: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string]func(*Plan){
		"buyers":        func(p *Plan) { p.Buyers = MaxBuyers + 1 },
		"stock":         func(p *Plan) { p.Stock = 0 },
		"double_clicks": func(p *Plan) { p.DoubleClicks = 101 },
		"seconds":       func(p *Plan) { p.Seconds = 31 },
		"nodes":         func(p *Plan) { p.Nodes = -1 },
		"faults":        func(p *Plan) { p.Faults = []string{"flood"} },
		"strategies":    func(p *Plan) { p.Strategies = []string{"shop", "hope"} },
		// and again
		"strategies, twice": func(p *Plan) { p.Strategies = []string{"shop", "lua", "shop"} },
		"faults, twice":     func(p *Plan) { p.Faults = []string{Kill, Kill} },
	} {
		p := good
		spoil(&p)
		want, _, _ := strings.Cut(field, ",")
		if invalid := (InvalidError{}); !errors.As(p.Validate(), &invalid) || invalid.Field != want {
			t.Errorf("%s: %v", field, p.Validate())
		}
	}
}

// A crowd is its seed's: the same clicks each time, others with another seed, a second click right behind the first.
func TestCrowdsAreSeeded(t *testing.T) {
	t.Parallel()
	p := Plan{Buyers: 50, DoubleClicks: 20, Seed: 3}
	clicks := p.clicks()
	if len(clicks) != 60 || !slices.Equal(clicks, p.clicks()) {
		t.Errorf("%d clicks: %v", len(clicks), clicks)
	}
	p.Seed++
	if slices.Equal(clicks, p.clicks()) {
		t.Error("two seeds have the same crowd")
	}
	twice := 0
	for i, c := range clicks[1:] {
		if c.user == clicks[i].user {
			twice++
			if c.node != clicks[i].node+1 {
				t.Errorf("the second click of %d is at the same node", c.user)
			}
		}
	}
	if twice != 10 {
		t.Errorf("%d press twice, want 10", twice)
	}
}
