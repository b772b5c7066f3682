package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// results counts what go test -json reports.
type results struct {
	dir    string
	tests  map[name]*tally
	builds map[string]*strings.Builder // outputs of compilers
	last   int                         // the number of the last failure
	runs   int
}

// name is that of a test; without a test it is that of its package.
type name struct{ pkg, test string }

// tally is what is known of one test.
type tally struct {
	name
	runs, failures int
	output         strings.Builder // of the run
	running        bool
	within         bool   // a test inside it failed in this run; for a package, in this round
	last           int    // the number of its last failure
	message        string // of that
	repeat         string
}

func newResults(dir string) *results {
	return &results{dir: dir, tests: map[name]*tally{}, builds: map[string]*strings.Builder{}}
}

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string // of compilers
}

// read counts one event of a round, and returns 1 if it is the failure of a test, or of a package in which no test
// failed.
func (r *results) read(line []byte, of round) (failed int, err error) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, fmt.Errorf("go test printed %q: %w", line, err)
	}
	if e.Action == "build-output" {
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
	}
	if e.Package == "" {
		return 0, nil
	}
	t := r.tally(name{e.Package, e.Test})
	switch e.Action {
	case "run", "start":
		t.output.Reset()
		t.running, t.within = true, false
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "skip":
		r.ran(t)
	case "fail":
		r.ran(t)
		for outer := e.Test; outer != ""; {
			outer = outer[:max(0, strings.LastIndexByte(outer, '/'))]
			r.tally(name{e.Package, outer}).within = true
		}
		if t.within {
			return 0, nil
		}
		if build := r.builds[e.FailedBuild]; build != nil {
			t.output.WriteString(build.String())
		}
		return 1, r.fail(t, of)
	}
	return 0, nil
}

func (r *results) tally(n name) *tally {
	t := r.tests[n]
	if t == nil {
		t = &tally{name: n}
		r.tests[n] = t
	}
	return t
}

// ran counts a run.
func (r *results) ran(t *tally) {
	t.runs++
	t.running = false
	if t.test != "" {
		r.runs++
	}
}

// fail counts a failure, and writes its output to the folder.
func (r *results) fail(t *tally, of round) error {
	r.last++
	t.failures++
	t.last = r.last
	t.message = message(t.output.String())
	t.repeat = of.command(t.pkg)
	file := strings.Map(func(c rune) rune {
		if c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z' && c < 0x80 {
			return '_'
		}
		return c
	}, filepath.Base(t.pkg)+" "+t.test)
	file = fmt.Sprintf("%04d_%.100s.txt", r.last, file)
	return os.WriteFile(filepath.Join(r.dir, file), []byte(t.repeat+"\n\n"+t.output.String()), 0o644)
}

// located is a message of a test: it has a place in a file.
var located = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// message returns the first line of the last message in the output of a test that failed. Without one it returns what
// panicked, or the last line that says something.
func message(output string) (line string) {
	var last, panicked, found string
	for line := range strings.Lines(output) {
		trimmed := strings.TrimSpace(line)
		switch {
		case located.MatchString(line):
			found = trimmed
		case panicked == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")):
			panicked = trimmed
		case trimmed != "" && !strings.HasPrefix(trimmed, "=== ") && !strings.HasPrefix(trimmed, "--- ") &&
			!strings.HasPrefix(trimmed, "FAIL"):
			last = trimmed
		}
	}
	return cmp.Or(panicked, found, last)
}

// failed returns the tests that failed: the most often failing first, among equals the one that failed last.
func (r *results) failed() (failed []*tally) {
	for _, t := range r.tests {
		if t.failures > 0 {
			failed = append(failed, t)
		}
	}
	slices.SortFunc(failed, func(x, y *tally) int {
		return cmp.Or(cmp.Compare(y.failures, x.failures), cmp.Compare(y.last, x.last))
	})
	return failed
}

// running returns the tests that have begun and not ended.
func (r *results) running() (running []*tally) {
	for _, t := range r.tests {
		if t.running && t.test != "" {
			running = append(running, t)
		}
	}
	slices.SortFunc(running, func(x, y *tally) int {
		return cmp.Or(cmp.Compare(x.pkg, y.pkg), cmp.Compare(x.test, y.test))
	})
	return running
}

// print prints the table.
func (r *results) print(out io.Writer) {
	tests := 0
	for n, t := range r.tests {
		if n.test != "" && t.runs > 0 {
			tests++
		}
	}
	failed := r.failed()
	fmt.Fprintf(out, "%d tests with those inside tests, %d runs, %d failed\n", tests, r.runs, len(failed))
	if len(failed) == 0 {
		return
	}
	fmt.Fprintf(out, "\nfailures  runs  test\n")
	for _, t := range failed {
		fmt.Fprintf(out, "%8d %5d  %s\n%16s%s\n%16s%s\n", t.failures, t.runs, strings.TrimSpace(t.pkg+" "+t.test), "",
			t.message, "", t.repeat)
	}
	fmt.Fprintf(out, "\nTheir outputs are in %s\n", r.dir)
}
