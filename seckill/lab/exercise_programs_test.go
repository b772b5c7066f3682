package lab

import (
	"slices"
	"testing"
)

// programPlan returns the crowd that shows what is wrong with a program.
func programPlan(p ProgramInfo, seed uint64) Plan {
	plan := smallPlan(seed, "")
	plan.Strategies = nil
	for _, s := range Strategies() {
		if s.Name == p.Name {
			plan.Faults = s.Needs
		}
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
				parallelRuns <- struct{}{}
				results, err := Judge(patient(t), s, Program{p.Language, p.Source}, []Plan{plan}, nil)
				<-parallelRuns
				if err != nil {
					t.Fatal(err)
				}
				r := results[0]
				if kinds[r.Kind]++; r.Kind != p.Kind || r.Right != (p.Kind == "") {
					t.Errorf("seed %d: kind %q, want %q: %s", seed+1, r.Kind, p.Kind, shown(r))
				}
			}
			t.Logf("kinds: %v", kinds)
		})
	}
}
