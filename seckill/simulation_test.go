package seckill

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The simulation runs the real parts of up to three processes against the in-process Redis, whose
// scripts are the real ones, and a model of Postgres. A seed decides the order of all steps and all
// faults; time, ids and randomness come from it too.
//
//	go test ./seckill -run Simulation        200 seeds, for at most 5 s
//	make seeds                               3,000 seeds
//	make simulate MIAOSHA_SIM_SECONDS=600    as many as that time allows, and the mutants
//	MIAOSHA_SIM=42 go test -v ...            one seed, with its trace
//	MIAOSHA_SIM=42:1,5,9-20 ...              only these of its steps, as shrinking prints them
//
// What only Postgres does is out of its reach: mutants of SQL are found by seckill/faults.

// TestSimulation runs MIAOSHA_SIM_SEEDS seeds from MIAOSHA_SIM_FIRST on, for at most
// MIAOSHA_SIM_SECONDS. A failing one is shrunk and printed. Enough of them must reach all that the
// code has: see simulation_reached_test.go.
func TestSimulation(t *testing.T) {
	if replay := os.Getenv("MIAOSHA_SIM"); replay != "" {
		seed, keep, err := parseReplay(replay)
		if err != nil {
			t.Fatal(err)
		}
		s, trace := simulate(t, seed, keep, true)
		t.Logf("%s\ntrace hash %x", trace, s.hash)
		if s.failure != nil {
			t.Fatal(s.failure)
		}
		return
	}
	first, count, seconds := setting(t, "MIAOSHA_SIM_FIRST", 1), setting(t, "MIAOSHA_SIM_SEEDS", 0), setting(t, "MIAOSHA_SIM_SECONDS", 0)
	if count == 0 && seconds == 0 {
		count, seconds = 200, 5 // the detector of races makes a seed ten times as long
	}
	var until time.Time
	if seconds > 0 {
		until = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	began, n, reached := time.Now(), uint64(0), simReached{}
	for ; (count == 0 || n < count) && (until.IsZero() || time.Now().Before(until)); n++ { //timing: the time that make simulate gives
		s, _ := simulate(t, first+n, nil, false)
		if s.failure != nil {
			t.Logf("seed %d, the %dth: %v", first+n, n+1, s.failure)
			if os.Getenv("MIAOSHA_SIM_SHRINK") != "off" {
				t.Log(shrink(t, first+n))
			}
			t.FailNow()
		}
		for name, n := range s.reached {
			reached[name] += n
		}
	}
	reached.check(t, n)
	t.Logf("%d seeds in %v", n, time.Since(began).Round(time.Millisecond))
}

// The same seed makes the same run: without that, no failure could be replayed.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		first, trace := simulate(t, seed, nil, true)
		second, again := simulate(t, seed, nil, true)
		if first.hash != second.hash {
			t.Errorf("seed %d: the trace hash is %x, then %x: %s", seed, first.hash, second.hash, firstDifference(trace, again))
		}
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, x[i], y[i])
		}
	}
	return "one is longer"
}

// simulate makes one run in a bubble of its own.
func simulate(t *testing.T, seed uint64, keep func(int) bool, traced bool) (s *simulation, trace string) {
	t.Helper()
	var text *strings.Builder
	if traced {
		text = &strings.Builder{}
	}
	synctest.Test(t, func(*testing.T) { s = runSimulation(seed, keep, text) })
	if traced {
		trace = text.String()
	}
	return s, trace
}

// shrink leaves out the steps of a failing seed without which it still fails in the same way, and
// returns how to replay the rest, with its trace.
func shrink(t *testing.T, seed uint64) string {
	steps := planOf(seed).steps
	kept := make([]bool, steps+1)
	for i := range kept {
		kept[i] = true
	}
	keep := func(step int) bool { return kept[step] }
	kind := func() string {
		s, _ := simulate(t, seed, keep, false)
		if s.failure == nil {
			return ""
		}
		return failureKind(s.failure)
	}
	want := kind()
	until := time.Now().Add(30 * time.Second)
	for size := steps / 2; size > 0; size /= 2 {
		for from := steps; from > 0 && time.Now().Before(until); from -= size { //timing: the time for a shorter schedule; the seed has failed already
			was := make([]bool, len(kept))
			copy(was, kept)
			changed := false
			for i := max(1, from-size+1); i <= from; i++ {
				changed = changed || kept[i]
				kept[i] = false
			}
			if changed && kind() != want {
				kept = was
			}
		}
	}
	var list []string
	for i := 1; i <= steps; i++ {
		if kept[i] {
			list = append(list, strconv.Itoa(i))
		}
	}
	_, trace := simulate(t, seed, keep, true)
	return fmt.Sprintf("shrunk to %d of %d steps; replay it with\nMIAOSHA_SIM=%d:%s go test -v ./seckill -run '^TestSimulation$'\n%s",
		len(list), steps, seed, strings.Join(list, ","), trace)
}

// failureKind returns a failure without its names and numbers, so that a shrunk run counts only if
// it fails in the same way.
func failureKind(err error) string {
	words := strings.Fields(err.Error())
	for i, w := range words {
		if strings.ContainsAny(w, "0123456789") {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}

// parseReplay parses a seed, or a seed and its steps: 42:1,5,9.
func parseReplay(text string) (seed uint64, keep func(int) bool, err error) {
	number, list, some := strings.Cut(text, ":")
	if seed, err = strconv.ParseUint(number, 10, 64); err != nil || !some {
		return seed, nil, err
	}
	steps := map[int]bool{}
	for _, word := range strings.Split(list, ",") {
		if word == "" {
			continue
		}
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil {
			return 0, nil, fmt.Errorf("MIAOSHA_SIM: %q is neither a step nor a range of steps", word)
		}
		for ; a <= b; a++ {
			steps[a] = true
		}
	}
	return seed, func(step int) bool { return steps[step] }, nil
}

// setting returns a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
