package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/sandbox/sandboxtest"
)

// starter is a folder of seckill/lab/starters. command builds the shop in a folder, if it has to be built, and returns the
// command that starts it.
type starter struct {
	source  string
	program string // without which the test is skipped
	command func(t *testing.T, source, dir string) string
}

var starters = map[string]starter{
	"go": {"shop.go", "go", goShop},
	"java": {"Shop.java", "javac", func(t *testing.T, source, dir string) string {
		run(t, "javac", "-encoding", "UTF-8", "-d", dir, source)
		return "java -XX:TieredStopAtLevel=1 -Xmx64m -cp " + dir + " Shop"
	}},
	"python": {"shop.py", "python3", func(t *testing.T, source, _ string) string {
		return run(t, "python3", "-c", "import sys; print(sys.executable)") + " " + source // what stands behind a version manager, which needs its home
	}},
	"node": {"shop.js", "node", func(t *testing.T, source, _ string) string { return "node " + source }},
}

const startersDir = "../lab/starters"

// goShop builds the starter in Go of another source: it needs the module of the repository.
func goShop(t *testing.T, source, dir string) string {
	starter := absolute(startersDir + "/go/shop.go")
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "shop")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`, starter, source), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-ldflags=-w -s", "-overlay", overlay, "-o", binary, starter)
	return binary
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// solved writes a starter's source with the solution in place of the part between its marks, as the README says.
func solved(t *testing.T, folder, source, dir string) string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(startersDir, folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before, rest, from := strings.Cut(read(source), "---- your way to sell: from here ----\n")
	old, after, to := strings.Cut(rest, "---- your way to sell: to here ----")
	if !from || !to || !strings.Contains(old, "HERE") {
		t.Fatalf("%s has no part to replace, or does not say what is wrong in it", source)
	}
	mark := old[strings.LastIndex(old, "\n")+1:] // the beginning of a comment
	file := filepath.Join(dir, source)
	text := before + "---- your way to sell: from here ----\n\n" + read("solution.txt") + "\n" + mark + "---- your way to sell: to here ----" + after
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// outsideEnv returns the environment of a command that finds other programs.
func outsideEnv(t *testing.T) []string {
	return append(sandboxtest.Stores(t), "PATH="+os.Getenv("PATH"))
}

// Each starter oversells as it is, and is right with its solution, even when a process is killed. MIAOSHA_LAB_SEEDS judges
// each with that many crowds.
func TestStartersAreJudged(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("MIAOSHA_LAB_SEEDS"))
	if err != nil {
		seeds = 1
	}
	for folder, s := range starters {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(s.program); err != nil {
				t.Skip(err)
			}
			dir, env := t.TempDir(), outsideEnv(t)
			source := absolute(filepath.Join(startersDir, folder, s.source))
			judge := func(command string, seed int, args ...string) (r lab.Result) {
				args = append([]string{"lab", "--mine", command, "--buyers", "60", "--stock", "20", "--double-clicks", "50", "--seed", strconv.Itoa(seed), "--json"}, args...)
				out, errs, code := sandboxtest.Command(t, env, args...)
				var results []lab.Result
				if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 || len(results) != 1 || results[0].Error != "" {
					t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
				}
				return results[0]
			}
			wrong := s.command(t, source, t.TempDir())
			right := s.command(t, solved(t, folder, s.source, dir), dir)
			page := filepath.Join(dir, "mine.html")
			for seed := 1; seed <= seeds; seed++ {
				if r := judge(wrong, seed, "--html", page); r.Right || r.Oversold == 0 || r.Strategy != lab.Student {
					t.Errorf("seed %d: as it is: %+v", seed, r)
				}
				if r := judge(right, seed, "--faults", "kill"); !r.Right || r.Sold != 20 {
					t.Errorf("seed %d: with the solution and a kill: %+v", seed, r)
				}
			}
			text, err := os.ReadFile(page)
			if err != nil || !strings.Contains(string(text), ">mine</th>") || !strings.Contains(string(text), ">wrong<") || strings.Contains(string(text), "<details") {
				t.Errorf("the page shows other things than one wrong shop without a source: %v\n%s", err, text)
			}
		})
	}
}

// What cannot be judged is said: a program that ends, a fault that does not reach it, strategies beside it.
func TestOutsideShopsThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	env := outsideEnv(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--mine", "echo no such class; exit 3"}, 1, "the program ended before it was ready (exit status 3)\nthe last lines that it printed:\n  no such class\n"},
		{[]string{"--mine", "true", "--faults", "redis-pause"}, 2, "--faults: redis-pause does not reach an outside shop"},
		{[]string{"--mine", "true", "--strategies", "guard"}, 2, "--strategies: --mine judges your shop alone"},
		{[]string{"--mine", "true", "--processes", "9"}, 2, "--processes: 0 to 8"},
	} {
		if _, errs, code := sandboxtest.Command(t, env, append([]string{"lab"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d %s", c.args, code, errs)
		}
	}
	if n := labLeft(t, env); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

// labLeft returns how many schemas of the lab there are.
func labLeft(t *testing.T, env []string) (n int) {
	t.Helper()
	if err := connect(t, env).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'lab%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
