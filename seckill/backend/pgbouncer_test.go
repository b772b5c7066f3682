package backend_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// pgBouncer runs a PgBouncer with the settings of deploy/pgbouncer.ini, except those that replace changes, in front of a database,
// and returns the URL through it.
func pgBouncer(t *testing.T, database string, replace map[string]string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("there is no pgbouncer here")
		}
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../deploy/pgbouncer.ini")
	if err != nil {
		t.Fatal(err)
	}
	port := sandboxtest.Port(t)
	dir, err := os.MkdirTemp("", "pgbouncer") // that of the test is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	password, _ := u.User.Password()
	text, users, conf := string(raw), filepath.Join(dir, "userlist.txt"), filepath.Join(dir, "pgbouncer.ini")
	name := strings.TrimPrefix(u.Path, "/")
	for old, other := range map[string]string{
		"\nshop = host=db port=5432 dbname=shop\n":    fmt.Sprintf("\n%s = host=%s port=%s dbname=%[1]s\n", name, u.Hostname(), u.Port()),
		"\nlisten_port = 6432\n":                      fmt.Sprintf("\nlisten_port = %s\n", port),
		"\nauth_file = /etc/pgbouncer/userlist.txt\n": "\nauth_file = " + users + "\n",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("deploy/pgbouncer.ini has no line %q", old)
		}
		text = strings.Replace(text, old, other, 1)
	}
	for setting, value := range replace {
		line := regexp.MustCompile(`(?m)^` + setting + ` = .*$`)
		if !line.MatchString(text) {
			t.Fatalf("deploy/pgbouncer.ini has no %s", setting)
		}
		text = line.ReplaceAllLiteralString(text, setting+" = "+value)
	}
	for path, what := range map[string]string{users: fmt.Sprintf("%q %q\n", u.User.Username(), password), conf: text} {
		if err := os.WriteFile(path, []byte(what), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{conf}
	if os.Getuid() == 0 { // it refuses to run as root
		args = []string{"-u", "nobody", conf}
	}
	var log sandboxtest.SyncBuffer
	cmd := exec.Command(program, args...)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	through := change(t, database, func(u *url.URL) { u.Host = fmt.Sprintf("127.0.0.1:%s", port) })
	plain := change(t, through, func(u *url.URL) { u.RawQuery += "&default_query_exec_mode=exec" })
	sandboxtest.Until(t, "PgBouncer answers", func() bool {
		conn, err := pgx.Connect(t.Context(), plain)
		if err != nil {
			return false
		}
		conn.Close(t.Context())
		return true
	})
	return through
}

// A PgBouncer with other settings than the documented ones is refused before the shop is open, with the setting that it lacks.
func TestAPgBouncerWithOtherSettingsIsRefused(t *testing.T) {
	t.Parallel()
	at, rdb := sandboxtest.DatabaseURL(t), sandboxtest.RedisURL(t)
	mode := func(at string) string {
		return change(t, at, func(u *url.URL) { u.RawQuery += "&default_query_exec_mode=cache_describe" })
	}
	openAt := func(at string) error {
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err == nil {
			s.Close()
		}
		return err
	}
	const setting, where = "--database-url (DATABASE_URL): ", "(deploy/README.md, Behind PgBouncer)"
	good := pgBouncer(t, at, nil)
	for range 2 {
		if err := openAt(mode(good)); err != nil {
			t.Errorf("the documented settings: %v", err)
		}
	}
	for name, test := range map[string]struct{ at, want string }{
		"without ignore_startup_parameters": {mode(pgBouncer(t, at, map[string]string{"ignore_startup_parameters": "extra_float_digits"})), "set ignore_startup_parameters as deploy/pgbouncer.ini has it"},
		"statement mode":                    {mode(pgBouncer(t, at, map[string]string{"pool_mode": "statement"})), "set pool_mode = transaction"},
		"with prepared statements":          {good, "add ?default_query_exec_mode=cache_describe to it"},
	} {
		if err := openAt(test.at); err == nil || !strings.HasPrefix(err.Error(), setting) || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), where) || strings.ContainsAny(err.Error(), "\r\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
