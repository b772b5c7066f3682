package lab

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/gopher-lua/parse"
)

// checkLua reports a program that is not Lua.
func checkLua(t *testing.T, name, source string) {
	t.Helper()
	if _, err := parse.Parse(strings.NewReader(source), name); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !strings.Contains(source, "function buy(user)") {
		t.Errorf("%s has no buy", name)
	}
}

// Every strategy but the shop is a program, and each wrong one says how it goes wrong.
func TestProgramsAreComplete(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range Programs() {
		if p.Language == "lua" {
			names = append(names, p.Name)
			checkLua(t, p.Name, p.Source)
		}
		if n := strings.Count(p.Source, "\n"); n > 60 {
			t.Errorf("%s.%s has %d lines; at most 60 are read", p.Name, p.Language, n)
		}
		if !strings.HasPrefix(p.Source, "-- ") {
			t.Errorf("%s.%s has no comment in front", p.Name, p.Language)
		}
		if (p.Wrong == "") != (p.Kind == "") {
			t.Errorf("%s.%s: wrong %q, kind %q", p.Name, p.Language, p.Wrong, p.Kind)
		}
	}
	want := slices.DeleteFunc(StrategyNames(), func(name string) bool { return name == "shop" })
	if !slices.Equal(names, want) {
		t.Errorf("programs: %v\nstrategies: %v", names, want)
	}
	files, _ := os.ReadDir("programs")
	if len(files) != len(Programs()) {
		t.Errorf("%d files, %d programs", len(files), len(Programs()))
	}
}

// programPlan returns the crowd that shows what is wrong with a program.
func programPlan(p ProgramInfo, seed uint64) Plan {
	plan := smallPlan(seed, "")
	plan.Strategies = nil
	if s := specOf(p.Name); s.needs != "" {
		plan.Faults = []string{s.needs}
	}
	return plan
}

// quickly has the programs and exercises of which the short form judges one seed.
var quickly = []string{"read-then-write", "guard-unique", "double-click", "lost-reply", "b-last-unit"}

// judged returns how many seeds the solutions meet and how many the wrong programs: MIAOSHA_LAB_SEEDS (50 by make
// exercises) and two fifths of them; one of both without it, and none for what is not in quickly. The schedules of right
// programs are searched in the long form only: a search that finds nothing takes the longest.
func judged(t *testing.T, name string) (right, wrong uint64, search bool) {
	n, all := seeds(t, true, 1)
	if !all && !slices.Contains(quickly, name) {
		t.Skip("MIAOSHA_LAB_SEEDS is not set")
	}
	return n, max(1, n*2/5), all
}

// Each program is right, or goes wrong in its own way.
func TestProgramVerdicts(t *testing.T) {
	t.Parallel()
	for _, p := range Programs() {
		t.Run(p.Name+"."+p.Language, func(t *testing.T) {
			t.Parallel()
			n, few, search := judged(t, p.Name)
			if p.Kind != "" {
				n = few
			}
			s, kinds := stores(t), map[string]int{}
			for seed := range n {
				plan := programPlan(p, seed+1)
				plan.CrowdOnly = p.Kind == "" && (seed > 0 || !search) // a search depends on no seed
				r, err := judgeOne(t, s, Program{p.Language, p.Source}, plan)
				if err != nil {
					t.Fatal(err)
				}
				if kinds[r.Kind]++; r.Kind != p.Kind || r.Right != (p.Kind == "") {
					t.Errorf("seed %d: kind %q, want %q: %s", seed+1, r.Kind, p.Kind, shown(r))
				}
			}
			t.Logf("kinds: %v", kinds)
		})
	}
}

// shown is a result without its steps.
func shown(r Result) string {
	v := r.Verdict
	r.Verdict = nil
	return fmt.Sprintf("%+v %+v", r, v.Schedule)
}

// judgeOne judges one program with one plan.
func judgeOne(t *testing.T, s Stores, p Program, plan Plan) (Result, error) {
	parallelRuns <- struct{}{}
	defer func() { <-parallelRuns }()
	results, err := Judge(patient(t), s, p, []Plan{plan}, nil)
	if err != nil || len(results) != 1 {
		return Result{}, fmt.Errorf("%d results: %w", len(results), err)
	}
	return results[0], nil
}
