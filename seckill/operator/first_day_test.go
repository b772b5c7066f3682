package operator

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The sandbox's accounts are public: it opens no door that others reach unless it is told to, and says so before it starts
// anything. A shop on stores of its own listens where it likes.
func TestTheSandboxStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "MIAOSHA_DATA_DIR=" + dir + "/data"}
	const closed, off = "127.0.0.1:0", "off"
	for _, c := range []struct{ addr, ops, names string }{
		{"0.0.0.0:0", off, "--addr"}, {":0", off, "--addr"}, {"[::]:0", off, "--addr"}, {"192.0.2.1:8080", off, "--addr"}, {"shop.example:8080", off, "--addr"},
		{closed, "0.0.0.0:0", "--ops-addr"}, {closed, ":0", "--ops-addr"}, {closed, "[::]:0", "--ops-addr"},
	} {
		out, errs, code := sandboxtest.Command(t, env, "--addr", c.addr, "--ops-addr", c.ops)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.names+" ") || !strings.Contains(errs, "--allow-lan") {
			t.Fatalf("--addr %s --ops-addr %s: exit %d\n%s%s", c.addr, c.ops, code, out, errs)
		}
	}
	// With an own Redis it is the sandbox still: its accounts are in Postgres.
	stores := sandboxtest.Stores(t)
	half := append(slices.Clone(env), stores[1])
	if _, errs, code := sandboxtest.Command(t, half, "--addr", "0.0.0.0:0", "--ops-addr", "off"); code == 0 || !strings.Contains(errs, "--allow-lan") {
		t.Errorf("beside an own Redis: exit %d %s", code, errs)
	}
	if _, err := os.Stat(dir + "/data"); !os.IsNotExist(err) {
		t.Errorf("a refused sandbox left its data folder: %v", err)
	}

	t.Cleanup(func() { sandboxtest.Command(t, env, "reset", "--yes") })
	s := sandboxtest.Open(t, env, "--addr", "0.0.0.0:0", "--ops-addr", "0.0.0.0:0", "--allow-lan")
	if r := sandboxtest.Call("GET", s.URL+"/api/sales", "", ""); r.Code != "ok" {
		t.Errorf("with --allow-lan: %d %s", r.Status, r.Code)
	}
	demo := regexp.MustCompile(`demo administrator  (\d+) / (\S+)`).FindStringSubmatch(s.Say.String())
	if demo == nil {
		t.Fatalf("the sandbox does not say who its administrator is: %s", s.Say)
	}
	login := `{"phone":"` + demo[1] + `","password":"` + demo[2] + `"}`
	if r := sandboxtest.Call("POST", s.URL+"/api/login", "", login); r.Code != "ok" {
		t.Errorf("the demo administrator: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)

	own := sandboxtest.Open(t, stores, "--addr", "0.0.0.0:0")
	if r := sandboxtest.Call("POST", own.URL+"/api/login", "", login); r.Code != "wrong_password" {
		t.Errorf("the demo administrator of a shop on stores of its own: %d %s", r.Status, r.Code)
	}
}

// A shop on stores of its own begins without anybody: no account, no password that somebody else knows. Its first
// administrator is made at the terminal, where his password is shown once, and each has another.
func TestTheFirstAdministratorIsMadeByCommand(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	s := sandboxtest.Open(t, env)
	if say := s.Say.String(); strings.Contains(say, "demo ") {
		t.Errorf("it speaks of demo accounts: %s", say)
	}
	if n := users(t, env); n != 0 {
		t.Errorf("a new shop has %d accounts", n)
	}
	made := regexp.MustCompile(`(?m)^password: (\S{20,})$`)
	first := made.FindStringSubmatch(sandboxtest.MustCommand(t, env, "admin", "--phone", "13911112222"))
	second := made.FindStringSubmatch(sandboxtest.MustCommand(t, env, "admin", "--phone", "13911113333"))
	if first == nil || second == nil || first[1] == second[1] {
		t.Fatalf("the passwords made are %q and %q", first, second)
	}
	if n := users(t, env); n != 2 {
		t.Errorf("there are %d accounts, want the two administrators", n)
	}
	token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"13911112222","password":"`+first[1]+`"}`, 200), "token")
	if role := text(t, call(t, s, "GET", "/api/me", token, "", 200), "role"); role != "admin" {
		t.Errorf("his role is %q", role)
	}
	call(t, s, "POST", "/api/login", "", `{"phone":"13911113333","password":"`+first[1]+`"}`, 401)
	if printed := s.Say.String() + s.Log.String(); strings.Contains(printed, first[1]) {
		t.Errorf("the shop prints his password: %s", printed)
	}
}

func users(t *testing.T, env []string) (n int) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	if err := db.QueryRow(t.Context(), `select count(*) from users`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
