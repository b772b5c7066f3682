package backend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

const secret = "a secret of thirty-two bytes, at least"

func schema(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func open(t *testing.T, cfg backend.Config) (*backend.Stores, error) {
	t.Helper()
	return backend.Open(t.Context(), cfg, schema(t), slog.New(slog.DiscardHandler))
}

func connect(t *testing.T, at string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func do(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func number(t *testing.T, conn *pgx.Conn, sql string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

var databases atomic.Int64

// emptyDatabase gives the URL of a database without our schema.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	at := sandboxtest.DatabaseURL(t)
	conn, name := connect(t, at), fmt.Sprintf("empty_%d", databases.Add(1))
	do(t, conn, "create database "+name)
	t.Cleanup(func() {
		if _, err := conn.Exec(context.Background(), "drop database "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return change(t, at, func(u *url.URL) { u.Path = "/" + name })
}

func change(t *testing.T, at string, how func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	how(u)
	return u.String()
}

// nobody gives a loopback address where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

const (
	ourTables     = `select count(*) from pg_class where relnamespace = 'public'::regnamespace`
	ourConnection = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
)

// gone returns when nobody but we is connected to the database.
func gone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); number(t, conn, ourConnection) > 0; {
		if time.Now().After(deadline) {
			t.Fatal("connections are left")
		}
	}
}

func TestOpen(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.Secret) != secret || s.SessionURL != rdb || s.Sandbox != nil {
		t.Errorf("opened %+v", s)
	}
	for name, pool := range map[string]interface{ Ping(context.Context) error }{"web": s.Web, "users": s.Users, "settle": s.Settle, "pay": s.Pay} {
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Redis.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	// A settle transaction gives up before the ticket's owner does.
	var limit string
	if err := s.Settle.QueryRow(t.Context(), `select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')`).Scan(&limit); err != nil || limit != "1500ms 500ms" {
		t.Errorf("the limits of settle are %s, %v", limit, err)
	}
	s.Close()
	gone(t, connect(t, at))
}

func TestSessionsMayHaveARedisOfTheirOwn(t *testing.T) {
	own := "redis://" + miniredis.RunT(t).Addr()
	s, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), SessionRedisURL: own, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.SessionURL != own {
		t.Errorf("sessions are at %q, want %q", s.SessionURL, own)
	}
}

// Whatever is wrong: one line that names the setting, no password in it, and nothing left: no connection, no goroutine,
// and no table unless Postgres was well and has all of them.
func TestAWrongSettingIsOneLineThatNamesItAndLeavesNothing(t *testing.T) {
	guarded := miniredis.RunT(t)
	guarded.RequireAuth("opensesame")
	closed := nobody(t)
	base := backend.Config{DatabaseURL: emptyDatabase(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret}
	conn := connect(t, base.DatabaseURL)
	const db, rdb, sessions = "--database-url (DATABASE_URL): ", "--redis-url (REDIS_URL): ", "--session-redis-url (SESSION_REDIS_URL): "
	database := func(how func(*url.URL)) func(*backend.Config) {
		return func(c *backend.Config) { c.DatabaseURL = change(t, c.DatabaseURL, how) }
	}
	redisAt := func(at string) func(*backend.Config) { return func(c *backend.Config) { c.RedisURL = at } }
	for _, test := range []struct {
		name  string
		spoil func(*backend.Config)
		want  string
	}{
		{"secret, short", func(c *backend.Config) { c.Secret = strings.Repeat("x", 31) }, "--secret (MIAOSHA_SECRET): 31 bytes are too short"},
		{"Postgres, wrong password", database(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "hunter2") }), db + "the user or the password in it is refused by Postgres"},
		{"Postgres, no such user", database(func(u *url.URL) { u.User = url.UserPassword("nemo", "hunter2") }), db + "the user or the password in it is refused by Postgres"},
		{"Postgres, no such database", database(func(u *url.URL) { u.Path = "/nowhere" }), db + `the connection is refused by Postgres: database "nowhere" does not exist`},
		{"Postgres, nobody there", database(func(u *url.URL) { u.Host = closed }), db + "can't reach Postgres at " + closed},
		{"Postgres, a word", func(c *backend.Config) { c.DatabaseURL = "nonsense" }, db + "not a postgres:// address"},
		{"Postgres, no host at all", func(c *backend.Config) { c.DatabaseURL = "postgres://a:hunter2@:x/y" }, db + "not a postgres:// address"},
		{"Postgres, another kind", func(c *backend.Config) { c.DatabaseURL = "mysql://root:hunter2@127.0.0.1/shop" }, db + "not a postgres:// address"},
		{"Postgres, another kind with options", func(c *backend.Config) { c.DatabaseURL = "mysql://root:hunter2@" + closed + "/shop?charset=utf8" }, db + "not a postgres:// address"},
		{"Redis, wrong password", redisAt("redis://:hunter2@" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, wrong user", redisAt("redis://nemo:hunter2@" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, no password", redisAt("redis://" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, nobody there", redisAt("redis://" + closed), rdb + "can't reach Redis: "},
		{"Redis, nobody in the Cluster", redisAt("redis://" + closed + ",redis://" + closed), rdb + "can't reach Redis: "},
		{"Redis, a word", redisAt("nonsense"), rdb + "not a redis://"},
		{"Redis, no number", redisAt("redis://127.0.0.1/one"), rdb + "not a redis://"},
		{"Redis, another kind", redisAt("http://127.0.0.1"), rdb + "not a redis://"},
		{"Redis, a comma too many", redisAt("redis://" + guarded.Addr() + ","), rdb + "not a redis://"},
		{"sessions, nobody there", func(c *backend.Config) { c.SessionRedisURL = "redis://" + closed }, sessions + "can't reach Redis: "},
		{"sessions, wrong password", func(c *backend.Config) { c.SessionRedisURL = "redis://:hunter2@" + guarded.Addr() }, sessions + "the user or the password in it is refused by Redis"},
		{"sessions, a word", func(c *backend.Config) { c.SessionRedisURL = "nonsense" }, sessions + "not a redis://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cfg := base
			test.spoil(&cfg)
			s, err := open(t, cfg)
			if s != nil {
				t.Errorf("stores were given all the same")
				s.Close()
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
				t.Errorf("more than a line, or a secret in it: %q", err)
			}
			gone(t, conn)
			if n := number(t, conn, ourTables); n != 0 && !strings.Contains(test.want, "redis") {
				t.Errorf("%d tables were made", n)
			}
			goleak.VerifyNone(t, before)
		})
	}
}

func TestARedisThatEvictsIsRefused(t *testing.T) {
	evicts := sandboxtest.StartRedis(t, "--maxmemory-policy", "allkeys-lru")
	at := emptyDatabase(t)
	const why = "this Redis evicts keys (maxmemory-policy allkeys-lru): set maxmemory-policy noeviction"
	for setting, cfg := range map[string]backend.Config{
		"--redis-url (REDIS_URL): ":                 {DatabaseURL: at, RedisURL: "redis://" + evicts, Secret: secret},
		"--session-redis-url (SESSION_REDIS_URL): ": {DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), SessionRedisURL: "redis://" + evicts, Secret: secret},
	} {
		if s, err := open(t, cfg); s != nil || err == nil || err.Error() != setting+why {
			t.Errorf("%v, %v; want %s", s, err, setting+why)
		}
	}
	gone(t, connect(t, at))
	c := redis.NewClient(&redis.Options{Addr: evicts})
	defer c.Close()
	if err := c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: "redis://" + evicts, Secret: secret})
	if err != nil {
		t.Fatalf("told not to evict: %v", err)
	}
	s.Close()
}

func TestASecretIsNeededWithADatabaseOfYourOwn(t *testing.T) {
	const long = "thirty-two bytes are enough here"
	for _, test := range []struct {
		cfg             backend.Config
		valid, required bool
	}{
		{backend.Config{}, true, true},
		{backend.Config{RedisURL: "redis://x"}, true, true},
		{backend.Config{Secret: long}, true, true},
		{backend.Config{Secret: long[1:]}, false, true},
		{backend.Config{DatabaseURL: "postgres://x"}, true, false},
		{backend.Config{DatabaseURL: "postgres://x", Secret: long}, true, true},
		{backend.Config{DatabaseURL: "postgres://x", Secret: long[1:]}, false, true},
	} {
		for what, got := range map[string]struct {
			err error
			ok  bool
		}{"Validate": {test.cfg.Validate(), test.valid}, "RequireSecret": {test.cfg.RequireSecret(), test.required}} {
			if (got.err == nil) != got.ok || got.err != nil && !strings.HasPrefix(got.err.Error(), "--secret (MIAOSHA_SECRET): ") {
				t.Errorf("%s of %+v: %v", what, test.cfg, got.err)
			}
		}
	}
}

// newer gives the schema with another version and one statement more.
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
	gone(t, conn)
}

func TestASchemaThatFailsLeavesNothing(t *testing.T) {
	at := emptyDatabase(t)
	cfg := backend.Config{DatabaseURL: at, RedisURL: sandboxtest.RedisURL(t), Secret: secret}
	s, err := backend.Open(t.Context(), cfg, schema(t)+"\nselect 1 / 0;", slog.New(slog.DiscardHandler))
	if s != nil || err == nil || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): apply the schema: ") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, %v", s, err)
	}
	conn := connect(t, at)
	if n := number(t, conn, ourTables); n != 0 {
		t.Errorf("%d tables are left", n)
	}
	gone(t, conn)
}

// An old program and a new one start on an empty database at once: whoever is first, the newer schema stands.
func TestAnOlderProgramNeverWritesOverANewerSchema(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	conn := connect(t, at)
	// The new program holds the lock; the old one has looked, found nothing, and waits for it.
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
	for deadline := time.Now().Add(10 * time.Second); number(t, look, `select count(*) from pg_locks l join pg_database d on d.oid = l.database
		where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the lock")
		}
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
	// Applied once more all the same, as from an older version, it keeps what is there.
	do(t, conn, `update schema_version set version = 0`)
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if n := number(t, conn, `select count(*) from users`); n != 1 {
		t.Errorf("%d users, want the one there was", n)
	}
}

// A database of version 1 becomes one that begins with the newest, with its orders kept.
func TestAnOlderSchemaIsBroughtAlong(t *testing.T) {
	rdb := sandboxtest.RedisURL(t)
	first, err := os.ReadFile("testdata/schema_1.sql")
	if err != nil {
		t.Fatal(err)
	}
	// What a schema has: tables' columns, constraints, indexes, triggers.
	const what = `select string_agg(d, E'\n' order by d) from (
		select table_name || '.' || column_name || ' ' || data_type as d from information_schema.columns where table_schema = 'public'
		union all select conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = 'public'::regnamespace
		union all select indexdef from pg_indexes where schemaname = 'public'
		union all select pg_get_triggerdef(oid) from pg_trigger where not tgisinternal) as all_of_it`
	after := func(prepare string) (has string) {
		at := emptyDatabase(t)
		conn := connect(t, at)
		if _, err := conn.PgConn().Exec(t.Context(), prepare).ReadAll(); err != nil {
			t.Fatal(err)
		}
		s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if prepare != "" && number(t, conn, `select count(*) from orders`) != 1 {
			t.Error("the order that was there is gone")
		}
		if err := conn.QueryRow(t.Context(), what).Scan(&has); err != nil {
			t.Fatal(err)
		}
		return has
	}
	const order = `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) values (gen_random_uuid(), 1, 1, 't', 'x', 1, now());`
	fresh := after("")
	for name, prepare := range map[string]string{"as it was": "", "with an index dropped": "drop index orders_of_a_sale;"} {
		if diff := cmp.Diff(fresh, after(string(first)+order+prepare)); diff != "" {
			t.Errorf("version 1 %s: %s", name, diff)
		}
	}
}

func TestARoleWithoutDDLOpensASchemaThatIsThere(t *testing.T) {
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

	do(t, connect(t, empty), "revoke create on schema public from public")
	s, err = open(t, as(empty))
	if s != nil || err == nil || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): apply the schema: ") ||
		!strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Error(), "\n") {
		t.Errorf("on an empty database: %v, %v", s, err)
	}
}
