package audit_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// metrics returns the value of each metric. The key is its name and its label values.
func metrics(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "miaosha_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

// startMonitor runs a Monitor until the test ends. It audits at once, and then when it is told to by audit.
func startMonitor(t *testing.T, db *pgxpool.Pool, rdb redis.UniversalClient) (audits func(n int) map[string]float64, log *sandboxtest.SyncBuffer) {
	t.Helper()
	log, reg := &sandboxtest.SyncBuffer{}, prometheus.NewRegistry()
	w := audit.NewMonitor(db, rdb, slog.New(slog.NewTextHandler(log, nil)))
	rounds := w.OnlyWhenTold()
	reg.MustRegister(w.Collectors()...)
	first := metrics(t, reg)
	for name, v := range first {
		if v != 0 {
			t.Errorf("%s is %v before the first audit", name, v)
		}
	}
	if len(first) != 10+3+1 { // invariants and the schema, results, the time of the last audit
		t.Errorf("before the first audit there are %d metrics: %v", len(first), first)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})
	return func(n int) map[string]float64 {
		t.Helper()
		for range n {
			if err := rounds.Now(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return metrics(t, reg)
	}, log
}

func TestTheGaugeShowsABreakAndItsRepair(t *testing.T) {
	db, _, _ := activeShop(t)
	audits, log := startMonitor(t, db, sandboxtest.Redis(t))
	began := time.Now().Truncate(time.Second)
	got := audits(1)
	for _, i := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "schema"} {
		if v, ok := got["invariant_broken "+i]; v != 0 || !ok {
			t.Errorf("%s is %v, present: %v", i, v, ok)
		}
	}
	if at := time.Unix(int64(got["audit_last_finished_seconds"]), 0); got["audits_total clean"] == 0 || at.Before(began) || at.After(time.Now()) {
		t.Errorf("the last audit ended at %v, and %v were clean", at, got["audits_total clean"])
	}
	for range 2 {
		execute(t, db, `update sales set stock = stock + 1`)
		before := got
		got = audits(3)
		if got["invariant_broken I1"] != 1 || got["invariant_broken I8"] != 0 || got["audits_total broken"] < before["audits_total broken"]+3 {
			t.Errorf("with a unit too much: %v", got)
		}
		execute(t, db, `update sales set stock = stock - 1`)
		before = got
		if got = audits(1); got["invariant_broken I1"] != 0 || got["audits_total clean"] <= before["audits_total clean"] {
			t.Errorf("without it: %v", got)
		}
	}
	text := log.String()
	if n := strings.Count(text, `level=ERROR msg="an invariant is broken" invariant=I1`); n != 2 {
		t.Errorf("two breaks were logged %d times:\n%s", n, text)
	}
	if row := "stock=3 pending_and_paid=3"; !strings.Contains(text, row) {
		t.Errorf("the log does not have the row %q:\n%s", row, text)
	}
	if n := strings.Count(text, "an invariant holds again"); n != 2 {
		t.Errorf("two repairs were logged %d times:\n%s", n, text)
	}
}

// Without Redis an audit fails. Its findings in Postgres are still reported, and it clears no earlier finding.
func TestAMonitorWithoutRedis(t *testing.T) {
	db, _, _ := activeShop(t)
	rdb := sandboxtest.Redis(t)
	audits, _ := startMonitor(t, db, rdb)
	if got := audits(1); got["audits_total clean"] == 0 {
		t.Errorf("with Redis: %v", got)
	}
	rdb.Close()
	execute(t, db, `drop index one_capture_per_order`)
	if got := audits(1); got["invariant_broken I7"] != 1 || got["audits_total broken"] != 0 {
		t.Errorf("without Redis and a constraint: %v", got)
	}
	execute(t, db, `create unique index x on payments (order_id) where status = 'captured'`)
	if got := audits(3); got["invariant_broken I7"] != 1 || got["audits_total failed"] < 3 {
		t.Errorf("a failed audit cleared a finding: %v", got)
	}
}

// A Monitor needs one connection only, and holds none between audits.
func TestAMonitorUsesOneConnection(t *testing.T) {
	few := sandboxtest.DB(t).Config()
	few.MaxConns = 1
	db, err := pgxpool.NewWithConfig(t.Context(), few)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	audits, _ := startMonitor(t, db, nil)
	for range 3 {
		execute(t, db, `select 1`)
		if got := audits(1); got["audits_total clean"] == 0 || got["audits_total failed"] > 0 {
			t.Errorf("with one connection: %v", got)
		}
	}
}
