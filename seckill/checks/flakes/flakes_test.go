package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The test program stands for the command, and for its busy loops.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == busyArgument || os.Getenv("MIAOSHA_FLAKES_COMMAND") != "" {
		main()
	}
	os.Exit(m.Run())
}

// module makes a module with these packages, and works in it.
func module(t *testing.T, tests map[string]string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	files := map[string]string{"go.mod": "module made\n\ngo 1.26\n"}
	for pkg, body := range tests {
		files[pkg+"/"+pkg+"_test.go"] = "package " + pkg + "\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = fmt.Sprint(os.Args)\n\n" + body
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const flaky = `func TestFlaky(t *testing.T) {
	const counter = "counter"
	runs, _ := os.ReadFile(counter)
	os.WriteFile(counter, append(runs, '.'), 0o644)
	t.Logf("run %d", len(runs)+1)
	if len(runs)%2 == 1 {
		t.Run("part", func(t *testing.T) { t.Errorf("run %d fails\nbecause it is even", len(runs)+1) })
	}
}

func TestSound(t *testing.T) {
	if os.Getenv("GOMAXPROCS") == "" {
		t.Error("GOMAXPROCS is not set")
	}
}
`

func TestATestThatFailsEverySecondTime(t *testing.T) {
	module(t, map[string]string{
		"flaky": flaky,
		"third": "func TestThird(t *testing.T) {\n\truns, _ := os.ReadFile(\"counter\")\n\tos.WriteFile(\"counter\", append(runs, '.'), 0o644)\n\tif len(runs)%3 == 2 {\n\t\tpanic(\"the third time\")\n\t}\n}\n",
	})
	dir := t.TempDir()
	var out strings.Builder
	code := command(t.Context(), []string{"-n", "4", "-whole", "-procs", "2,1", "-busy", "1", "-seed", "40", "-dir", dir}, &out)
	if code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	_, table, _ := strings.Cut(out.String(), "\n4 tests")
	want := " with those inside tests, 14 runs, 2 failed\n" + `
failures  runs  test
       2     2  made/flaky TestFlaky/part
                flaky_test.go:17: run 4 fails
                GOMAXPROCS=1 go test -count 1 -shuffle 43 made/flaky
       1     4  made/third TestThird
                panic: the third time [recovered, repanicked]
                GOMAXPROCS=2 go test -count 1 -shuffle 42 made/third

Their outputs are in ` + dir + "\n"
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the table (-want +got):\n%s\nof:\n%s", diff, out.String())
	}
	if n := len(regexp.MustCompile(`(?m)^round \d of 4: GOMAXPROCS=[12] go test -count 1 -shuffle 4\d ./...\n  \d failures, \d\.\d\d min, \d\.\d\d processor min$`).
		FindAllString(out.String(), -1)); n != 4 {
		t.Errorf("%d of 4 rounds in:\n%s", n, out.String())
	}
	raw, err := os.ReadFile(filepath.Join(dir, "0001_flaky_TestFlaky_part.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"GOMAXPROCS=1 go test -count 1 -shuffle 41 made/flaky\n", "run 2 fails\n", "because it is even\n"} {
		if !strings.Contains(string(raw), text) {
			t.Errorf("the file of the first failure has no %q:\n%s", text, raw)
		}
	}
}

// Without -whole each value of GOMAXPROCS has one round, in which each test runs several times.
func TestEachTestRunsNTimes(t *testing.T) {
	module(t, map[string]string{"flaky": flaky})
	var out strings.Builder
	code := command(t.Context(), []string{"-n", "5", "-procs", "1,2,8", "-busy", "0", "-seed", "7", "-run", "^Test(Sound|None)$", "-dir", t.TempDir()}, &out)
	if code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	for _, text := range []string{
		"round 1 of 3: GOMAXPROCS=1 go test -count 2 -shuffle 7 -run '^Test(Sound|None)$' ./...\n",
		"round 2 of 3: GOMAXPROCS=2 go test -count 2 -shuffle 8 -run '^Test(Sound|None)$' ./...\n",
		"round 3 of 3: GOMAXPROCS=8 go test -count 1 -shuffle 9 -run '^Test(Sound|None)$' ./...\n",
		"1 tests with those inside tests, 5 runs, 0 failed\n",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in:\n%s", text, out.String())
		}
	}
}

func TestFailuresOutsideOfTests(t *testing.T) {
	module(t, map[string]string{
		"ends":  "func TestMain(m *testing.M) {\n\tm.Run()\n\tos.Stderr.WriteString(\"a server is left\\n\")\n\tos.Exit(3)\n}\n\nfunc TestFine(t *testing.T) {}\n",
		"typed": "func TestTyped(t *testing.T) { undefined() }\n",
	})
	var out strings.Builder
	if code := command(t.Context(), []string{"-n", "1", "-busy", "0", "-dir", t.TempDir()}, &out); code != 1 {
		t.Errorf("the exit code is %d, want 1", code)
	}
	for _, text := range []string{"1     1  made/ends\n", "a server is left\n", "1     1  made/typed\n", "undefined: undefined\n"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in:\n%s", text, out.String())
		}
	}
	if code := command(t.Context(), []string{"-procs", "1,0"}, io.Discard); code != 2 {
		t.Errorf("the exit code for wrong arguments is %d, want 2", code)
	}
}

// hanging writes the id of its process, and never ends.
const hanging = `func TestHangs(t *testing.T) {
	os.WriteFile("pid", []byte(fmt.Sprint(os.Getpid())), 0o644)
	select {}
}
`

func TestAStopEndsTestsAndLoops(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("looks for processes in /proc")
	}
	for _, how := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(how.String(), func(t *testing.T) {
			module(t, map[string]string{"hangs": hanging})
			cmd := exec.Command(os.Args[0], "-n", "1", "-procs", "1", "-busy", "2", "-dir", t.TempDir())
			mark := "MIAOSHA_FLAKES_COMMAND=" + t.TempDir()
			cmd.Env = append(os.Environ(), mark)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			sandboxtest.Until(t, "the test hangs", func() bool {
				raw, _ := os.ReadFile("hangs/pid")
				return len(raw) > 0
			})
			if n := busyLoops(t, mark); n != 2 {
				t.Errorf("%d busy loops, want 2", n)
			}
			pid, err := os.ReadFile("hangs/pid")
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(how); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			sandboxtest.Until(t, "the busy loops end", func() bool { return busyLoops(t, mark) == 0 })
			if how == os.Kill {
				exec.Command("kill", "-9", string(pid)).Run()
				return
			}
			if !strings.Contains(out.String(), "stopped: interrupt signal received\n  while made/hangs TestHangs ran\n0 tests") {
				t.Errorf("it printed:\n%s", out.String())
			}
			sandboxtest.Until(t, "the test ends", func() bool { return exec.Command("kill", "-0", string(pid)).Run() != nil })
		})
	}
}

// busyLoops returns how many loops run with a mark in their environment.
func busyLoops(t *testing.T, mark string) (n int) {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		environ, err := os.ReadFile(entry)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(entry), "cmdline"))
		if err == nil && strings.Contains(string(environ), mark) && strings.Contains(string(line), busyArgument) {
			n++
		}
	}
	return n
}

// The time is a bound: what has run until then is reported, and what it interrupts counts for nothing.
func TestTheTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("1h0m0s are over"))
	var out strings.Builder
	module(t, map[string]string{"flaky": flaky})
	if code := command(ctx, []string{"-n", "2", "-busy", "0", "-dir", t.TempDir()}, &out); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	if !strings.Contains(out.String(), "stopped: 1h0m0s are over\n") || strings.Contains(out.String(), "round 2") {
		t.Errorf("it printed:\n%s", out.String())
	}
}

func TestFailedTestsAreSorted(t *testing.T) {
	r := newResults(t.TempDir())
	for test, failures := range map[string][2]int{"often": {9, 1}, "old": {2, 3}, "new": {2, 5}, "never": {}} {
		n := name{"p", test}
		r.tests[n] = &tally{name: n, failures: failures[0], last: failures[1]}
	}
	var got []string
	for _, f := range r.failed() {
		got = append(got, f.test)
	}
	if diff := cmp.Diff([]string{"often", "new", "old"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
