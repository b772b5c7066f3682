package sandboxtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox"
)

// Durable is a Postgres that syncs to disk and may have standbys, as one of an operator does. Its
// database holds /schema.sql.
type Durable struct {
	URL   string
	admin *pgx.Conn // never waits for a standby
}

// DurablePostgres starts a Durable. It ends with the test.
func DurablePostgres(t testing.TB) *Durable {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit) //timing: the first start may download a Postgres
	defer cancel()
	s, err := sandbox.Open(ctx, sandbox.Config{DataDir: filepath.Join(Home(t), "durable"), Postgres: true})
	if err != nil {
		t.Fatalf("start a Postgres: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &Durable{URL: s.DatabaseURL}
	if d.admin, err = pgx.Connect(ctx, s.DatabaseURL+"&synchronous_commit=local"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.admin.Close(context.Background()) })
	schema, err := readSchema()
	if err != nil {
		t.Fatal(err)
	}
	d.Do(t, string(schema))
	return d
}

// Do runs statements, each in a transaction of its own.
func (d *Durable) Do(t testing.TB, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	for _, sql := range statements {
		if _, err := d.admin.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Set changes a setting of the server for all connections.
func (d *Durable) Set(t testing.TB, name, value string) {
	t.Helper()
	d.Do(t, "alter system set "+name+" = '"+value+"'", "select pg_reload_conf()")
	Until(t, "the server reads its settings", func() bool {
		return d.Text(t, "show "+name) == value
	})
}

// LoseStandby makes the server wait for a standby that does not exist: no commit returns any more.
func (d *Durable) LoseStandby(t testing.TB) {
	t.Helper()
	d.Set(t, "synchronous_standby_names", "missing")
	// Commits wait from when the checkpointer has read the setting, which may be later.
	conn, err := pgx.Connect(context.Background(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	Until(t, "commits wait for the standby", func() bool {
		done, waits := make(chan error, 1), false
		go func() {
			_, err := conn.PgConn().Exec(context.Background(), "create temp table probe (); drop table probe").ReadAll()
			done <- err
		}()
		Poll(func() bool {
			waits = d.WaitsForStandby(t)
			return waits || len(done) > 0
		})
		if waits {
			d.CancelWaits(t)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return waits
	})
}

// Text returns the one value of a query.
func (d *Durable) Text(t testing.TB, sql string) (text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Hang)
	defer cancel()
	if err := d.admin.QueryRow(ctx, sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// WaitsForStandby reports whether a commit waits for the standby.
func (d *Durable) WaitsForStandby(t testing.TB) bool {
	t.Helper()
	return d.Text(t, `select count(*)::text from pg_stat_activity where wait_event = 'SyncRep'`) != "0"
}

// CancelWaits cancels the waits for the standby: their commits are done on this server alone.
func (d *Durable) CancelWaits(t testing.TB) {
	t.Helper()
	d.Do(t, `select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'`)
}
