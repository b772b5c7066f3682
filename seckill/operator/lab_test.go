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

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The lab's command says what came of each way, to people and to programs, and that wrong ones go wrong is no failure of its.
func TestLabCompares(t *testing.T) {
	t.Parallel()
	env, file := sandboxtest.Stores(t), filepath.Join(t.TempDir(), "lab.html")
	args := []string{"lab", "--strategies", "read-then-write,guard-unique,shop", "--buyers", "50", "--stock", "10", "--double-clicks", "30"}

	out, errs, code := sandboxtest.Command(t, env, append(args, "--json", "--html", file)...)
	var results []lab.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 0 || len(results) != 3 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if r := results[0]; r.Strategy != "read-then-write" || r.Right || r.Oversold == 0 || r.Sold != r.Stock+r.Oversold || r.SQLPerOrder < 1 || r.PerSecond <= 0 {
		t.Errorf("%+v", r)
	}
	for _, r := range results[1:] {
		if !r.Right || r.Sold != 10 || r.Stock != 10 || r.Buyers != 50 || r.Seconds <= 0 || r.P99 <= 0 || r.SQLPerOrder <= 0 || (r.RedisPerOrder > 0) != (r.Strategy == "shop") {
			t.Errorf("%+v", r)
		}
	}
	if n := strings.Count(errs, "50 of 50 buyers answered"); n != 3 {
		t.Errorf("the progress has %d lines: %s", n, errs)
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

	table := sandboxtest.MustCommand(t, env, args...)
	if !regexp.MustCompile(`(?m)^read-then-write .* WRONG$`).MatchString(table) || !regexp.MustCompile(`(?m)^guard-unique +10 .* right$`).MatchString(table) {
		t.Error(table)
	}
	for _, bad := range [][2]string{{"--strategies=hope", "--strategies: "}, {"--double-clicks=101", "--double-clicks: 0 to 100"}, {"--faults=flood", "--faults: "}} {
		if _, errs, code := sandboxtest.Command(t, env, "lab", bad[0]); code != 1 || !strings.Contains(errs, bad[1]) {
			t.Errorf("%s: exit %d %s", bad[0], code, errs)
		}
	}
}

// Who breaks it off leaves nothing behind.
func TestLabIsBrokenOff(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	cmd := exec.Command(sandboxtest.Binary(t), "lab", "--strategies", "guard-unique,optimistic-retry", "--buyers", "3000", "--stock", "1000", "--seconds", "30")
	said := &sandboxtest.Tape{}
	cmd.Env, cmd.Stderr = env, said
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
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); schemas() == 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("the lab does not begin: %s", said)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err = <-ended:
	case <-time.After(20 * time.Second):
		t.Fatalf("it goes on: %s", said)
	}
	if n := schemas(); n != 0 || err == nil {
		t.Errorf("%v, and %d schemas are left: %s", err, n, said)
	}
}
