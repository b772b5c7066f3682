package backend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
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

// usual are the sizes of a shop without settings.
var usual = backend.Pools{Settle: 8, Web: 10, Pay: 8, Users: 8, Staff: 4, Redis: 64}

func open(t *testing.T, cfg backend.Config) (*backend.Stores, error) {
	t.Helper()
	cfg.Pools = usual
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

// emptyDatabase returns the URL of a database without the schema.
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

// closedPort is an address at which no server listens: an old service of the system has that port.
const closedPort = "127.0.0.1:1"

const (
	ourTables        = `select count(*) from pg_class where relnamespace = 'public'::regnamespace`
	otherConnections = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
)

// waitForDisconnect returns when conn is the only connection to its database.
func waitForDisconnect(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if !sandboxtest.Poll(func() bool { return number(t, conn, otherConnections) == 0 }) {
		t.Fatal("other connections are left")
	}
}

func TestOpen(t *testing.T) {
	at, rdb := emptyDatabase(t), sandboxtest.RedisURL(t)
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: rdb, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if string(s.Secret) != secret || s.Sessions == nil || s.Sessions.Addrs[0] != sandboxtest.RedisOptions(t, rdb).Addrs[0] || s.Sessions.DB != sandboxtest.RedisOptions(t, rdb).DB || s.Sandbox != nil {
		t.Errorf("opened %+v", s)
	}
	for name, pool := range map[string]interface{ Ping(context.Context) error }{"web": s.Web, "users": s.Users, "settle": s.Settle, "pay": s.Pay, "staff": s.Staff} {
		if err := pool.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Redis.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	// A settle transaction gives up before the buyer does.
	var limit string
	if err := s.Settle.QueryRow(t.Context(), `select current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')`).Scan(&limit); err != nil || limit != "1500ms 500ms" {
		t.Errorf("the limits of settle are %s, %v", limit, err)
	}
	s.Close()
	waitForDisconnect(t, connect(t, at))
}

func TestSessionsMayHaveARedisOfTheirOwn(t *testing.T) {
	own := "redis://" + miniredis.RunT(t).Addr()
	s, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), SessionRedisURL: own, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.Sessions.Addrs[0]; "redis://"+got != own {
		t.Errorf("sessions are at %q, want %q", got, own)
	}
}

// Every wrong setting leads to one line that names it and has no password in it. It leaves no
// connection, no goroutine and no table.
func TestAWrongSettingIsOneLineThatNamesItAndLeavesNothing(t *testing.T) {
	guarded := miniredis.RunT(t)
	guarded.RequireAuth("opensesame")
	closed := closedPort
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
		{"Postgres, no server", database(func(u *url.URL) { u.Host = closed }), db + "can't reach Postgres at " + closed},
		{"Postgres, a word", func(c *backend.Config) { c.DatabaseURL = "nonsense" }, db + "not a postgres:// address"},
		{"Postgres, no host at all", func(c *backend.Config) { c.DatabaseURL = "postgres://a:hunter2@:x/y" }, db + "not a postgres:// address"},
		{"Postgres, a mode without types", database(func(u *url.URL) { u.RawQuery += "&default_query_exec_mode=exec" }), db + "default_query_exec_mode in it has to be one that knows the types"},
		{"Postgres, the simple protocol", database(func(u *url.URL) { u.RawQuery += "&default_query_exec_mode=simple_protocol" }), db + "default_query_exec_mode in it has to be one that knows the types"},
		{"Postgres, another kind", func(c *backend.Config) { c.DatabaseURL = "mysql://root:hunter2@127.0.0.1/shop" }, db + "not a postgres:// address"},
		{"Postgres, another kind with options", func(c *backend.Config) { c.DatabaseURL = "mysql://root:hunter2@" + closed + "/shop?charset=utf8" }, db + "not a postgres:// address"},
		{"Redis, wrong password", redisAt("redis://:hunter2@" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, wrong user", redisAt("redis://nemo:hunter2@" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, no password", redisAt("redis://" + guarded.Addr()), rdb + "the user or the password in it is refused by Redis"},
		{"Redis, no server", redisAt("redis://" + closed), rdb + "can't reach Redis: "},
		{"Redis, no server in the Cluster", redisAt("redis://" + closed + ",redis://" + closed), rdb + "can't reach Redis: "},
		{"Redis, a word", redisAt("nonsense"), rdb + "not a redis://"},
		{"Redis, no number", redisAt("redis://127.0.0.1/one"), rdb + "not a redis://"},
		{"Redis, another kind", redisAt("http://127.0.0.1"), rdb + "not a redis://"},
		{"Redis, a comma too many", redisAt("redis://" + guarded.Addr() + ","), rdb + "not a redis://"},
		{"sessions, no server", func(c *backend.Config) { c.SessionRedisURL = "redis://" + closed }, sessions + "can't reach Redis: "},
		{"sessions, wrong password", func(c *backend.Config) { c.SessionRedisURL = "redis://:hunter2@" + guarded.Addr() }, sessions + "the user or the password in it is refused by Redis"},
		{"sessions, a word", func(c *backend.Config) { c.SessionRedisURL = "nonsense" }, sessions + "not a redis://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			cfg := base
			test.spoil(&cfg)
			s, err := open(t, cfg)
			if s != nil {
				t.Errorf("stores were returned too")
				s.Close()
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Fatalf("got %v, want %s", err, test.want)
			}
			if strings.ContainsAny(err.Error(), "\r\n") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), secret) {
				t.Errorf("the error has more than one line or a secret in it: %q", err)
			}
			waitForDisconnect(t, conn)
			if n := number(t, conn, ourTables); n != 0 {
				t.Errorf("%d tables were created", n)
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
	waitForDisconnect(t, connect(t, at))
	c := redis.NewClient(&redis.Options{Addr: evicts})
	defer c.Close()
	if err := c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, backend.Config{DatabaseURL: at, RedisURL: "redis://" + evicts, Secret: secret})
	if err != nil {
		t.Fatalf("with noeviction: %v", err)
	}
	s.Close()
}

// One store of the operator's beside one of the sandbox's is a shop only if that is asked for by name.
func TestTheSandboxRunsOneStoreByNameOnly(t *testing.T) {
	const db, rdb = "--database-url (DATABASE_URL): ", "--redis-url (REDIS_URL): "
	for _, test := range []struct{ runs, db, rdb, want string }{
		{"", "", "", ""}, {"auto", "", "", ""}, {"auto", "d", "r", ""}, {"both", "", "", ""}, {"postgres", "", "r", ""}, {"redis", "d", "", ""},
		{"auto", "d", "", rdb + "required, since"}, {"", "", "r", db + "required, since"},
		{"postgres", "", "", rdb + "required with --sandbox postgres"}, {"redis", "", "", db + "required with --sandbox redis"},
		{"postgres", "d", "r", "--sandbox postgres (MIAOSHA_SANDBOX): not together with --database-url"},
		{"redis", "d", "r", "--sandbox redis (MIAOSHA_SANDBOX): not together with --redis-url"},
		{"both", "d", "", "--sandbox both (MIAOSHA_SANDBOX): not together with --database-url"},
		{"both", "", "r", "--sandbox both (MIAOSHA_SANDBOX): not together with --redis-url"},
	} {
		cfg := backend.Config{SandboxRuns: test.runs, DatabaseURL: test.db, RedisURL: test.rdb, Pools: usual}
		err := cfg.RequireStores()
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test, err, test.want)
		}
	}
	if s, err := open(t, backend.Config{DatabaseURL: "postgres://h/d", Secret: secret}); s != nil || err == nil || !strings.HasPrefix(err.Error(), rdb) {
		t.Errorf("half a shop is opened: %v", err)
	}
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
		test.cfg.Pools = usual
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
