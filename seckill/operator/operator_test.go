package operator

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

func call(t *testing.T, s *sandboxtest.Shop, method, path, token, body string, want int, headers ...string) sandboxtest.Reply {
	t.Helper()
	r := sandboxtest.Call(method, s.URL+path, token, body, headers...)
	if r.Status != want {
		t.Fatalf("%s %s: %d %s %s, want %d\n%s", method, path, r.Status, r.Code, r.Msg, want, s.Log)
	}
	return r
}

func text(t *testing.T, r sandboxtest.Reply, field string) string {
	t.Helper()
	var all map[string]any
	r.Read(t, &all)
	s, _ := all[field].(string)
	return s
}

// A shop on its own stores starts without accounts, so without a password that others know. The
// command admin creates its administrators, each with another password, and prints it once.
func TestTheFirstAdministratorIsMadeByCommand(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	s := sandboxtest.Open(t, env)
	if say := s.Say.String(); strings.Contains(say, "demo ") {
		t.Errorf("the shop prints demo accounts: %s", say)
	}
	if n := countUsers(t, env); n != 0 {
		t.Errorf("a new shop has %d accounts", n)
	}
	made := regexp.MustCompile(`(?m)^password: (\S{20,})$`)
	first := made.FindStringSubmatch(sandboxtest.MustCommand(t, env, "admin", "--phone", "13911112222"))
	second := made.FindStringSubmatch(sandboxtest.MustCommand(t, env, "admin", "--phone", "+86 139-1111-3333", "--by", "139 1111 2222"))
	if first == nil || second == nil {
		t.Fatalf("the created passwords are %q and %q", first, second)
	}
	if first[1] == second[1] {
		t.Errorf("both administrators have the password %q", first[1])
	}
	if n := countUsers(t, env); n != 2 {
		t.Errorf("there are %d accounts, want the 2 administrators", n)
	}
	token := text(t, call(t, s, "POST", "/api/login", "", `{"phone":"13911112222","password":"`+first[1]+`"}`, 200), "token")
	if role := text(t, call(t, s, "GET", "/api/me", token, "", 200), "role"); role != "admin" {
		t.Errorf("the role is %q, want admin", role)
	}
	call(t, s, "POST", "/api/login", "", `{"phone":"13911113333","password":"`+first[1]+`"}`, 401)
	if printed := s.Say.String() + s.Log.String(); strings.Contains(printed, first[1]) {
		t.Errorf("the shop prints the password: %s", printed)
	}
}

func countUsers(t *testing.T, env []string) int {
	t.Helper()
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	rows, _ := db.Query(t.Context(), `select count(*) from users`)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
