package operator

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The lab's command shows the outcome of each strategy, as a table, as JSON and as a page. A strategy
// that goes wrong is not a failure of the command.
func TestLabComparesStrategies(t *testing.T) {
	t.Parallel()
	env, file := sandboxtest.Stores(t), filepath.Join(t.TempDir(), "lab.html")
	args := []string{"lab", "--strategies", "read-then-write,guard-unique,shop", "--buyers", "50", "--stock", "10", "--double-clicks", "30"}

	var errs string
	var results []lab.Result
	sandboxtest.Until(t, "read-then-write has no luck", func() bool {
		out, says, code := sandboxtest.Command(t, env, append(args, "--json", "--html", file)...)
		errs, results = says, nil
		if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 {
			t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
		}
		if len(results) != 3 {
			t.Fatalf("%d results, want 3: %s", len(results), out)
		}
		return results[0].Oversold > 0
	})
	// The figures differ from run to run, and so does the number of units oversold.
	oversold := results[0].Oversold
	want := []lab.Result{
		{Strategy: "read-then-write", Stock: 10, Buyers: 50, Sold: 10 + oversold, Oversold: oversold},
		{Strategy: "guard-unique", Stock: 10, Buyers: 50, Sold: 10, Right: true},
		{Strategy: "shop", Stock: 10, Buyers: 50, Sold: 10, Right: true},
	}
	figures := cmpopts.IgnoreFields(lab.Result{}, "Seconds", "PerSecond", "P99", "SQLPerOrder", "RedisPerOrder", "Duplicates", "Lost", "Holds", "Busy")
	if diff := cmp.Diff(want, results, figures); diff != "" {
		t.Errorf("results (-want +got): %s", diff)
	}
	for _, r := range results {
		if r.Seconds <= 0 || r.PerSecond <= 0 || r.P99 <= 0 {
			t.Errorf("a time is missing: %+v", r)
		}
		if r.SQLPerOrder <= 0 || (r.RedisPerOrder > 0) != (r.Strategy == "shop") {
			t.Errorf("the statements per order are wrong: %+v", r)
		}
	}
	if r := results[0]; r.SQLPerOrder < 1 {
		t.Errorf("an order of read-then-write takes %v statements", r.SQLPerOrder)
	}
	if n := strings.Count(errs, "50 of 50 buyers answered"); n != 3 {
		t.Errorf("%d progress lines, want 3: %s", n, errs)
	}
	if !strings.HasPrefix(errs, "lab: 3 strategies, ") || !strings.Contains(errs, "the page is in "+file) {
		t.Errorf("want first what begins, and at last where the page is: %s", errs)
	}

	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"50 buyers, 10 units", ">right<", ">wrong<", "strategy_read_then_write.go", `class="marked"`, "select stock from item"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if out := regexp.MustCompile(`(?i)(src|href)="[^#]|@import|url\(`).FindAll(page, -1); out != nil {
		t.Errorf("the page needs other files: %q", out)
	}

	lucky := sandboxtest.MustCommand(t, env, "lab", "--strategies", "guard", "--buyers", "20", "--stock", "10", "--double-clicks", "0")
	if !regexp.MustCompile(`(?m)^guard +10 .* right \(lucky\)$`).MatchString(lucky) || !strings.Contains(lucky, "the strategy is wrong") {
		t.Errorf("a wrong strategy that is exact: %s", lucky)
	}

	var table string
	sandboxtest.Until(t, "read-then-write has no luck again", func() bool {
		table = sandboxtest.MustCommand(t, env, args...)
		return regexp.MustCompile(`(?m)^read-then-write .* WRONG$`).MatchString(table)
	})
	if !regexp.MustCompile(`(?m)^guard-unique +10 .* right$`).MatchString(table) {
		t.Error(table)
	}
	for _, bad := range [][2]string{{"--strategies=hope", "--strategies: "}, {"--double-clicks=101", "--double-clicks: 0 to 100"}, {"--faults=flood", "--faults: "}} {
		if _, errs, code := sandboxtest.Command(t, env, "lab", bad[0]); code != 2 || !strings.Contains(errs, bad[1]) {
			t.Errorf("%s: exit %d %s", bad[0], code, errs)
		}
	}
}

// An interrupted command leaves nothing behind.
func TestLabCleansUpAfterAnInterrupt(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	cmd := exec.Command(sandboxtest.Binary(t), "lab", "--strategies", "guard-unique,optimistic-retry", "--buyers", "3000", "--stock", "1000", "--seconds", "30")
	stderr := &sandboxtest.SyncBuffer{}
	cmd.Env, cmd.Stderr = env, stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { cmd.Process.Kill() })
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	schemas := func() (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'lab%'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sandboxtest.Until(t, "the lab begins", func() bool { return schemas() > 0 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-ended:
	case <-time.After(sandboxtest.Hang):
		t.Fatalf("the command continues: %s", stderr)
	}
	if n := schemas(); n != 0 || err == nil {
		t.Errorf("%v, and %d schemas are left: %s", err, n, stderr)
	}
	if !regexp.MustCompile(`miaosha: stopped: [01] of 2 strategies had ended.* nothing is left behind`).MatchString(stderr.String()) {
		t.Error(stderr)
	}
}
