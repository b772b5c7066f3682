//go:build faults && linux

package faults

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// verdict is what a run of a row has found.
type verdict struct {
	truths  []string // broken invariants and lies: they are wrong however slow the machine is
	late    []string // bounds on time that were missed, each with its figure
	little  []string // what the run did not reach, so that it proves too little
	outside float64  // the share of the processors that others had meanwhile
}

// starved reports whether others have taken so much that a missed bound proves nothing.
func (v verdict) starved() bool { return v.outside > starvedShare }

// wrong returns what is wrong for certain: a truth, or a bound on a machine that was the suite's own.
func (v verdict) wrong() []string {
	if v.starved() {
		return v.truths
	}
	return slices.Concat(v.truths, v.late)
}

// open returns why a run that found nothing wrong is inconclusive; nothing if it is right.
func (v verdict) open() []string {
	switch {
	case len(v.wrong()) > 0:
		return nil
	case v.starved():
		return slices.Concat(v.late, v.little)
	}
	return v.little
}

// word is the verdict in one word, or the invariants that are broken.
func (v verdict) word() string {
	wrong := v.wrong()
	switch {
	case len(wrong) > 0:
		var names []string
		for _, broken := range wrong {
			name, _, _ := strings.Cut(broken, ":")
			names = append(names, name)
		}
		slices.Sort(names)
		return "BROKEN " + strings.Join(slices.Compact(names), ", ")
	case len(v.open()) > 0:
		return "inconclusive"
	}
	return "all hold"
}

// runs is how often a row is run at most: an inconclusive run is repeated twice. A broken truth is never repeated.
const runs = 3

// repeat runs a row until it is right or wrong, and at most three times. It returns the last verdict.
func repeat(t testing.TB, name string, run func(t testing.TB) verdict) (v verdict) {
	for n := 1; n <= runs; n++ {
		if v = once(t, run); len(v.open()) == 0 || t.Failed() {
			return v
		}
		t.Logf("run %d of %q is inconclusive; others had %s of the processors: %s", n, name, formatShare(v.outside), strings.Join(v.open(), "; "))
	}
	return v
}

// once runs a row, and then what it has to clean up, before the next run begins.
func once(t testing.TB, run func(t testing.TB) verdict) verdict {
	a := &attempt{TB: t}
	defer a.cleanUp()
	return run(a)
}

// attempt is a test for one run of several.
type attempt struct {
	testing.TB
	cleanups []func()
}

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

func (a *attempt) cleanUp() {
	for _, f := range slices.Backward(a.cleanups) {
		f()
	}
}

// isStrict reports whether an inconclusive row fails the run: at night, and when RESULTS.md is written.
func isStrict() bool { return wholeRun() || os.Getenv("MIAOSHA_STRICT") == "1" }

// tally counts the rows of TestFaults by their last verdict.
type tally struct {
	mu                         sync.Mutex
	right, wrong, inconclusive int
	lines                      []string // one for each reason of an inconclusive row
}

var judged tally

func (a *tally) add(name string, v verdict, failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch open := v.open(); {
	case failed || len(v.wrong()) > 0:
		a.wrong++
	case len(open) > 0:
		a.inconclusive++
		for _, why := range open {
			why, _, _ = strings.Cut(why, "\n")
			a.lines = append(a.lines, fmt.Sprintf("inconclusive: %s: %s; others had %s of the processors", name, why, formatShare(v.outside)))
		}
	default:
		a.right++
	}
}

// write writes what the rows have reached, those that are inconclusive, and last how many are right.
func (a *tally) write(w io.Writer, reached map[string]float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.right+a.wrong+a.inconclusive == 0 {
		return
	}
	fmt.Fprintln(w, "reached:")
	for _, name := range sortedNames(reached) {
		fmt.Fprintf(w, "%10.0f %s\n", reached[name], name)
	}
	slices.SortFunc(a.lines, func(x, y string) int { return cmp.Compare(x, y) })
	for _, line := range a.lines {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%d rows right, ", a.right)
	if a.wrong > 0 {
		fmt.Fprintf(w, "%d wrong, ", a.wrong)
	}
	fmt.Fprintf(w, "%d inconclusive\n", a.inconclusive)
}

// say prints the tally. go test prints it only for a run that fails or is verbose, so it is also appended to the file
// that MIAOSHA_VERDICT names.
func (a *tally) say() {
	reached := reachedCounts()
	a.write(os.Stdout, reached)
	path := os.Getenv("MIAOSHA_VERDICT")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer f.Close()
	a.write(f, reached)
}
