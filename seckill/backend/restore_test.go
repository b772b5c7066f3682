package backend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/audit"
	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// postgresTool returns the path of pg_dump, pg_restore or psql.
func postgresTool(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return found[len(found)-1]
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI has no %s, which Debian's package postgresql has", name)
	}
	t.Skipf("this machine has no %s", name)
	return ""
}

// tool runs pg_dump, pg_restore or psql, and returns what it printed and its error.
func tool(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, postgresTool(t, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// needTools skips the test if the pg_dump of this machine is too old for the server of the tests.
func needTools(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	out, err := tool(t, "pg_dump", "--version")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	major, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(out))
	if server := number(t, conn, `select current_setting('server_version_num')::int / 10000`); major < server {
		t.Skipf("%s is older than the server of the tests, %d", strings.TrimSpace(out), server)
	}
}

// restoreSource is a shop that has sold, and of which dumps are made.
type restoreSource struct {
	url   string // as a superuser
	admin *pgx.Conn
	env   []string
}

// startSource sells in a shop whose database belongs to the plain role keeper, and where the role clerk has no more
// rights than it needs. It calls meanwhile while buyers buy.
func startSource(t *testing.T, meanwhile func(restoreSource)) restoreSource {
	t.Helper()
	env := sandboxtest.Stores(t)
	s := restoreSource{url: strings.TrimPrefix(env[0], "DATABASE_URL="), env: append(env, "MIAOSHA_CAPTCHA=off")}
	s.admin = connect(t, s.url)
	needTools(t, s.admin)
	for _, role := range []string{"keeper", "clerk", "stranger"} {
		do(t, s.admin, fmt.Sprintf("create role %s login password '%[1]s'", role))
	}
	t.Cleanup(func() {
		for _, sql := range []string{"reassign owned by keeper to current_user", "drop owned by keeper, clerk", "drop role keeper, clerk, stranger"} {
			if _, err := s.admin.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	do(t, s.admin, `do $$ declare of record; begin
		execute format('alter database %I owner to keeper', current_database());
		for of in select oid::regclass as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v') loop
			execute format('alter table %s owner to keeper', of.name);
		end loop;
		for of in select oid::regprocedure as name from pg_proc where pronamespace = 'public'::regnamespace loop
			execute format('alter function %s owner to keeper', of.name);
		end loop;
		alter sequence gate_epoch owner to keeper;
		grant select, insert, update on all tables in schema public to clerk;
		grant usage on sequence gate_epoch to clerk;
		grant execute on function change_role, disable_user, new_incarnation to clerk; end $$`)
	sale := sandboxtest.Sale(t, s.env, 100)
	shop := sandboxtest.Open(t, s.env)
	buyers := shop.Buyers(t, 8, sale)
	for _, b := range buyers[:4] {
		b.Order(t)
	}
	var crowd errgroup.Group
	for _, b := range buyers[4:] {
		crowd.Go(func() error { b.Order(t); return nil })
	}
	meanwhile(s)
	if err := crowd.Wait(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.MustCommand(t, s.env, "admin", "--phone", "13912345678")
	shop.End(os.Interrupt)
	return s
}

// as returns the URL of another role, and of another database if there is a name.
func as(t *testing.T, at, role, database string) string {
	t.Helper()
	return change(t, at, func(u *url.URL) {
		if role != "" {
			u.User = url.UserPassword(role, role)
		}
		if database != "" {
			u.Path = "/" + database
		}
	})
}

// newTarget makes an empty database of a role.
func (s restoreSource) newTarget(t *testing.T, owner string) (superuser, asOwner string) {
	t.Helper()
	name := fmt.Sprintf("restored_%d", databases.Add(1))
	do(t, s.admin, fmt.Sprintf("create database %s owner %s", name, owner))
	t.Cleanup(func() {
		if _, err := s.admin.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return as(t, s.url, "", name), as(t, s.url, owner, name)
}

// audited audits a database and returns what the audit prints.
func audited(t *testing.T, at string) (out string, clean bool) {
	t.Helper()
	db, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	clean, err = audit.Run(t.Context(), db, sandboxtest.Redis(t), &b)
	if err != nil {
		t.Fatalf("audit: %v: %s", err, &b)
	}
	if found, err := audit.Quick(t.Context(), db, nil); err != nil || clean && len(found) > 0 {
		t.Errorf("the audit of each minute found %v, %v", found, err)
	}
	return b.String(), clean
}

// opened opens the stores as a shop does, closes them and returns what the start has logged.
func opened(t *testing.T, at string) (log string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	var b sandboxtest.SyncBuffer
	s, err := backend.Open(ctx, backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: usual}, schema(t),
		slog.New(slog.NewTextHandler(&b, nil)))
	if err == nil {
		s.Close()
	}
	return b.String(), err
}

const openRights = "every role may execute change_role(bigint, bigint, text), as after a restore without rights (-x): revoke execute on function change_role(bigint, bigint, text) from public"

// A shop is restored from each form of a dump, with each loss of owners and rights, and to each kind of target. The
// audit is clean at once. What was lost is named, and the start of the shop mends it.
func TestRestore(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	dump := func(s restoreSource, name string, args ...string) {
		t.Helper()
		if out, err := tool(t, "pg_dump", append(args, "-f", file(name), s.url)...); err != nil {
			t.Fatalf("pg_dump %v: %v: %s", args, err, out)
		}
	}
	s := startSource(t, func(s restoreSource) { dump(s, "while it sells", "-Fc") })
	orders := number(t, s.admin, `select count(*) from orders`)
	for name, args := range map[string][]string{
		"plain": {}, "custom": {"-Fc"}, "folder": {"-Fd"}, "tar": {"-Ft"}, "plain -O -x": {"-O", "-x"}, "plain -x": {"-x"}, "inserts": {"--column-inserts"},
		"plain -c": {"-c", "--if-exists"}, "plain -n": {"-n", "public"}, "rows": {"-a", "--disable-triggers", "-T", "schema_version"},
		"plain -O": {"-O", "--quote-all-identifiers", "--no-comments"}, "tables": {"-t", "public.*"},
	} {
		dump(s, name, args...)
	}
	const whole = "a database with the schema" // a target; the other is a new database
	for _, test := range []struct {
		dump  string
		tools [][]string // run one after the other, with the target and the file at their ends
		role  string     // that restores, "" for a superuser; the target is its database
		into  string
		fails bool // the tool says that something failed: what is there already, say
		lost  bool // rights
	}{
		{"plain", [][]string{{"psql"}}, "", "", false, false},
		{"plain", [][]string{{"psql", "-1", "-v", "ON_ERROR_STOP=1"}}, "", "", false, false},
		{"plain -O", [][]string{{"psql"}}, "", "", false, false},
		{"plain -O -x", [][]string{{"psql"}}, "stranger", "", false, true},
		{"plain -x", [][]string{{"psql"}}, "", "", false, true},
		{"plain -n", [][]string{{"psql"}}, "", "", false, false},
		{"inserts", [][]string{{"psql"}}, "", "", false, false},
		{"plain -c", [][]string{{"psql"}}, "", whole, false, false},
		{"plain", [][]string{{"psql"}, {"psql"}}, "", "", false, false},
		{"rows", [][]string{{"psql"}}, "", whole, false, false},
		{"custom", [][]string{{"pg_restore"}}, "", "", false, false},
		{"custom", [][]string{{"pg_restore", "-O"}}, "stranger", "", false, false},
		{"custom", [][]string{{"pg_restore"}}, "stranger", "", true, false}, // it may not give the objects to keeper
		{"custom", [][]string{{"pg_restore", "-x"}}, "", "", false, true},
		{"custom", [][]string{{"pg_restore", "-O", "-x", "-1"}}, "stranger", "", false, true},
		{"custom", [][]string{{"pg_restore", "-c", "--if-exists"}}, "", whole, false, false},
		{"custom", [][]string{{"pg_restore", "-c", "--if-exists", "-O", "-x"}}, "", whole, false, true},
		{"custom", [][]string{{"pg_restore"}, {"pg_restore"}}, "", "", true, false},
		{"custom", [][]string{{"pg_restore", "-O", "-x"}, {"pg_restore", "-c", "--if-exists", "-O", "-x"}}, "stranger", "", false, true},
		{"custom", [][]string{{"pg_restore", "--section=pre-data"}, {"pg_restore", "--section=data"}, {"pg_restore", "--section=post-data"}}, "", "", false, false},
		{"custom", [][]string{{"pg_restore", "-s"}, {"pg_restore", "-a", "--disable-triggers"}}, "", "", false, false},
		{"folder", [][]string{{"pg_restore", "-j", "2"}}, "", "", false, false},
		{"tar", [][]string{{"pg_restore", "--no-owner"}}, "", "", false, false},
		{"while it sells", [][]string{{"pg_restore"}}, "", "", false, false},
	} {
		t.Run(fmt.Sprint(test.dump, test.tools, test.role, test.into), func(t *testing.T) {
			root, _ := s.newTarget(t, "keeper")
			if test.role != "" {
				_, root = s.newTarget(t, test.role)
			}
			if test.into == whole {
				do(t, connect(t, root), schema(t))
			}
			var out string
			var err error
			for _, args := range test.tools {
				switch args[0] {
				case "psql":
					out, err = tool(t, "psql", append(args[1:], "-q", "-f", file(test.dump), root)...)
				default:
					out, err = tool(t, args[0], append(args[1:], "-d", root, file(test.dump))...)
				}
			}
			if (err != nil) != test.fails {
				t.Fatalf("%v: %v: %s", test.tools, err, out)
			}
			said, clean := audited(t, root)
			if !clean || strings.Contains(said, openRights) != test.lost {
				t.Errorf("the audit, clean %v, rights lost %v: %s", clean, test.lost, said)
			}
			if n := number(t, connect(t, root), `select count(*) from orders`); n != orders && test.dump != "while it sells" {
				t.Errorf("%d orders, want %d", n, orders)
			}
			log, err := opened(t, root)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(log, "mended=\"every role may execute change_role") != test.lost || strings.Contains(log, "way_out") {
				t.Errorf("the start, rights lost %v: %s", test.lost, log)
			}
			if said, clean := audited(t, root); !clean || strings.Contains(said, "note:") {
				t.Errorf("the audit after the start: %s", said)
			}
		})
	}
	t.Run("a shop sells from it, also one of a role without DDL", func(t *testing.T) {
		root, _ := s.newTarget(t, "keeper")
		if out, err := tool(t, "pg_restore", "-d", root, file("custom")); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		sells(t, s, as(t, root, "clerk", ""))
		root, owner := s.newTarget(t, "stranger")
		if out, err := tool(t, "pg_restore", "-O", "-x", "-d", owner, file("custom")); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, err := opened(t, as(t, root, "clerk", ""))
		if want := "give the role its rights again (deploy/README.md, With no more rights than it needs)"; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("a role that has lost its rights: %v, want %s", err, want)
		}
		sells(t, s, owner)
	})
	t.Run("tables alone, without the functions", func(t *testing.T) {
		root, _ := s.newTarget(t, "keeper")
		if out, err := tool(t, "psql", "-q", "-f", file("tables"), root); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if said, clean := audited(t, root); clean || !strings.Contains(said, "the trigger orders_updated of the table orders is missing") {
			t.Errorf("clean %v: %s", clean, said)
		}
		if log, err := opened(t, root); err != nil || strings.Contains(log, "way_out") {
			t.Errorf("%v: %s", err, log)
		}
		if said, clean := audited(t, root); !clean || strings.Contains(said, "note:") {
			t.Errorf("clean %v: %s", clean, said)
		}
	})
	t.Run("what a role without DDL cannot mend, it names", func(t *testing.T) {
		root, _ := s.newTarget(t, "keeper")
		if out, err := tool(t, "pg_restore", "-d", root, file("custom")); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		do(t, connect(t, root), `grant execute on function change_role to public`)
		log, err := opened(t, as(t, root, "clerk", ""))
		if err != nil || !strings.Contains(log, `way_out="revoke execute on function change_role(bigint, bigint, text) from public"`) {
			t.Errorf("%v: %s", err, log)
		}
	})
	t.Run("a restore that went on after an error", func(t *testing.T) { testHalfRestores(t, s, file("custom")) })
}

// sells lets a shop sell one unit of the source's sale.
func sells(t *testing.T, s restoreSource, at string) {
	t.Helper()
	env := slices.Clone(s.env)
	env[0], env[1] = "DATABASE_URL="+at, "REDIS_URL="+sandboxtest.RedisURL(t)
	shop := sandboxtest.Open(t, env)
	id := number(t, connect(t, at), `select max(id) from sales`)
	root := change(t, at, func(u *url.URL) { u.User = must(url.Parse(s.url)).User })
	for i, b := range sandboxtest.Buyers(t, append([]string{"DATABASE_URL=" + root}, env[1:]...), 1, fmt.Sprint(id)) {
		b.At(func() string { return shop.URL })
		if b.Order(t) == "" {
			t.Errorf("buyer %d has no order", i)
		}
	}
	shop.End(os.Interrupt)
	if out := sandboxtest.MustCommand(t, env, "audit"); !strings.Contains(out, "every invariant holds") {
		t.Error(out)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// testHalfRestores leaves one entry of the dump out of each restore, as pg_restore does with an entry that fails.
func testHalfRestores(t *testing.T, s restoreSource, dump string) {
	list, err := tool(t, "pg_restore", "-l", dump)
	if err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	for _, test := range []struct {
		out     string // of the restore: a pattern of the entries
		said    string // by the audit, before the start
		refused string // by the start
		logged  string // by the start
		left    string // the audit of after the start; "" if it is clean
	}{
		{`TABLE( DATA)? public pictures |CONSTRAINT public pictures `, "", "the table pictures is missing: the restore of this database has not finished", "", ""},
		{`TABLE DATA public schema_version `, "", "", "", ""},
		{`TABLE DATA public users `, "", "", "", "note: users with orders have no account"},
		{`TABLE( DATA)? public schema_version |CONSTRAINT public schema_version `, "", "but not schema_version: restore the dump again into an empty database", "", ""},
		{` INDEX public sales_by_end `, "the index sales_by_end of the table sales is missing", "", `mended="the index sales_by_end of the table sales is missing"`, ""},
		{`CONSTRAINT public users users_phone_key `, "alter table users add constraint users_phone_key UNIQUE (phone)", "alter table users add constraint users_phone_key UNIQUE (phone)", "", ""},
		{`FK CONSTRAINT public payments payments_order_id_fkey `, "alter table payments add constraint payments_order_id_fkey", "",
			"alter table payments add constraint payments_order_id_fkey", "alter table payments add constraint payments_order_id_fkey"},
		{` TRIGGER public orders orders_updated `, "BROKEN I8", "", `mended="the trigger orders_updated of the table orders is missing"`, ""},
		{` FUNCTION public change_role\(|ACL public FUNCTION change_role`, "the function change_role(bigint, bigint, text) is missing", "", `mended="the function change_role`, ""},
		{` SEQUENCE SET public users_id_seq `, "the sequence users_id_seq is behind the highest number that it gave", "", `mended="the sequence users_id_seq is behind`, ""},
		{` SEQUENCE SET public gate_epoch `, "the sequence gate_epoch is behind the highest number that it gave", "", `mended="the sequence gate_epoch is behind`, ""},
		{` VIEW public order_history `, "the view order_history is missing", "", `mended="the view order_history is missing"`, ""},
	} {
		t.Run(test.out, func(t *testing.T) {
			without := regexp.MustCompile(test.out)
			var kept []string
			for line := range strings.Lines(list) {
				if !without.MatchString(line) {
					kept = append(kept, line)
				}
			}
			if len(kept) == strings.Count(list, "\n") {
				t.Fatalf("the dump has no %s:\n%s", test.out, list)
			}
			items := filepath.Join(t.TempDir(), "list")
			if err := os.WriteFile(items, []byte(strings.Join(kept, "")), 0o644); err != nil {
				t.Fatal(err)
			}
			root, _ := s.newTarget(t, "keeper")
			if out, err := tool(t, "pg_restore", "-L", items, "-d", root, dump); err != nil {
				t.Logf("%v: %s", err, out)
			}
			if test.said != "" {
				if said, clean := audited(t, root); clean || !strings.Contains(said, test.said) {
					t.Errorf("the audit, clean %v: %s, want %s", clean, said, test.said)
				}
			}
			log, err := opened(t, root)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("the start: %v, want %s", err, test.refused)
				}
				return
			}
			if err != nil || !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), test.logged) {
				t.Errorf("the start: %v, %s, want %s", err, log, test.logged)
			}
			if said, clean := audited(t, root); clean != (test.left == "" || strings.HasPrefix(test.left, "note:")) || !strings.Contains(said, test.left) {
				t.Errorf("the audit after the start, clean %v: %s, want %s", clean, said, test.left)
			}
		})
	}
}

// The shop may lie in another schema than public.
func TestRestoreOfAnotherSchema(t *testing.T) {
	in := func(at string) string {
		return change(t, at, func(u *url.URL) { u.RawQuery = "search_path=the_shop" })
	}
	at, to := emptyDatabase(t), emptyDatabase(t)
	needTools(t, connect(t, to))
	do(t, connect(t, at), `create schema the_shop`)
	if log, err := opened(t, in(at)); err != nil || strings.Contains(log, "schema.sql") {
		t.Fatalf("%v: %s", err, log)
	}
	do(t, connect(t, in(at)), `insert into users (phone) values ('13800000000')`)
	file := filepath.Join(t.TempDir(), "dump")
	if out, err := tool(t, "pg_dump", "-x", "-n", "the_shop", "-f", file, at); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := tool(t, "psql", "-q", "-f", file, to); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if said, clean := audited(t, in(to)); !clean || !strings.Contains(said, openRights) {
		t.Errorf("clean %v: %s", clean, said)
	}
	// A role that does not look there makes no second shop, unless it names the schema for one.
	want := "--database-url (DATABASE_URL): the database has a shop in the schema the_shop, and this role does not look there: add ?search_path=the_shop to the address, or public for a new shop beside it"
	if _, err := opened(t, to); err == nil || err.Error() != want {
		t.Errorf("the wrong schema: %v, want %s", err, want)
	}
	if n := number(t, connect(t, to), ourTables); n != 0 {
		t.Errorf("%d tables were made in public", n)
	}
	if _, err := opened(t, change(t, to, func(u *url.URL) { u.RawQuery = "search_path=public" })); err != nil {
		t.Error(err)
	}
	// Its functions follow it to another name.
	do(t, connect(t, to), `alter schema the_shop rename to shop_2`)
	renamed := change(t, to, func(u *url.URL) { u.RawQuery = "search_path=shop_2" })
	if said, clean := audited(t, renamed); clean || !strings.Contains(said, "the function orders_updated() is not as in schema.sql") {
		t.Errorf("clean %v: %s", clean, said)
	}
	if log, err := opened(t, renamed); err != nil || !strings.Contains(log, "mended") {
		t.Errorf("%v: %s", err, log)
	}
	if said, clean := audited(t, renamed); !clean || strings.Contains(said, "note:") {
		t.Errorf("clean %v: %s", clean, said)
	}
}

// The start waits for no one who holds a lock for long, such as a dump or a repair by hand: it opens, and says what it
// left out.
func TestTheStartDoesNotWaitForALock(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	conn := connect(t, at)
	for _, test := range []struct{ lock, said string }{
		{`lock table users in access exclusive mode`, "the database is not compared with schema.sql: another transaction has locked a table"},
		{`lock table sales in access share mode`, "cannot apply the schema again, which would mend what differs from it"},
	} {
		do(t, conn, `drop trigger if exists orders_updated on orders`)
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), test.lock); err != nil {
			t.Fatal(err)
		}
		if log, err := opened(t, at); err != nil || !strings.Contains(log, test.said) {
			t.Errorf("%s: %v, %s", test.lock, err, log)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if log, err := opened(t, at); err != nil || !strings.Contains(log, `mended="the trigger orders_updated of the table orders is missing"`) {
		t.Errorf("%v: %s", err, log)
	}
}

// A restore with --disable-triggers that broke off leaves them off, and those of foreign keys.
func TestTriggersThatStayedOffAreMendedOrNamed(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	do(t, connect(t, at), `alter table orders disable trigger all; alter table sales disable trigger all`)
	log, err := opened(t, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`mended="the trigger orders_updated of the table orders is switched off"`,
		`mended="the trigger sales_changed of the table sales is switched off"`,
		`what="the constraint sales_goods_id_fkey of the table sales is switched off" way_out="alter table sales drop constraint sales_goods_id_fkey, add constraint`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the start does not say %s: %s", want, log)
		}
	}
	if said, clean := audited(t, at); clean || strings.Contains(said, "trigger") || !strings.Contains(said, "sales_goods_id_fkey") {
		t.Errorf("clean %v: %s", clean, said)
	}
}
