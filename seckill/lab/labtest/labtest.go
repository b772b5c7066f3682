// Package labtest has what the tests of several rooms of the lab need: stores, small crowds, and the attacks on the
// judge.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/yuin/gopher-lua/parse"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/throwaway"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Stores returns the servers of a test, and a Postgres for each program.
func Stores(t *testing.T) lab.Stores {
	t.Helper()
	schema, err := os.ReadFile("../../schema.sql")
	if errors.Is(err, fs.ErrNotExist) { // a room of the lab
		schema, err = os.ReadFile("../../../schema.sql")
	}
	if err != nil {
		t.Fatal(err)
	}
	spare := throwaway.Programs(sandboxtest.Spare(t))
	return lab.Stores{DatabaseURL: sandboxtest.DatabaseURL(t), Redis: sandboxtest.Redis(t), Schema: string(schema),
		Throwaway: func(context.Context) (throwaway.Programs, error) { return spare, nil }}
}

// ParallelRuns limits the runs and races at one time. Each has up to 27 connections to the test's
// Postgres.
var ParallelRuns = make(chan struct{}, 10)

// NothingIsLeft checks that the stores are empty, except for captchas, which expire.
func NothingIsLeft(t *testing.T, s lab.Stores) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var schemas, sales, orders int
	if err := db.QueryRow(t.Context(), `
		select (select count(*) from pg_namespace where nspname like 'lab%'), (select count(*) from public.sales), (select count(*) from public.orders)`).
		Scan(&schemas, &sales, &orders); err != nil || schemas+sales+orders != 0 {
		t.Errorf("%d schemas, %d sales, %d orders are left, %v", schemas, sales, orders, err)
	}
	keys, err := s.Redis.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.Contains(key, ":captcha:") {
			t.Errorf("%s is left", key)
		}
		if life := s.Redis.TTL(t.Context(), key).Val(); life <= 0 || life > time.Minute {
			t.Errorf("%s lives for %v", key, life)
		}
	}
}

// LabSchemas returns how many runs and experiments have their tables in the database.
func LabSchemas(t *testing.T, db *pgx.Conn) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'lab%'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Die ends the session of a namespace, as the death of its process does, and waits until Postgres has noticed.
func Die(t *testing.T, n *lab.Namespace, db *pgx.Conn) {
	t.Helper()
	pid := n.Admin.PgConn().PID()
	if err := n.Admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "Postgres has ended the session", func() (ended bool) {
		if err := db.QueryRow(t.Context(), `select not exists (select from pg_stat_activity where pid = $1)`, pid).Scan(&ended); err != nil {
			t.Fatal(err)
		}
		return ended
	})
}

// Seeds returns how many crowds a strategy meets, and whether it meets all of them: MIAOSHA_LAB_SEEDS
// of them (fifty by hand), all of them. Without it a right strategy meets few, and a wrong one meets as many as it
// takes until it goes wrong: in which crowd it does is a matter of luck.
func Seeds(t *testing.T, right bool, few uint64) (n uint64, all bool) {
	n, err := strconv.ParseUint(os.Getenv("MIAOSHA_LAB_SEEDS"), 10, 64)
	switch {
	case err != nil && right:
		return few, false
	case err != nil:
		return 500, false
	}
	t.Logf("%d seeds", n)
	return n, true
}

// SmallPlan returns a plan with a small crowd.
func SmallPlan(seed uint64, strategy string, faults ...string) lab.Plan {
	return lab.Plan{Strategies: []string{strategy}, Buyers: 60, Stock: 20, DoubleClicks: 60, Faults: faults, Seed: seed,
		Seconds: lab.MaxSeconds}
}

// Failures returns the failures of a result by name.
func Failures(r lab.Result) map[string]int {
	return map[string]int{lab.Oversold: r.Oversold, lab.Unsold: r.Unsold, lab.Duplicates: r.Duplicates,
		lab.Lost: r.Lost}
}

// Patient returns a context in which no machine is too slow for a program, and in which few schedules are searched:
// all with one move, and some with two. With MIAOSHA_LAB_SEEDS as many are searched as ever.
func Patient(t *testing.T) context.Context {
	l := program.LimitsIn(t.Context())
	l.Compile, l.Statement, l.Search, l.Trial = sandboxtest.Hang, sandboxtest.Hang, sandboxtest.Hang, sandboxtest.Hang/3
	if os.Getenv("MIAOSHA_LAB_SEEDS") == "" {
		l.Schedules = 120
	}
	return program.WithLimits(t.Context(), l)
}

// CheckLua reports a program that is not Lua.
func CheckLua(t *testing.T, name, source string) {
	t.Helper()
	if _, err := parse.Parse(strings.NewReader(source), name); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if !strings.Contains(source, "function buy(user)") {
		t.Errorf("%s has no buy", name)
	}
}

// Shown is a result without its steps.
func Shown(r lab.Result) string {
	v := r.Verdict
	r.Verdict = nil
	return fmt.Sprintf("%+v %+v", r, v.Schedule)
}

// ThrowawayServer starts a Postgres as a program has one, and returns its URLs for the role of a program and for its
// judge. A child of the test then has serverChildVariable in its environment.
func ThrowawayServer(t *testing.T, s lab.Stores) (program, judge string) {
	t.Helper()
	programs, err := s.Throwaway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, err := throwaway.Start(t.Context(), programs,
		throwaway.Limits{Processor: sandboxtest.Hang, Memory: 512 << 20, Folder: 512 << 20, Files: 20_000},
		append(os.Environ(), serverChildVariable))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.URL(throwaway.Role) + "&default_query_exec_mode=exec", server.URL(throwaway.Superuser)
}

// serverChildVariable makes a child of the test the wrapper of a Postgres: see Child.
const serverChildVariable = "MIAOSHA_LAB_PROGRAM=server"
