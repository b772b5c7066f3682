package lab_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/labtest"
	"miaosha/seckill/lab/strategies"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The client of a shop behind sentinels has no address of a server: its dialer asks the sentinels.
func TestTheLabFindsARedisBehindSentinels(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	shop := redis.NewClient(&redis.Options{Addr: "FailoverClient", Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Addr())
	}})
	defer shop.Close()
	own, err := lab.OpenRedis(lab.Stores{Redis: shop})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := own.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

// A run leaves no schema and no keys, whether it ends, is stopped, or dies with its process.
func TestRunsLeaveNothing(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	ctx, stop := context.WithCancel(t.Context())
	p := lab.Plan{Strategies: []string{"lua", "shop", "optimistic-retry"}, Buyers: 300, Stock: 100, Seed: 1, Seconds: lab.MaxSeconds}
	_, err := strategies.Run(ctx, s, p, func(now lab.Progress) {
		if now.Strategy == "optimistic-retry" {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped run returns %v", err)
	}
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if n, keys := labtest.LabSchemas(t, db), s.Redis.Keys(t.Context(), "*").Val(); n != 0 || len(keys) != 0 {
		t.Errorf("%d schemas and the keys %v are left", n, keys)
	}

	dead, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
	if err != nil {
		t.Fatal(err)
	}
	s.Redis.Set(t.Context(), dead.Key("stock"), 1, 0)
	living, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
	if err != nil {
		t.Fatal(err)
	}
	if n := labtest.LabSchemas(t, db); n != 2 {
		t.Errorf("%d schemas of two living runs, want 2", n)
	}
	labtest.Die(t, dead, db)
	next, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
	if err != nil {
		t.Fatal(err)
	}
	if n, keys := labtest.LabSchemas(t, db), s.Redis.Keys(t.Context(), "*").Val(); n != 2 || len(keys) != 0 {
		t.Errorf("two living runs have %d schemas, and the keys %v are left", n, keys)
	}
	if err := errors.Join(living.Close(t.Context()), next.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if n := labtest.LabSchemas(t, db); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
}

// A statement that makes a namespace may be ended from outside, as on a machine so busy that the guard takes it for a program's.
func TestANamespaceIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := labtest.Stores(t)
	db, err := pgx.Connect(t.Context(), s.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for name, c := range map[string]struct {
		times int
		made  bool
	}{"twice": {2, true}, "always": {3, false}} {
		if _, err := db.Exec(t.Context(), `begin; lock table pg_namespace in share row exclusive mode`); err != nil { // none can be made
			t.Fatal(err)
		}
		made := make(chan error, 1)
		go func() {
			n, err := lab.OpenNamespace(t.Context(), s, lab.Tables)
			if err == nil {
				err = n.Close(t.Context())
			}
			made <- err
		}()
		ended := map[string]bool{} // statements that waited; a cancelled one may wait for a moment yet
		sandboxtest.Until(t, "so many statements are ended", func() bool {
			if len(made) > 0 {
				t.Fatalf("%s: given up after %d: %v", name, len(ended), <-made)
			}
			if _, err := db.Exec(t.Context(), `select pg_stat_clear_snapshot()`); err != nil { // a transaction sees the connections of its begin
				t.Fatal(err)
			}
			rows, _ := db.Query(t.Context(), `select statement from (select pid || ' ' || query_start as statement, pg_cancel_backend(pid) as ended
				from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock') waiting where ended`)
			statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range statements {
				ended[s] = true
			}
			return len(ended) >= c.times
		})
		if _, err := db.Exec(t.Context(), `commit`); err != nil {
			t.Fatal(err)
		}
		if err := <-made; (err == nil) != c.made || err != nil && !lab.IsEnded(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
