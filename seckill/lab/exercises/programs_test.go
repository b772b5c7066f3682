package exercises

import (
	"slices"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/boundary"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
)

// programPlan returns the crowd that shows what is wrong with a program.
func programPlan(p strategies.ProgramInfo, seed uint64) lab.Plan {
	plan := labtest.SmallPlan(seed, "")
	plan.Strategies = nil
	for _, s := range strategies.All() {
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
	n, all := labtest.Seeds(t, true, 1)
	if !all && !slices.Contains(quickly, name) {
		t.Skip("MIAOSHA_LAB_SEEDS is not set")
	}
	return n, max(1, n*2/5), all
}

// Each program is right, or goes wrong in its own way.
func TestProgramVerdicts(t *testing.T) {
	t.Parallel()
	for _, p := range strategies.Programs() {
		t.Run(p.Name+"."+p.Language, func(t *testing.T) {
			t.Parallel()
			n, few, search := judged(t, p.Name)
			if p.Kind != "" {
				n = few
			}
			s, kinds := labtest.Stores(t), map[string]int{}
			for seed := range n {
				plan := programPlan(p, seed+1)
				plan.CrowdOnly = p.Kind == "" && (seed > 0 || !search) // a search depends on no seed
				labtest.ParallelRuns <- struct{}{}
				results, err := boundary.Judge(labtest.Patient(t), s, program.Program{Language: p.Language, Source: p.Source}, []lab.Plan{plan}, nil)
				<-labtest.ParallelRuns
				if err != nil {
					t.Fatal(err)
				}
				r := results[0]
				if kinds[r.Kind]++; r.Kind != p.Kind || r.Right != (p.Kind == "") {
					t.Errorf("seed %d: kind %q, want %q: %s", seed+1, r.Kind, p.Kind, labtest.Shown(r))
				}
			}
			t.Logf("kinds: %v", kinds)
		})
	}
}
