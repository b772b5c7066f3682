package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// newer returns the schema with a version that is higher by version, and with one more statement.
func newer(t *testing.T, version int, statement string) string {
	t.Helper()
	text := schema(t)
	ours, err := backend.SchemaVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	const line = "insert into schema_version (version) values ("
	changed := strings.Replace(text, line+strconv.Itoa(ours)+")", line+strconv.Itoa(ours+version)+")", 1)
	if got, err := backend.SchemaVersion(changed); err != nil || got != ours+version {
		t.Fatal(got, err)
	}
	return changed + "\n" + statement
}

func TestASchemaWithoutAVersionIsRefused(t *testing.T) {
	if n, err := backend.SchemaVersion("create table x ()"); err == nil {
		t.Errorf("got version %d", n)
	}
}

func TestTheSchemaIsAppliedOnceHoweverManyBeginAtOnce(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	// A later process must see what it has waited for, whatever the isolation by default.
	do(t, connect(t, at), `do $$ begin execute format('alter database %I set default_transaction_isolation = serializable', current_database()); end $$`)
	// The last statement cannot run twice. A later process must see that the schema is applied.
	text := schema(t) + "\ncreate table applied (); insert into users (phone) values ('13800000000');"
	var processes sync.WaitGroup
	for range 5 {
		processes.Go(func() {
			s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret, Pools: usual}, text, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	processes.Wait()
	if n := number(t, connect(t, at), `select count(*) from users, schema_version`); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestADatabaseOfANewerVersionIsRefusedAndLeftAlone(t *testing.T) {
	at := emptyDatabase(t)
	cfg := backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret}
	ours, err := backend.SchemaVersion(schema(t))
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, at)
	do(t, conn, fmt.Sprintf(`create table schema_version (version integer not null, one boolean primary key default true check (one));
		insert into schema_version values (%d)`, ours+1))
	s, err := open(t, cfg)
	want := fmt.Sprintf("--database-url (DATABASE_URL): the database has schema version %d, this program knows %d: use a newer miaosha", ours+1, ours)
	if s != nil || err == nil || err.Error() != want {
		t.Errorf("%v, %v; want %s", s, err, want)
	}
	if n := number(t, conn, `select count(*) from pg_tables where schemaname = 'public'`); n != 1 {
		t.Errorf("there are %d tables, want schema_version alone", n)
	}
	waitForDisconnect(t, conn)
}

// refusedSchema checks that Open failed with one line that names the setting, the step, and why.
func refusedSchema(t *testing.T, s *backend.Stores, err error, why string) {
	t.Helper()
	if s != nil {
		t.Errorf("stores were returned: %+v", s)
	}
	if err == nil {
		t.Fatal("the schema was applied")
	}
	text := err.Error()
	if !strings.HasPrefix(text, "--database-url (DATABASE_URL): apply the schema: ") {
		t.Errorf("the error does not name the setting and the step: %q", text)
	}
	if !strings.Contains(text, why) {
		t.Errorf("the error does not contain %q: %q", why, text)
	}
	if strings.Contains(text, "\n") {
		t.Errorf("the error has more than one line: %q", text)
	}
}

func TestASchemaThatFailsLeavesNothing(t *testing.T) {
	at := emptyDatabase(t)
	cfg := backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: usual}
	s, err := backend.Open(t.Context(), cfg, schema(t)+"\nselect 1 / 0;", slog.New(slog.DiscardHandler))
	refusedSchema(t, s, err, "division by zero")
	conn := connect(t, at)
	if n := number(t, conn, ourTables); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	waitForDisconnect(t, conn)
}

// An old program and a new one start on an empty database at once. In any order the newer schema
// remains.
func TestAnOlderProgramNeverWritesOverANewerSchema(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	conn := connect(t, at)
	// The new program holds the lock. The old one has found no schema, and waits for the lock.
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock($1)`, int64(0x6d69616f_73686121)); err != nil {
		t.Fatal(err)
	}
	old := make(chan error, 1)
	go func() {
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err == nil {
			s.Close()
		}
		old <- err
	}()
	look := connect(t, at)
	if !sandboxtest.Poll(func() bool {
		return number(t, look, `select count(*) from pg_locks l join pg_database d on d.oid = l.database
			where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`) > 0
	}) {
		t.Fatal("no process waits for the lock")
	}
	const changed = `create or replace function order_events_are_append_only() returns trigger language plpgsql as $$ begin raise exception 'the newer one'; end $$;`
	if _, err := conn.PgConn().Exec(t.Context(), newer(t, 1, changed)).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-old; err == nil || !strings.Contains(err.Error(), "use a newer miaosha") {
		t.Errorf("the old program got %v", err)
	}
	if n := number(t, conn, `select count(*) from pg_proc where proname = 'order_events_are_append_only' and prosrc like '%the newer one%'`); n != 1 {
		t.Error("the old program wrote its function over the newer one")
	}
}

// A shop of version 6 sells and reads while its database is upgraded. No reader waits behind the upgrade for the purchase, and no
// one of them ends in a deadlock.
func TestAnUpgradeBesideALiveShop(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	look := connect(t, at)
	if _, err := look.PgConn().Exec(t.Context(), schema(t)+"drop trigger sales_changed on sales; update schema_version set version = 6").ReadAll(); err != nil {
		t.Fatal(err)
	}
	await := func(mode string) {
		t.Helper()
		sandboxtest.Until(t, mode+" on sales is waited for", func() bool {
			return number(t, look, `select count(*) from pg_locks where relation = 'sales'::regclass and not granted and mode = '`+mode+`'`) > 0
		})
	}
	purchase, err := connect(t, at).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := purchase.Exec(t.Context(), `select from sales for no key update`); err != nil {
		t.Fatal(err)
	}
	upgraded := make(chan error, 1)
	go func() {
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err == nil {
			s.Close()
		}
		upgraded <- err
	}()
	await("AccessExclusiveLock")
	do(t, connect(t, at), `select from orders o join sales s on s.id = o.sale_id`) // as the audit does
	if _, err := purchase.Exec(t.Context(), `update orders set status = status`); err != nil {
		t.Error(err)
	}
	if err := purchase.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-upgraded; err != nil {
		t.Error(err)
	}
	if n := number(t, look, `select count(*) from pg_trigger where tgname = 'sales_changed'`); n != 1 {
		t.Error("the schema was not upgraded")
	}
}

// nine makes a database of version 9 of a new one.
const nine = `insert into admin_log (origin, action, subject) values ('x', 'sale.pause', 'sale 1');
	drop index one_action_per_key; alter table admin_log drop column key, drop column digest, drop column result;
	insert into addresses (user_id, name, phone, address) values (1, 'x', '13800138000', 'x');
	alter table addresses drop constraint addresses_phone_check;
	alter table addresses add constraint addresses_phone_check check (phone ~ '^[+]?[0-9]{3,20}$');
	update schema_version set version = 9;`

// While an upgrade waits for the addresses, sales can be read.
func TestAnUpgradeOfAddressesLeavesSalesReadable(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	look := connect(t, at)
	if _, err := look.PgConn().Exec(t.Context(), schema(t)+nine).ReadAll(); err != nil {
		t.Fatal(err)
	}
	buyer, err := connect(t, at).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := buyer.Exec(t.Context(), `update addresses set updated_at = now()`); err != nil {
		t.Fatal(err)
	}
	upgraded := make(chan error, 1)
	go func() {
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err == nil {
			s.Close()
		}
		upgraded <- err
	}()
	sandboxtest.Until(t, "the upgrade waits for the addresses", func() bool {
		return number(t, look, `select count(*) from pg_locks where relation = 'addresses'::regclass and not granted`) > 0
	})
	if number(t, look, `select count(*) from pg_locks where relation = 'sales'::regclass and mode = 'AccessExclusiveLock'`) > 0 {
		t.Error("no one can read sales")
	}
	if err := errors.Join(buyer.Commit(t.Context()), <-upgraded); err != nil {
		t.Error(err)
	}
	do(t, look, `update addresses set phone = '010-12345678-1'`)
}

// A change of the staff, whose last step is its line in the log, ends while an upgrade waits for it: in no deadlock.
func TestAnUpgradeBesideAChangeOfTheStaff(t *testing.T) {
	rdb := sandboxtest.RedisURL(t)
	for table, update := range map[string]string{"users": `update users set role = role`, "sales": `update sales set state = state`,
		"sale_plans": `update sale_plans set state = state`, "payments": `update payments set status = status`} {
		at := emptyDatabase(t)
		look := connect(t, at)
		if _, err := look.PgConn().Exec(t.Context(), schema(t)+nine).ReadAll(); err != nil {
			t.Fatal(err)
		}
		change, err := connect(t, at).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := change.Exec(t.Context(), update); err != nil {
			t.Fatal(err)
		}
		upgraded := make(chan error, 1)
		go func() {
			s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
			if err == nil {
				s.Close()
			}
			upgraded <- err
		}()
		sandboxtest.Until(t, "the upgrade waits for "+table, func() bool {
			return number(t, look, `select count(*) from pg_locks where relation = '`+table+`'::regclass and not granted`) > 0
		})
		_, err = change.Exec(t.Context(), `select from addresses for share; insert into admin_log (origin, action, subject) values ('x', 'sale.pause', 'sale 1')`)
		if err := errors.Join(err, change.Commit(t.Context()), <-upgraded); err != nil {
			t.Errorf("a change of %s: %v", table, err)
		}
	}
}

func TestOpeningAgainChangesNothing(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	conn := connect(t, at)
	const state = `select md5(string_agg(t, ',' order by t)) from (
		select oid::text || relname || relfilenode as t from pg_class where relnamespace = 'public'::regnamespace
		union all select oid::text || proname || xmin from pg_proc where pronamespace = 'public'::regnamespace
		union all select version::text || xmin from schema_version) as all_of_it`
	var first string
	for i := range 3 {
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if i == 0 {
			do(t, conn, `insert into users (phone) values ('13800000000')`)
		}
		var now string
		if err := conn.QueryRow(t.Context(), state).Scan(&now); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = now
		} else if now != first {
			t.Error("opening again changed the schema")
		}
	}
	// A second application, as for an older version, keeps the data.
	do(t, conn, `update schema_version set version = 0`)
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if n := number(t, conn, `select count(*) from users`); n != 1 {
		t.Errorf("%d users, want the one from before", n)
	}
}

// A database that lacks a table of its version, or that has one of another program, is no shop to be upgraded: the
// table would be made empty.
func TestAPartOfAShopIsRefusedAndLeftAlone(t *testing.T) {
	rdb := sandboxtest.RedisURL(t)
	for name, test := range map[string]struct{ prepare, want string }{
		"an older shop":   {schema(t) + `update schema_version set version = 5; drop table orders cascade`, "the database has the tables users, goods, sales, ticket_results, payments, order_events, but not orders: "},
		"another program": {`create table users (id int)`, "the database has the tables users, but not addresses, "},
	} {
		t.Run(name, func(t *testing.T) {
			at := emptyDatabase(t)
			conn := connect(t, at)
			do(t, conn, test.prepare)
			before := number(t, conn, ourTables)
			s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
			refusedSchema(t, s, err, test.want)
			if n := number(t, conn, ourTables); n != before {
				t.Errorf("there are %d objects, want the %d from before", n, before)
			}
		})
	}
}

// A database of each former version becomes equal to a new one, and keeps its rows, while others read: a long reader keeps the
// upgrade waiting, which says so, and no other reader. testdata has the last text of each version. None leaves the list.
func TestAnOlderSchemaIsUpgraded(t *testing.T) {
	rdb := sandboxtest.RedisURL(t)
	ours, err := backend.SchemaVersion(schema(t))
	if err != nil {
		t.Fatal(err)
	}
	// The parts of a schema: columns, constraints, indexes, triggers, functions.
	const what = `select string_agg(d, E'\n' order by d) from (
		select table_name || '.' || column_name || ' ' || data_type || ' ' || coalesce(column_default, '') as d from information_schema.columns where table_schema = 'public'
		union all select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = 'public'::regnamespace
		union all select indexdef from pg_indexes where schemaname = 'public'
		union all select viewname || definition from pg_views where schemaname = 'public'
		union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
		union all select relname || ' ' || array_to_string(reloptions, ' ') from pg_class where relnamespace = 'public'::regnamespace and reloptions is not null
		union all select format('%s %s %s %s', oid::regprocedure, prosecdef, proconfig, proacl) from pg_proc where pronamespace = 'public'::regnamespace) as all_of_it`
	const rows = `
		insert into users (phone) values ('13800000000');
		insert into goods (title) values ('tea');
		insert into sales (goods_id, price, total, stock, state, starts_at, ends_at) values (1, 1, 5, 4, 'published', now(), now() + interval '1 hour');
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values ('00000000-0000-7000-8000-000000000001', 1, 1, 't', 'x', 1, now());
		insert into payments (id, order_id, amount, status, provider_ref)
		select gen_random_uuid(), id, 1, 'refund_due', ref from orders, unnest(array['sandbox-1', 'wire 1']) as ref;
		insert into ticket_results (ticket, user_id, sale_id, outcome) values ('u', 2, 1, 'sold_out');
		update orders set status = 'cancelled';`
	const reads = `select (select count(*) from users), (select count(*) from goods), (select sum(stock) from sales), (select count(*) from orders where status = 'cancelled'),
		(select count(*) from payments), (select count(*) from ticket_results where outcome = 'sold_out'), (select count(*) from order_events where to_status = 'cancelled')`
	const locks = `do $$ begin -- as pg_dump does
		execute (select 'lock table ' || string_agg(quote_ident(tablename), ', ') || ' in access share mode' from pg_tables where schemaname = 'public'); end $$`
	after := func(t *testing.T, prepare string, waits bool) (has string) {
		at := emptyDatabase(t)
		conn := connect(t, at)
		if _, err := conn.PgConn().Exec(t.Context(), prepare).ReadAll(); err != nil {
			t.Fatal(err)
		}
		reader, err := connect(t, at+"&application_name=a%20long%20reader").Begin(t.Context())
		if err == nil && prepare != "" {
			_, err = reader.Exec(t.Context(), locks)
		}
		if err != nil {
			t.Fatal(err)
		}
		var log sandboxtest.SyncBuffer
		upgraded := make(chan error, 1)
		go func() {
			s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret, Pools: usual}, schema(t), slog.New(slog.NewTextHandler(&log, nil)))
			if err == nil {
				s.Close()
			}
			upgraded <- err
		}()
		if prepare != "" {
			sandboxtest.Until(t, "the upgrade says that it waits for the reader", func() bool {
				if len(upgraded) > 0 {
					if waits {
						t.Fatal("it has ended: ", <-upgraded)
					}
					return true
				}
				return strings.Contains(log.String(), "waits for another transaction") && strings.Contains(log.String(), "(a long reader), since 20")
			})
			want, got := []int64{1, 1, 4, 1, 2, 1, 1}, make([]int64, 7)
			counts := make([]any, len(got))
			for i := range got {
				counts[i] = &got[i]
			}
			if err := conn.QueryRow(t.Context(), reads).Scan(counts...); err != nil || !slices.Equal(got, want) {
				t.Errorf("beside the upgrade: %v, %v; want %v", got, err, want)
			}
			defer func() {
				if err := conn.QueryRow(t.Context(), reads).Scan(counts...); err != nil || !slices.Equal(got, want) {
					t.Errorf("after the upgrade: %v, %v; want %v", got, err, want)
				}
				if n := number(t, conn, `select count(*) from payments where provider = case when provider_ref = 'sandbox-1' then 'cashier' else 'provider' end`); n != 2 && !strings.Contains(prepare, "create table if not exists admin_log") {
					t.Errorf("%d payments of the right provider, want both", n)
				}
			}()
		}
		if err := errors.Join(reader.Commit(t.Context()), <-upgraded); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), what).Scan(&has); err != nil {
			t.Fatal(err)
		}
		return has
	}
	fresh := after(t, "", false)
	for version := 1; version < ours; version++ {
		text, err := os.ReadFile(fmt.Sprintf("testdata/schema_%d.sql", version))
		if err != nil {
			t.Fatalf("the text of a former version: %v", err)
		}
		if v, err := backend.SchemaVersion(string(text)); v != version || err != nil {
			t.Errorf("the text of version %d sets version %d, %v", version, v, err)
		}
		prepares := map[string]string{"": string(text) + rows}
		if version == 1 {
			prepares[" with an index dropped"] = string(text) + rows + "drop index orders_of_a_sale;"
		}
		for name, prepare := range prepares {
			t.Run(fmt.Sprintf("version %d%s", version, name), func(t *testing.T) {
				// A later upgrade may need no lock that waits for a reader.
				if diff := cmp.Diff(fresh, after(t, prepare, version < 10)); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestARoleWithoutDDLOpensAnExistingSchema(t *testing.T) {
	at, empty, rdb := sandboxtest.DatabaseURL(t), emptyDatabase(t), sandboxtest.RedisURL(t)
	conn, role := connect(t, at), fmt.Sprintf("clerk_%d", databases.Add(1))
	do(t, conn, "create role "+role+" login password 'clerk'")
	t.Cleanup(func() {
		for _, sql := range []string{"drop owned by " + role, "drop role " + role} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	do(t, conn, "revoke create on schema public from public")
	do(t, conn, "grant select, insert, update on all tables in schema public to "+role)
	do(t, conn, "grant usage on all sequences in schema public to "+role)
	do(t, conn, "grant execute on all functions in schema public to "+role)
	as := func(at string) backend.Config {
		return backend.Config{RedisURL: rdb, Secret: secret,
			DatabaseURL: change(t, at, func(u *url.URL) { u.User = url.UserPassword(role, "clerk") })}
	}
	s, err := open(t, as(at))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Web.Exec(t.Context(), `insert into users (phone) values ('13800000000')`); err != nil {
		t.Error(err)
	}
	s.Close()
	do(t, conn, "revoke insert on orders from "+role)
	if s, err := open(t, as(at)); s != nil || err == nil || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): the role "+role+` lacks insert on orders: run "grant insert (`) {
		t.Errorf("%v, %v; want the right that is missing", s, err)
	}

	do(t, connect(t, empty), "revoke create on schema public from public")
	s, err = open(t, as(empty))
	refusedSchema(t, s, err, "permission denied")
}

// A database that cannot hold every text is refused, and gets no table.
func TestADatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	conn := connect(t, sandboxtest.DatabaseURL(t))
	for _, encoding := range []string{"LATIN1", "SQL_ASCII", "EUC_CN"} {
		name := fmt.Sprintf("other_%d", databases.Add(1))
		do(t, conn, `create database `+name+` encoding '`+encoding+`' lc_collate 'C' lc_ctype 'C' template template0`)
		t.Cleanup(func() {
			if _, err := conn.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
				t.Error(err)
			}
		})
		at := change(t, sandboxtest.DatabaseURL(t), func(u *url.URL) { u.Path = "/" + name })
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret})
		want := "--database-url (DATABASE_URL): this database is encoded in " + encoding + ", "
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "encoding 'UTF8' template template0") {
			t.Errorf("%v, %v; want %s", s, err, want)
		}
		if n := number(t, connect(t, at), ourTables); n != 0 {
			t.Errorf("%s: %d tables were created", encoding, n)
		}
	}
}

// A Postgres that is too old is refused by its version, and gets no table.
func TestAnOldPostgresIsRefused(t *testing.T) {
	at := emptyDatabase(t)
	conn := connect(t, at)
	var version string
	if err := conn.QueryRow(t.Context(), `select current_setting('server_version_num')`).Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		version string
		old     bool
	}{{"139999", true}, {"090624", true}, {"140000", false}} {
		through := rewriting(t, at, version, test.version)
		s, err := open(t, backend.Config{DatabaseURL: through, RedisURL: sandboxtest.RedisURL(t), Secret: secret})
		if err == nil {
			s.Close()
		}
		if old := err != nil && strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): this Postgres is version ") && strings.HasSuffix(err.Error(), ": the shop needs 14 or newer"); old != test.old || err != nil && !old {
			t.Errorf("version %s: %v", test.version, err)
		}
		if n := number(t, conn, ourTables); test.old && n != 0 {
			t.Errorf("version %s: %d tables were created", test.version, n)
		}
	}
}

// rewriting returns a URL of a proxy that changes a text of the server's replies to another one of the same length.
func rewriting(t *testing.T, at, from, to string) string {
	t.Helper()
	return through(t, at, func(client, postgres net.Conn) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := postgres.Read(buffer)
			if err != nil {
				return
			}
			if _, err := client.Write(bytes.ReplaceAll(buffer[:n], []byte(from), []byte(to))); err != nil {
				return
			}
		}
	}, nil)
}

// withoutParameters returns a URL of a pooler, which drops what a client sends with its connection.
func withoutParameters(t *testing.T, at string) string {
	t.Helper()
	return through(t, at, func(client, postgres net.Conn) { io.Copy(client, postgres) }, func(start *pgproto3.StartupMessage) {
		maps.DeleteFunc(start.Parameters, func(name, _ string) bool { return name != "user" && name != "database" })
	})
}

// through returns a URL of a proxy. replies copies what the server sends; change changes what a client begins with, if it is not nil.
func through(t *testing.T, at string, replies func(client, postgres net.Conn), changeStart func(*pgproto3.StartupMessage)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(client net.Conn) {
		defer client.Close()
		first, err := pgproto3.NewBackend(client, client).ReceiveStartupMessage()
		start, ok := first.(*pgproto3.StartupMessage)
		if err != nil || !ok {
			return
		}
		if changeStart != nil {
			changeStart(start)
		}
		raw, err := start.Encode(nil)
		if err != nil {
			return
		}
		postgres, err := net.Dial("tcp", u.Host)
		if err != nil {
			return
		}
		defer postgres.Close()
		postgres.Write(raw)
		go io.Copy(postgres, client)
		replies(client, postgres)
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return change(t, at, func(u *url.URL) { u.Host = l.Addr().String() })
}

// Behind a pooler the limits have to be those of the role. The documented ones are enough.
func TestLimitsThatAreNotInForceAreSaid(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	conn, pooled := connect(t, at), withoutParameters(t, at)
	do(t, conn, `create role pooled superuser login password 'pooled'`)
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), `drop role pooled`); err != nil {
			t.Error(err)
		}
	})
	asRole := func(at string) string {
		return change(t, at, func(u *url.URL) { u.User = url.UserPassword("pooled", "pooled") })
	}
	const said = "is not in force"
	warnings := func(at string) int {
		t.Helper()
		var log sandboxtest.SyncBuffer
		s, err := backend.Open(t.Context(), backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: usual}, schema(t), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		return strings.Count(log.String(), said)
	}
	if n := warnings(asRole(at)); n != 0 {
		t.Errorf("%d warnings without a pooler", n)
	}
	if n := warnings(asRole(pooled)); n != 3 {
		t.Errorf("%d warnings behind a pooler, want one for each limit", n)
	}
	for _, set := range []string{`statement_timeout = '5s'`, `lock_timeout = '1s'`, `idle_in_transaction_session_timeout = '10s'`} {
		do(t, conn, `alter role pooled set `+set)
	}
	if n := warnings(asRole(pooled)); n != 0 {
		t.Errorf("%d warnings with the limits of deploy/README.md", n)
	}
	do(t, conn, `alter role pooled set lock_timeout = '1500ms'`)
	if n := warnings(asRole(pooled)); n != 1 {
		t.Errorf("%d warnings with a lock_timeout as long as a settle transaction", n)
	}
}

// A role or database whose settings would make the shop another one is refused in one line, and nothing is made in
// its place.
func TestSettingsThatMakeAnotherShopAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ set, want string }{
		"no triggers": {"session_replication_role = replica", "session_replication_role is replica for this role or database"},
		"another schema": {"search_path = elsewhere",
			"the search_path of this role or database leads past the shop's tables, which are in the schema public"},
	} {
		t.Run(name, func(t *testing.T) {
			at := sandboxtest.DatabaseURL(t)
			conn := connect(t, at)
			do(t, conn, "create schema elsewhere")
			do(t, conn, fmt.Sprintf("alter database %s set %s", database(t, at), c.set))
			s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: usual})
			if s != nil || err == nil || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): "+c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v, want one line with %q", err, c.want)
			}
			if n := number(t, conn, `select count(*) from pg_tables where schemaname = 'elsewhere'`); n != 0 {
				t.Errorf("%d tables are made", n)
			}
		})
	}
	// The address may choose a schema: that is no accident.
	at := sandboxtest.DatabaseURL(t)
	do(t, connect(t, at), "create schema chosen")
	s, err := open(t, backend.Config{DatabaseURL: at + "&search_path=chosen", RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: usual})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// What is set for the role or the database is not in force in any pool, and what the shop sends besides is sent only
// if it is needed: a pooler may refuse it.
func TestPoolsHaveTheirOwnSettings(t *testing.T) {
	at := sandboxtest.DatabaseURL(t)
	conn := connect(t, at)
	usual := map[string]string{"client_encoding": "UTF8", "DateStyle": "ISO, MDY", "standard_conforming_strings": "on", "TimeZone": "UTC",
		"default_transaction_isolation": "read committed", "exit_on_error": "off", "idle_session_timeout": "0", "IntervalStyle": "postgres",
		"quote_all_identifiers": "off"}
	for name, value := range map[string]string{"client_encoding": "LATIN1", "datestyle": "German", "standard_conforming_strings": "off", "timezone": "Asia/Kathmandu",
		"default_transaction_isolation": "serializable", "exit_on_error": "on", "idle_session_timeout": "1h", "intervalstyle": "sql_standard", "quote_all_identifiers": "on"} {
		do(t, conn, fmt.Sprintf("alter database %s set %s = '%s'", database(t, at), name, value))
	}
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: backend.Pools{Settle: 1, Web: 1, Pay: 1, Users: 1, Staff: 1, Redis: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pool, db := range map[string]*pgxpool.Pool{"settle": s.Settle, "web": s.Web, "pay": s.Pay, "users": s.Users, "staff": s.Staff} {
		rows, _ := db.Query(t.Context(), `select name, setting from pg_settings where name = any($1)`, slices.Collect(maps.Keys(usual)))
		got := map[string]string{}
		var name, setting string
		if _, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error { got[name] = setting; return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(usual, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pool, diff)
		}
	}
	plain, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret, Pools: backend.Pools{Settle: 1, Web: 1, Pay: 1, Users: 1, Staff: 1, Redis: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if sent := plain.Web.Config().ConnConfig.RuntimeParams; sent["standard_conforming_strings"] != "on" || sent["default_transaction_isolation"] != "" {
		t.Errorf("to a database without settings it sends %v", sent)
	}
}

// database returns the name of the database in an address.
func database(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}
