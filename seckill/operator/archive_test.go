package operator

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/sandbox/sandboxtest"
)

// The command moves the rows of a shop of a year, even after a kill, and the audit reads them back. What would harm is refused.
func TestArchive(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	do := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v: %s", err, sql)
		}
	}
	count := func(sql string) (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sale := sandboxtest.Sale(t, env, 5) // writes a line of the log
	dir := filepath.Join(t.TempDir(), "kept")
	at, err := url.Parse(strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	clerk := fmt.Sprintf("archive_clerk_%d", time.Now().UnixNano()) // roles outlive a database
	at.User = url.UserPassword(clerk, "clerk")
	shop := "DATABASE_URL=" + at.String()
	do(`create role ` + clerk + ` login password 'clerk'; grant select, insert, update on all tables in schema public to ` + clerk)
	defer do(`drop owned by ` + clerk + `; drop role ` + clerk)
	for _, c := range []struct {
		env  []string
		args string
		code int
		want string
	}{
		{env, "archive", exitUsage, "--before"},
		{env, "archive --before 90", exitUsage, `--before: "90" is no age such as 90d or 2160h`},
		{env, "archive --before 29d --dir " + dir, exitUsage, "--before: at least 30 days: "},
		{env, "archive --before 90d", exitUsage, "--dir (MIAOSHA_ARCHIVE_DIR): required with a database of your own"},
		{append(env[1:len(env):len(env)], shop), "archive --before 90d --dir " + dir, 1, "this role may not move rows to files, which is for the owner of the tables"},
	} {
		if out, errs, code := sandboxtest.Command(t, c.env, strings.Fields(c.args)...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %s%s; want %d and %s", c.args, code, out, errs, c.code, c.want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
		t.Errorf("what was refused has written %q", files)
	}

	pool, err := pgxpool.New(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := fill(t.Context(), pool, 100, io.Discard); err != nil {
		t.Fatal(err)
	}
	const left = `select (select count(*) from order_events where at < now() - interval '90 days' and id < (select max(id) from order_events)) +
		(select count(*) from ticket_results where created_at < now() - interval '90 days')`
	old := count(left)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `lock table order_events, ticket_results in share mode`); err != nil { // no row can be deleted
		t.Fatal(err)
	}
	cmd := exec.Command(sandboxtest.Binary(t), "archive", "--before", "90d", "--dir", dir)
	cmd.Env = env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "a file has its row in archives", func() bool {
		var n int
		if err := tx.QueryRow(t.Context(), `select count(*) from archives`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	cmd.Process.Kill()
	cmd.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	audits := func(code int, want ...string) {
		t.Helper()
		out, errs, is := sandboxtest.Command(t, env, "audit", "--dir", dir)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("the audit does not say %q: %s%s", w, out, errs)
			}
		}
		if is != code {
			t.Errorf("the audit ends with %d, want %d: %s%s", is, code, out, errs)
		}
	}
	audits(0, "every invariant holds", "note: rows of these archives are still in their tables")
	sandboxtest.MustCommand(t, env, "archive", "--before", "90d", "--dir", dir)
	if left, gone := count(left), count(`select coalesce(sum(rows), 0)::int from archives where gone_at is not null`); left != 0 || gone != old {
		t.Errorf("%d old rows are left, and %d of %d are in files", left, gone, old)
	}
	audits(0, "every invariant holds", "2 files of archives")
	if n := count(`select count(*) from admin_log where action = 'shop.archive' and origin = 'miaosha archive'`); n != 3 {
		t.Errorf("%d lines of the log, want those of the move that was refused, of the killed one and of the last", n)
	}
	if out := sandboxtest.MustCommand(t, env, "archive", "--before", "90d", "--dir", dir); !strings.HasPrefix(out, "nothing is older than 90d") {
		t.Errorf("again: %s", out)
	}
	if list := sandboxtest.MustCommand(t, env, "sale", "list"); !strings.Contains(list, sale) {
		t.Errorf("the open sale is not in the list: %s", list)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	audits(1, "BROKEN archive: a file of miaosha archive is missing or damaged\n    "+filepath.Base(files[0])+" is not in the folder "+dir)
}
