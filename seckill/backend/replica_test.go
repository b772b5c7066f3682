//go:build linux

package backend_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/backend"
	"miaosha/seckill/sandbox/sandboxtest"
)

const addUser = `insert into users (phone) select 13800000000 + count(*) from users`

// users counts the users that a pool shows.
func users(t *testing.T, db *pgxpool.Pool) (n int, err error) {
	t.Helper()
	err = db.QueryRow(t.Context(), `select count(*) from users`).Scan(&n)
	return n, err
}

// replica is that of open stores. Its clock passes only when the test says so.
type replica struct {
	*backend.Replica
	passed atomic.Int64
}

// pass lets time pass.
func (r *replica) pass(d time.Duration) { r.passed.Add(int64(d)) }

// withReplica opens the stores and runs their replica until the end of the test.
func withReplica(t *testing.T, cfg backend.Config) (*replica, *sandboxtest.SyncBuffer) {
	t.Helper()
	log := &sandboxtest.SyncBuffer{}
	cfg.RedisURL, cfg.Secret, cfg.Pools = sandboxtest.RedisURL(t), secret, usual
	s, err := backend.Open(t.Context(), cfg, schema(t), slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r, began := &replica{Replica: s.Replica}, time.Now()
	r.SetClock(func() time.Time { return began.Add(time.Duration(r.passed.Load())) })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		s.Close()
	})
	return r, log
}

func TestReplica(t *testing.T) {
	primary := sandboxtest.DurablePostgres(t)
	standby := primary.Standby(t)
	const maxLag = time.Minute
	cfg := backend.Config{DatabaseURL: primary.URL, ReadDatabaseURL: standby.URL, ReadMaxLag: maxLag}
	usable := func(t *testing.T, r *replica) (shown int) {
		t.Helper()
		sandboxtest.Until(t, "the standby is read", func() (ok bool) {
			n, err := users(t, r.Pool)
			shown = n
			return err == nil
		})
		return shown
	}
	look := func(t *testing.T, r *replica) {
		t.Helper()
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("is old by no more than it says", func(t *testing.T) {
		r, log := withReplica(t, cfg)
		before := usable(t, r)
		says := func(what string) {
			t.Helper()
			sandboxtest.Until(t, "the log says it", func() bool { return strings.Contains(log.String(), what) })
		}
		says("are read at --read-database-url")
		standby.Pause(t)
		primary.Do(t, addUser)
		look(t, r)
		if n := usable(t, r); n != before {
			t.Fatalf("the paused standby shows %d users, want %d", n, before)
		}
		r.pass(maxLag)
		if n := usable(t, r); n != before {
			t.Errorf("at the end of the time the standby shows %d users, want %d", n, before)
		}
		r.pass(1)
		look(t, r) // the primary has more than the standby, and had it all the time
		const behind = "it is more than 1m0s behind the primary"
		if n, err := users(t, r.Pool); err == nil || !strings.Contains(err.Error(), behind) {
			t.Errorf("after that it shows %d users, %v", n, err)
		}
		says("are read at the primary, not at --read-database-url")
		standby.Resume(t)
		standby.CatchUp(t, primary)
		if n := usable(t, r); n != before+1 {
			t.Errorf("%d users; want %d", n, before+1)
		}
	})

	// A primary without new commits moves nothing in its log. A standby that has all of it is up to date however long that lasts.
	t.Run("an idle primary leaves it usable", func(t *testing.T) {
		r, _ := withReplica(t, cfg)
		usable(t, r)
		r.pass(2 * maxLag)
		look(t, r)
		usable(t, r)
	})

	t.Run("dies and comes back", func(t *testing.T) {
		r, _ := withReplica(t, cfg)
		usable(t, r)
		standby.Kill()
		if _, err := users(t, r.Pool); err == nil {
			t.Error("a standby that is dead was read")
		}
		dead, log := withReplica(t, cfg) // the shop starts without it
		if !strings.Contains(log.String(), "--read-database-url does not reply") {
			t.Errorf("the log says %q", log)
		}
		standby.Start(t)
		usable(t, r)
		usable(t, dead)
	})

	t.Run("may be the primary itself", func(t *testing.T) {
		cfg := cfg
		cfg.ReadDatabaseURL = cfg.DatabaseURL
		r, _ := withReplica(t, cfg)
		usable(t, r)
	})

	t.Run("is of the same cluster", func(t *testing.T) {
		other := sandboxtest.DatabaseURL(t)
		for name, c := range map[string]struct{ at, want string }{
			"another cluster":  {other, "it is no standby of --database-url: its system identifier is "},
			"another database": {change(t, standby.URL, func(u *url.URL) { u.Path = "/postgres" }), "it is the database postgres, --database-url is miaosha"},
			"no database":      {change(t, standby.URL, func(u *url.URL) { u.Path = "/missing" }), `the connection is refused by Postgres: database "missing" does not exist`},
			"a wrong password": {change(t, standby.URL, func(u *url.URL) { u.User = url.UserPassword("miaosha", "x") }), "the user or the password in it is refused by Postgres"},
			"no URL":           {"mysql://db/shop", "not a postgres:// address"},
		} {
			cfg := cfg
			cfg.ReadDatabaseURL, cfg.RedisURL, cfg.Secret = c.at, sandboxtest.RedisURL(t), secret
			if s, err := open(t, cfg); s != nil || err == nil || !strings.HasPrefix(err.Error(), "--read-database-url (READ_DATABASE_URL): "+c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("only shows", func(t *testing.T) { replicaOnlyShows(t, primary, standby) })

	// What the promoted standby shows is not what the primary has.
	t.Run("is left when it is promoted", func(t *testing.T) {
		r, _ := withReplica(t, cfg)
		usable(t, r)
		standby.Do(t, `select pg_promote()`)
		sandboxtest.Until(t, "the promoted standby is left", func() bool {
			_, err := users(t, r.Pool)
			return err != nil && strings.Contains(err.Error(), "it takes writes and is not the primary")
		})
	})
}

// A role that may not read, and a pooler with other settings, are said at the start. The primary stands for its standby here.
func TestAReplicaThatCannotBeReadIsRefused(t *testing.T) {
	at, rdb := sandboxtest.DatabaseURL(t), sandboxtest.RedisURL(t)
	conn := connect(t, at)
	do(t, conn, "create role no_reader login password 'reader'")
	t.Cleanup(func() {
		for _, sql := range []string{"drop owned by no_reader", "drop role no_reader"} {
			if _, err := conn.Exec(context.Background(), sql); err != nil {
				t.Error(err)
			}
		}
	})
	do(t, conn, "grant select on goods to no_reader")
	role := change(t, at, func(u *url.URL) { u.User = url.UserPassword("no_reader", "reader") })
	pooler := change(t, pgBouncer(t, at, map[string]string{"ignore_startup_parameters": "extra_float_digits"}), func(u *url.URL) {
		u.RawQuery += "&default_query_exec_mode=cache_describe"
	})
	for read, want := range map[string]string{role: `the role no_reader lacks select on sales: run "grant select on goods, sales to no_reader"`, pooler: "set ignore_startup_parameters"} {
		s, err := open(t, backend.Config{DatabaseURL: at, ReadDatabaseURL: read, ReadMaxLag: time.Minute, RedisURL: rdb, Secret: secret})
		if s != nil || err == nil || !strings.HasPrefix(err.Error(), "--read-database-url (READ_DATABASE_URL): ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %s", s, err, want)
		}
	}
}

func TestReplicaSettingsAreChecked(t *testing.T) {
	for want, cfg := range map[string]backend.Config{
		"--read-database-url (READ_DATABASE_URL): only with --database-url, whose standby it has to be": {ReadDatabaseURL: "postgres://h/db", ReadMaxLag: time.Second},
		"--read-max-lag (MIAOSHA_READ_MAX_LAG): 0s is too short, at least 500ms":                        {DatabaseURL: "postgres://h/db", ReadDatabaseURL: "postgres://i/db"},
	} {
		if err := cfg.Validate(); fmt.Sprint(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// replicaOnlyShows runs a shop whose standby stops at an old state, which the shop allows, and then dies. Details are the old
// ones, and purchases are exact. The standby's role has no more rights than deploy/README.md says.
func replicaOnlyShows(t *testing.T, primary *sandboxtest.Durable, standby *sandboxtest.Standby) {
	primary.Do(t, `create role reader login password 'reader'`, `grant select on goods, sales to reader`)
	env := append(sandboxtest.Stores(t)[1:], "DATABASE_URL="+primary.URL, "MIAOSHA_READ_MAX_LAG=1h", "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off",
		"READ_DATABASE_URL="+change(t, standby.URL, func(u *url.URL) { u.User = url.UserPassword("reader", "reader") }))
	old := sandboxtest.Sale(t, env, 5)
	shop := sandboxtest.Open(t, env)
	sandboxtest.Until(t, "the shop reads at the standby", func() bool {
		return strings.Contains(shop.Log.String(), "are read at --read-database-url")
	})
	standby.CatchUp(t, primary)
	standby.Pause(t)
	primary.Do(t, `update goods set title = 'new'`)
	after := sandboxtest.Sale(t, env, 5)
	detail := func(sale string) (code string, d struct{ Title string }) {
		r := sandboxtest.Call("GET", shop.URL+"/api/sales/"+sale, "", "")
		if r.Code == "ok" {
			r.Read(t, &d)
		}
		return r.Code, d
	}
	if code, d := detail(old); code != "ok" || d.Title != "T" {
		t.Errorf("the detail is %s %q, want the standby's T\n%s", code, d.Title, shop.Log)
	}
	if code, _ := detail(after); code != "no_sale" {
		t.Errorf("the detail of a sale that the standby does not have: %s", code)
	}
	for _, sale := range []string{old, after} {
		buyers := shop.Buyers(t, 20, sale)
		var crowd sync.WaitGroup
		for _, b := range buyers {
			crowd.Go(func() { b.Buy(time.Now().Add(sandboxtest.Hang)) })
		}
		crowd.Wait()
		states := map[string]int{}
		for _, b := range buyers {
			states[b.State]++
			if b.OrderID == "" {
				continue
			}
			if r := sandboxtest.Call("GET", shop.URL+"/api/orders/"+b.OrderID, b.Token, ""); r.Code != "ok" {
				t.Errorf("the order of a buyer: %d %s", r.Status, r.Code)
			}
		}
		if states["ordered"] != 5 || states["sold_out"] != 15 {
			t.Errorf("20 buyers of 5 units have the results %v", states)
		}
	}
	sandboxtest.MustCommand(t, env, "audit")
	standby.Kill()
	defer standby.Start(t)
	sandboxtest.Until(t, "the details are the primary's", func() bool {
		_, d := detail(old)
		code, _ := detail(after)
		return d.Title == "new" && code == "ok"
	})
}
