package backend_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

// pools returns every pool of the stores, by name.
func pools(s *backend.Stores) map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{"settle": s.Settle, "pay": s.Pay, "users": s.Users, "web": s.Web, "staff": s.Staff}
}

// The success of a commit whose wait for the standby was cancelled is an error, whatever way the
// transaction was made, and the repeat of the transaction waits again.
func TestACommitThatMayNotBeReplicatedFails(t *testing.T) {
	d := sandboxtest.DurablePostgres(t)
	d.Do(t, "alter database "+database(t, d.URL)+" set client_min_messages = error") // would hide the warning
	s, err := open(t, backend.Config{DatabaseURL: d.URL, RedisURL: sandboxtest.RedisURL(t), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d.Do(t, `insert into users (phone) values ('13800000000')`)
	d.LoseStandby(t)
	const change = `update users set nickname = nickname || '!' where phone = '13800000000'`
	ways := map[string]func(ctx context.Context, db *pgxpool.Pool) error{
		"a transaction": func(ctx context.Context, db *pgxpool.Pool) error {
			return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, change); return err })
		},
		"a statement": func(ctx context.Context, db *pgxpool.Pool) error { _, err := db.Exec(ctx, change); return err },
		"a row that is returned": func(ctx context.Context, db *pgxpool.Pool) error {
			var name string
			return db.QueryRow(ctx, change+` returning nickname`).Scan(&name)
		},
		"a batch": func(ctx context.Context, db *pgxpool.Pool) error {
			b := &pgx.Batch{}
			b.Queue(change)
			b.Queue(`select 1`)
			return db.SendBatch(ctx, b).Close()
		},
		"the lock of a repeat": func(ctx context.Context, db *pgxpool.Pool) error {
			return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, `select from users where phone = '13800000000' for no key update`)
				return err
			})
		},
	}
	for pool, db := range pools(s) {
		for way, do := range ways {
			t.Run(way+" of the pool "+pool, func(t *testing.T) {
				before := d.Text(t, `select nickname from users`)
				done := make(chan error, 1)
				go func() { done <- do(context.Background(), db) }()
				sandboxtest.Until(t, "the commit waits", func() bool { return d.WaitsForStandby(t) })
				d.CancelWaits(t)
				// A net.Error is a store that is down to whoever looks.
				var fault net.Error
				if err := <-done; !errors.As(err, &fault) || !strings.Contains(err.Error(), "its standby may not have it") {
					t.Errorf("it returned %v", err)
				}
				if way != "the lock of a repeat" { // else the test proves nothing
					sandboxtest.Until(t, "the transaction is visible", func() bool {
						return d.Text(t, `select nickname from users`) != before
					})
				}
				var one int
				if err := db.QueryRow(context.Background(), `select 1`).Scan(&one); err != nil {
					t.Errorf("the next query of the pool: %v", err)
				}
			})
		}
	}
}

// Other warnings are no errors.
func TestAWarningIsNoError(t *testing.T) {
	s, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Pay.Exec(t.Context(), `do $$ begin raise warning 'SyncRepWaitForLSN %', repeat('x', 20000); end $$`); err != nil {
		t.Error(err)
	}
	var n int
	if err := s.Pay.QueryRow(t.Context(), `select length(string_agg(repeat('x', 5000), '')) from generate_series(1, 100)`).Scan(&n); err != nil || n != 500000 {
		t.Error(n, err)
	}
}

// twoServers returns two servers with the same role and database, their addresses, and the URL of
// servers.
func twoServers(t *testing.T) (servers [2]*sandboxtest.Durable, at [2]string, urlOf func(at ...string) string) {
	t.Helper()
	for i := range servers {
		servers[i] = sandboxtest.DurablePostgres(t)
		servers[i].Do(t, `create role shop superuser login password 'shop'`)
		u, err := url.Parse(servers[i].URL)
		if err != nil {
			t.Fatal(err)
		}
		at[i] = u.Host
	}
	return servers, at, func(at ...string) string {
		return "postgres://shop:shop@" + strings.Join(at, ",") + "/miaosha?sslmode=disable"
	}
}

const (
	writeSomewhere = `update schema_version set version = version returning inet_server_port()::text`
	readSomewhere  = `select inet_server_port()::text`
)

// where runs a statement that returns the port of its server.
func where(t *testing.T, db *pgxpool.Pool, sql string) (port string, err error) {
	t.Helper()
	err = db.QueryRow(t.Context(), sql).Scan(&port)
	return port, err
}

func TestOfSeveralServersTheOneThatTakesWritesIsUsed(t *testing.T) {
	servers, at, urlOf := twoServers(t)
	servers[0].Set(t, "default_transaction_read_only", "on")
	rdb, down := sandboxtest.RedisURL(t), closedPort
	for name, hosts := range map[string][]string{
		"the first is read-only": {at[0], at[1]}, "the second is read-only": {at[1], at[0]}, "the first is down": {down, at[1]},
	} {
		for _, attrs := range []string{"", "&target_session_attrs=read-write", "&target_session_attrs=standby"} {
			s, err := open(t, backend.Config{DatabaseURL: urlOf(hosts...) + attrs, RedisURL: rdb, Secret: secret})
			if err != nil {
				t.Errorf("%s %s: %v", name, attrs, err)
				continue
			}
			for pool, db := range pools(s) {
				if port, err := where(t, db, writeSomewhere); err != nil || !strings.HasSuffix(at[1], ":"+port) {
					t.Errorf("%s %s: the pool %s wrote at %s: %v; want %s", name, attrs, pool, port, err, at[1])
				}
			}
			s.Close()
		}
	}
	for what, c := range map[string]struct {
		hosts []string
		want  string
	}{
		"a standby alone":       {at[:1], "no Postgres in it takes writes (" + at[0] + "): one that answers is a standby or read-only"},
		"a standby and none":    {[]string{down, at[0]}, "no Postgres in it takes writes (" + down + ", " + at[0] + "): one that answers is a standby or read-only"},
		"two that do not run":   {[]string{down, "localhost:2"}, "can't reach Postgres at " + down + ", localhost:2"},
		"a host without a port": {[]string{"127.0.0.1:x"}, "not a postgres:// address"},
	} {
		s, err := open(t, backend.Config{DatabaseURL: urlOf(c.hosts...), RedisURL: rdb, Secret: secret})
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "--database-url (DATABASE_URL): "+c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A server may turn read-only while pools are connected to it. A pool loses at most one call for
// each of its connections, also one that only reads.
func TestAServerThatTurnsReadOnlyIsLeft(t *testing.T) {
	servers, at, urlOf := twoServers(t)
	const each = 3 // connections of a pool
	for name, sql := range map[string]string{"writes": writeSomewhere, "reads": readSomewhere} {
		t.Run(name, func(t *testing.T) {
			servers[0].Set(t, "default_transaction_read_only", "off")
			s, err := open(t, backend.Config{DatabaseURL: urlOf(at[:]...), RedisURL: sandboxtest.RedisURL(t), Secret: secret})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			most := map[string]int{} // connections: a pool that is slow to open one opens another
			for pool, db := range pools(s) {
				hold(t, db, each)
				most[pool] = int(db.Stat().TotalConns() + db.Stat().ConstructingConns())
				if port, err := where(t, db, sql); err != nil || !strings.HasSuffix(at[0], ":"+port) {
					t.Fatalf("the pool %s: %s, %v; want %s", pool, port, err, at[0])
				}
			}
			servers[0].Set(t, "default_transaction_read_only", "on")
			for pool, db := range pools(s) {
				stale := 0
				for range 3 * most[pool] {
					if port, err := where(t, db, sql); err != nil || !strings.HasSuffix(at[1], ":"+port) {
						stale++
					}
				}
				// Of a connection that was idle for a second no call is lost: it is asked before its use.
				if stale > most[pool] {
					t.Errorf("the pool %s: %d calls failed or met the old server, want at most %d", pool, stale, most[pool])
				}
				if port, err := where(t, db, writeSomewhere); err != nil || !strings.HasSuffix(at[1], ":"+port) {
					t.Errorf("the pool %s writes at %s, %v; want %s", pool, port, err, at[1])
				}
			}
		})
	}
}

// A server, or a pooler before it, may not say that it has turned read-only. The refused write does.
func TestARefusedWriteClosesItsConnection(t *testing.T) {
	s, err := open(t, backend.Config{DatabaseURL: sandboxtest.DatabaseURL(t), RedisURL: sandboxtest.RedisURL(t), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pool, db := range pools(s) {
		for want, tx := range map[bool]pgx.TxOptions{true: {AccessMode: pgx.ReadOnly}, false: {AccessMode: pgx.ReadWrite}} {
			conn, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = pgx.BeginTxFunc(t.Context(), conn, tx, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), `update schema_version set version = version`)
				return err
			})
			if closed := conn.Conn().IsClosed(); closed != want || (err != nil) != want {
				t.Errorf("the pool %s: a write that is %s returned %v; closed is %v", pool, tx.AccessMode, err, closed)
			}
			conn.Release()
		}
	}
}

// A machine that is gone refuses nothing: it is silent.
func TestAServerThatFallsSilentIsLeft(t *testing.T) {
	_, at, urlOf := twoServers(t)
	proxy, err := sandboxtest.NewProxy(at[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Cut)
	s, err := open(t, backend.Config{DatabaseURL: urlOf(proxy.Addr(), at[1]), RedisURL: sandboxtest.RedisURL(t), Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hold(t, s.Settle, 8)                  // all
	<-time.After(1100 * time.Millisecond) //timing: pgx asks a connection whether it lives when it was idle for a second
	proxy.Swallow("", 1<<30)
	sandboxtest.Until(t, "the pool writes at the other server", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) //timing: a query at a silent server has no other end
		defer cancel()
		var port string
		return s.Settle.QueryRow(ctx, writeSomewhere).Scan(&port) == nil && strings.HasSuffix(at[1], ":"+port)
	})
	proxy.Cut() // or the pool waits for its old connections
}

// hold opens n connections of a pool, which are idle then.
func hold(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	var held []*pgxpool.Conn
	for range n {
		conn, err := db.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
}
