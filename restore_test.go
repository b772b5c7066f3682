package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// postgresProgram runs a program of the test's Postgres, such as pg_dump.
func postgresProgram(t *testing.T, db *pgx.Conn, name string, args ...string) {
	t.Helper()
	var bin string
	if err := db.QueryRow(t.Context(), `select setting from pg_config where name = 'BINDIR'`).Scan(&bin); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Env = []string{"LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// logIn begins a session of a buyer, as a log-in does.
func logIn(t *testing.T, env []string, id int64) string {
	t.Helper()
	sessions, err := user.NewSessions(sandboxtest.RedisOptions(t, strings.TrimPrefix(env[1], "REDIS_URL=")), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close()
	token, _, err := sessions.Start(t.Context(), user.User{ID: id, Role: user.RoleBuyer}, "192.0.2.1", "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func ids(buyers []*sandboxtest.Buyer) (all []int64) {
	for _, b := range buyers {
		all = append(all, b.ID)
	}
	return all
}

// Postgres is restored from a dump, and Redis is not. What Redis has seen after the dump counts no more.
func TestARestoreOfPostgresEndsWhatRedisHas(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off")
	at := strings.TrimPrefix(env[0], "DATABASE_URL=")
	db, dump := database(t, env), filepath.Join(t.TempDir(), "dump")
	s := sandboxtest.Open(t, env)
	sale, paused := sandboxtest.Sale(t, env, 10), sandboxtest.Sale(t, env, 10)
	early := s.Buyers(t, 2, sale)
	kept := early[0].Order(t)
	postgresProgram(t, db, "pg_dump", "--format=custom", "--file="+dump, at)

	lost := early[1].Order(t)
	late := s.Buyers(t, 20, sale)
	late[0].Order(t)
	lostSale := sandboxtest.Sale(t, env, 1)
	sandboxtest.MustCommand(t, env, "sale", "pause", paused)
	s.End(syscall.SIGTERM)
	more := sandboxtest.Buyers(t, env, 3, "") // by a command, while no process runs
	highest := slices.Max(ids(more))
	postgresProgram(t, db, "pg_restore", "--clean", "--if-exists", "--dbname="+at, dump)

	if _, errs, code := sandboxtest.Command(t, env, "users", "-n", "1"); code == 0 || !strings.Contains(errs, "start the shop (miaosha serve)") {
		t.Errorf("a command before the start: exit %d, %s", code, errs)
	}
	s = sandboxtest.Open(t, env)
	t.Logf("the start says\n%s", s.Say)
	for _, line := range []string{"Postgres has gone back, by a restore or a failover: ", "  a new incarnation of the shop begins: ", "  --redis-url (REDIS_URL): "} {
		if strings.Count(s.Say.String(), line) != 1 {
			t.Errorf("the start says\n%s", s.Say)
		}
	}
	for _, b := range slices.Concat(early, late, more) {
		if r := sandboxtest.Call("GET", s.URL+"/api/me", b.Token, ""); r.Status != 401 {
			t.Fatalf("a token of before opens an account: %d %s", r.Status, r.Raw)
		}
	}
	next := s.Buyers(t, 1, paused)
	if next[0].ID <= highest {
		t.Errorf("user %d was given again: %d", highest, next[0].ID)
	}
	if id := sandboxtest.Sale(t, env, 1); must(strconv.Atoi(id)) <= must(strconv.Atoi(lostSale)) {
		t.Errorf("sale %s was given again: %s", lostSale, id)
	}
	next[0].Order(t) // the sale that was paused after the dump sells
	for i, b := range early {
		b.Token, b.Path = logIn(t, env, b.ID), ""
		b.At(func() string { return s.URL })
		p := b.AskResult().Purchase()
		if i == 0 && (p.State != "ordered" || p.OrderID != kept) || i == 1 && p.State != "none" {
			t.Errorf("the buyer %d is told %+v", i, p)
		}
	}
	if again := early[1].Order(t); again == lost {
		t.Error("the lost order is told of")
	} else if r := sandboxtest.Call("GET", s.URL+"/api/orders/"+again, early[1].Token, ""); r.Code != "ok" {
		t.Errorf("the new order: %d %s", r.Status, r.Raw)
	}
	if out, _, _ := sandboxtest.Command(t, env, "audit"); regexp.MustCompile(`BROKEN I[1-8]\b|BROKEN I1[01]`).MatchString(out) {
		t.Errorf("the audit says\n%s", out)
	}
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log)
	}
	if s = sandboxtest.Open(t, env); strings.Contains(s.Say.String(), "incarnation") {
		t.Errorf("the next start says\n%s", s.Say)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A restore under a running process ends it; a copy of the database beside it, and another shop, are refused.
func TestTwoDatabasesDoNotShareARedis(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off")
	at := strings.TrimPrefix(env[0], "DATABASE_URL=")
	db, dump := database(t, env), filepath.Join(t.TempDir(), "dump")
	s := sandboxtest.Open(t, env)
	postgresProgram(t, db, "pg_dump", "--format=custom", "--file="+dump, at)
	buyers := s.Buyers(t, 1, sandboxtest.Sale(t, env, 1))
	buyers[0].Order(t)

	staging := sandboxtest.Stores(t)
	beside := append(slices.Clone(staging), env[1])
	other := database(t, staging)
	if _, err := other.Exec(t.Context(), `update shop set shop = gen_random_uuid()`); err != nil {
		t.Fatal(err)
	}
	refused := func(what, says string, args ...string) {
		t.Helper()
		_, errs, code := sandboxtest.Command(t, beside, args...)
		if code != 1 || !strings.Contains(errs, "--redis-url (REDIS_URL): ") || !strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", what, code, errs)
		}
	}
	refused("another shop", "this Redis is in use by another shop (")
	refused("a command of another shop", "this Redis is in use by another shop (", "users", "-n", "1")
	postgresProgram(t, other, "pg_restore", "--clean", "--if-exists", "--dbname="+strings.TrimPrefix(staging[0], "DATABASE_URL="), dump)
	refused("a copy beside", "stop that process")
	if r := sandboxtest.Call("GET", s.URL+"/api/me", buyers[0].Token, ""); r.Status != 200 {
		t.Errorf("the shop that runs: %d %s", r.Status, r.Raw)
	}

	postgresProgram(t, db, "pg_restore", "--clean", "--if-exists", "--dbname="+at, dump)
	if code := s.Wait(t); code != 1 || !strings.Contains(s.Log.String(), "this process sells nothing more and ends") {
		t.Errorf("after a restore it ended with %d\n%s", code, s.Log)
	}
	s = sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/me", buyers[0].Token, ""); r.Status != 401 {
		t.Errorf("a token of before: %d %s", r.Status, r.Raw)
	}
}
