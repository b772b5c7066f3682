package operator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Each student's folder gets its own results in the shape of Exercism, with the open and the hidden seeds.
func TestGrade(t *testing.T) {
	t.Parallel()
	dir, env := t.TempDir(), sandboxtest.Stores(t)
	first := exercises.Ladder()[0]
	target := filepath.Join(t.TempDir(), "target")
	for file, text := range map[string]string{
		"right/01-" + first.Name + ".lua": "\ufeff" + strings.ReplaceAll(first.Solution.Source, "\n", "\r\n"), // as Windows writes it
		"wrong/" + first.Name + ".lua":    first.Wrong.Source,
		"broken/" + first.Name + ".lua":   "function buy(",
		"misnamed/one-unitt.sql":          "select 1;",
		"empty/notes.txt":                 "later",
		"right/" + resultsName:            "old",
		".git/" + first.Name + ".lua":     "",
		"right/._" + first.Name + ".lua":  "what macOS puts beside a file",
		"hidden":                          "\ufeff4711\r\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, filepath.Join(dir, "wrong", resultsName)); err != nil {
		t.Fatal(err)
	}
	out, errs, code := sandboxtest.Command(t, env, "lab", "grade", "--json", dir, "--seeds", "5", "--hidden-seeds", filepath.Join(dir, "hidden"))
	var printed []gradedFolder
	if err := json.Unmarshal([]byte(out), &printed); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if strings.Contains(out+errs, "4711") {
		t.Errorf("the hidden seed is shown: %s%s", out, errs)
	}
	type outcome struct{ Status, Tests string }
	got := map[string]outcome{}
	for _, f := range printed {
		var written graded
		text, err := os.ReadFile(filepath.Join(dir, f.Folder, resultsName))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &written); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(f.graded, written); diff != "" || written.Version != 2 {
			t.Errorf("%s: (-printed +written) %s", f.Folder, diff)
		}
		if (written.Message != nil) != (written.Status == notJudged) {
			t.Errorf("%s: status %s, message %v", f.Folder, written.Status, written.Message)
		}
		var tests []string
		for _, test := range written.Tests {
			if (test.Message == nil) != (test.Status == passed) {
				t.Errorf("%s: %+v", f.Folder, test)
			}
			tests = append(tests, test.Name+" "+test.Status)
		}
		got[f.Folder] = outcome{written.Status, strings.Join(tests, "; ")}
	}
	want := map[string]outcome{
		"right":    {passed, "one-unit, seed 5 pass; one-unit, hidden seed 1 pass"},
		"wrong":    {failed, "one-unit, seed 5 fail; one-unit, hidden seed 1 fail"},
		"broken":   {notJudged, "one-unit, seed 5 error; one-unit, hidden seed 1 error"},
		"misnamed": {notJudged, "one-unitt.sql, seed 5 error; one-unitt.sql, hidden seed 1 error"},
		"empty":    {notJudged, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the results were written through a student's link")
	}
	for folder, want := range map[string]string{"wrong": `orders for \d+ units \(` + first.Kind + `\)`, "broken": `\(syntax\)`, "misnamed": `did you mean "one-unit"\?`} {
		text, _ := os.ReadFile(filepath.Join(dir, folder, resultsName))
		if !regexp.MustCompile(strings.ReplaceAll(want, `"`, `\\"`)).Match(text) {
			t.Errorf("%s has no message %s: %s", folder, want, text)
		}
	}
}

// A folder without programs and seeds that are none are wrong usage. Nothing is written then.
func TestGradeRefuses(t *testing.T) {
	t.Parallel()
	dir, seeds := t.TempDir(), filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(seeds, []byte("12 x3"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{dir, "has no program (*.lua or *.sql) and no folder of a student"},
		{dir + "/nowhere", "no such file or directory"},
		{dir + " --hidden-seeds " + seeds, "--hidden-seeds: number 2 in " + seeds + " is not a seed"},
		{dir + " --hidden-seeds " + seeds + "s", "--hidden-seeds: open "},
		{dir + " --seeds x", `--seeds: `},
		{dir + " --seeds=", "--seeds: at least one"},
		{"", `"<dir>" is missing`},
	} {
		args := append([]string{"lab", "grade"}, strings.Fields(c.args)...)
		if _, errs, code := sandboxtest.Command(t, nil, args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d %s", c.args, code, errs)
		}
	}
}

// One program that cannot be judged is not the end of the others.
func TestConclusion(t *testing.T) {
	t.Parallel()
	for tests, want := range map[string]string{"": notJudged, passed: passed, passed + " " + failed: failed, passed + " " + notJudged: failed,
		failed + " " + notJudged: failed, notJudged + " " + notJudged: notJudged} {
		g := graded{}
		for _, status := range strings.Fields(tests) {
			g.Tests = append(g.Tests, gradedTest{Status: status, Message: new(status)})
		}
		if g.conclude(); g.Status != want {
			t.Errorf("%q: %s, want %s", tests, g.Status, want)
		}
	}
}
