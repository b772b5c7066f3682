package exercises

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/strategies"
)

// Each exercise has everything that the pages show, in both languages.
func TestExercisesAreComplete(t *testing.T) {
	t.Parallel()
	all, seen := append(Ladder(), OfCourses()...), map[string]bool{}
	if len(Ladder()) < 15 {
		t.Errorf("%d exercises", len(Ladder()))
	}
	sentence := regexp.MustCompile(`\.(\s|$)`)
	for _, e := range all {
		if seen[e.Name] {
			t.Errorf("%s comes twice", e.Name)
		}
		seen[e.Name] = true
		for _, text := range []Text{e.Title, e.Task, e.Hints[0], e.Hints[1], e.Hints[2], e.Why} {
			if text.En == "" || text.Zh == "" || text.En == text.Zh {
				t.Errorf("%s lacks a text: %+v", e.Name, text)
			}
		}
		if n := len(sentence.FindAllString(e.Why.En, -1)); n != 3 {
			t.Errorf("%s: the reason has %d sentences in English, not 3: %s", e.Name, n, e.Why.En)
		}
		if n := strings.Count(e.Why.Zh, "。"); n != 3 {
			t.Errorf("%s: the reason has %d sentences in Chinese, not 3: %s", e.Name, n, e.Why.Zh)
		}
		for what, p := range map[string]program.Program{"start": e.Start, "solution": e.Solution, "wrong": e.Wrong} {
			labtest.CheckLua(t, e.Name+" "+what, p.Source)
		}
		if e.Kind == "" || e.Start == e.Solution || e.Wrong == e.Solution {
			t.Errorf("%s: kind %q, or two of its programs are the same", e.Name, e.Kind)
		}
		if ofCourse := e.By != ""; ofCourse != (e.Wrong == e.Start) || ofCourse && (e.By < "A" || e.By > "E") {
			t.Errorf("%s: course %q, or its wrong program is the one to start from", e.Name, e.By)
		}
		if len(e.Checks) == 0 || e.Checks[0].Exercise != e.Name {
			t.Errorf("%s has no check of its own in front", e.Name)
		}
		for _, c := range e.Checks {
			if err := c.Plan.ValidateForProgram(); err != nil {
				t.Errorf("%s, %s: %v", e.Name, c.Name, err)
			}
			if _, err := strategies.Program(c.Baseline); c.Baseline != "" && (err != nil || c.Ratio <= 0) {
				t.Errorf("%s, %s: baseline %q, ratio %v: %v", e.Name, c.Name, c.Baseline, c.Ratio, err)
			}
		}
	}
}

// A folder that lacks a file, a heading or an earlier exercise is an error.
func TestExercisesAreRead(t *testing.T) {
	t.Parallel()
	task := "# T\ntext\n\n## Hint 1\none\n\n## Hint 2\ntwo\n\n## Hint 3\nthree\n\n## Why\nso\n"
	good := func() map[string]string {
		return map[string]string{"exercise.json": `{"kind":"unsold","again":[],"checks":[{"name":"crowd","buyers":2,"stock":1}]}`,
			"task.md": task, "task.zh.md": task, "start.lua": "a", "solution.lua": "b", "wrong.lua": "c"}
	}
	read := func(files map[string]string) ([]Exercise, error) {
		fs := fstest.MapFS{}
		for name, text := range files {
			fs["ladder/01-one/"+name] = &fstest.MapFile{Data: []byte(text)}
			if name != "wrong.lua" {
				fs["courses/c-two/"+name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		if all, err := readExercises(fs, "courses"); err == nil && (len(all) != 1 || all[0].Name != "c-two" || all[0].By != "C" || all[0].Wrong.Source != "a") {
			t.Errorf("of a course: %+v", all)
		}
		return readExercises(fs, "ladder")
	}
	all, err := read(good())
	if err != nil || len(all) != 1 || all[0].Name != "one" || all[0].By != "" || all[0].Hints[2].Zh != "three" || all[0].Why.En != "so" || all[0].Start.Source != "a" {
		t.Fatalf("%+v, %v", all, err)
	}
	for name, text := range map[string]string{
		"task.md": strings.Replace(task, "## Hint 2", "Hint 2", 1), "exercise.json": `{"again":["two"]}`, "task.zh.md": task[1:],
	} {
		files := good()
		files[name] = text
		if _, err := read(files); err == nil {
			t.Errorf("%s: no error for %q", name, text)
		}
		delete(files, name)
		if _, err := read(files); err == nil {
			t.Errorf("no error without %s", name)
		}
	}
	files := good()
	files["exercise.json"] = `{"kid":"unsold"}`
	if _, err := read(files); err == nil {
		t.Error("no error for an unknown field")
	}
}

// Each solution solves its exercise with every seed, and the programs to start from and the wrong ones solve it with none.
func TestExerciseVerdicts(t *testing.T) {
	t.Parallel()
	for _, e := range append(Ladder(), OfCourses()...) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			right, wrong, search := judged(t, e.Name)
			s := labtest.Stores(t)
			judge := func(p program.Program, seed uint64, search bool) Result {
				labtest.ParallelRuns <- struct{}{}
				defer func() { <-labtest.ParallelRuns }()
				r, err := judge(labtest.Patient(t), s, e, p, seed, search, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			for seed := range right {
				if r := judge(e.Solution, seed+1, search && seed == 0); !r.Solved {
					last := r.Checks[len(r.Checks)-1]
					t.Errorf("seed %d: the solution fails at %s, %s: %s %s %s", seed+1, last.Exercise, last.Name, last.Kind, last.Message.En, labtest.Shown(last.Result))
				} else if len(r.Checks) != len(e.Checks) {
					t.Errorf("seed %d: %d of %d checks", seed+1, len(r.Checks), len(e.Checks))
				}
			}
			kinds := map[string]int{}
			for seed := range wrong {
				r := judge(e.Wrong, seed+1, true)
				kinds[r.Checks[len(r.Checks)-1].Kind]++
				if last := r.Checks[len(r.Checks)-1]; r.Solved || last.Kind != e.Kind || last.Message.Zh == "" {
					t.Errorf("seed %d: the wrong program: solved %v, kind %q, want %q: %s", seed+1, r.Solved, last.Kind, e.Kind, labtest.Shown(last.Result))
				}
			}
			if e.Start != e.Wrong && judge(e.Start, 1, true).Solved {
				t.Error("the program to start from solves it")
			}
			t.Logf("the solution was judged with %d seeds, the wrong program with %d: %v", right, wrong, kinds)
		})
	}
}
