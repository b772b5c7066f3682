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

// startMonitor runs a Monitor that audits every 10 ms, until the test ends.
func startMonitor(t *testing.T, db *pgxpool.Pool, rdb redis.UniversalClient) (*prometheus.Registry, *sandboxtest.SyncBuffer) {
	t.Helper()
	log, reg := &sandboxtest.SyncBuffer{}, prometheus.NewRegistry()
	w := audit.NewMonitor(db, rdb, slog.New(slog.NewTextHandler(log, nil)))
	w.Hurry(10 * time.Millisecond)
	reg.MustRegister(w.Collectors()...)
	first := metrics(t, reg)
	for name, v := range first {
		if v != 0 {
			t.Errorf("%s is %v before the first audit", name, v)
		}
	}
	if len(first) != 9+3+1 { // invariants, results, the time of the last audit
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
	return reg, log
}

// until waits until the metrics satisfy a condition, and returns them.
func until(t *testing.T, reg *prometheus.Registry, what string, ok func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	var got map[string]float64
	if !sandboxtest.Poll(func() bool {
		got = metrics(t, reg)
		return ok(got)
	}) {
		t.Fatalf("waited 20 s for %s: %v", what, got)
	}
	return got
}

func TestTheGaugeShowsABreakAndItsRepair(t *testing.T) {
	db, _, _ := activeShop(t)
	reg, log := startMonitor(t, db, sandboxtest.Redis(t))
	got := until(t, reg, "a clean audit", func(m map[string]float64) bool {
		return m["audits_total clean"] > 0 && m["audit_last_finished_seconds"] > 0 // the two are set one after the other
	})
	for _, i := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9"} {
		if v, ok := got["invariant_broken "+i]; v != 0 || !ok {
			t.Errorf("%s is %v, present: %v", i, v, ok)
		}
	}
	if at := time.Unix(int64(got["audit_last_finished_seconds"]), 0); time.Since(at).Abs() > time.Minute {
		t.Errorf("the last audit ended at %v", at)
	}
	for range 2 {
		execute(t, db, `update sales set stock = stock + 1`)
		got = until(t, reg, "I1 broken", func(m map[string]float64) bool { return m["invariant_broken I1"] == 1 })
		if got["invariant_broken I8"] != 0 {
			t.Error("I8 is broken too")
		}
		more := got["audits_total broken"] + 3
		until(t, reg, "three more audits", func(m map[string]float64) bool { return m["audits_total broken"] >= more })
		execute(t, db, `update sales set stock = stock - 1`)
		clean := metrics(t, reg)["audits_total clean"]
		until(t, reg, "a clean audit again", func(m map[string]float64) bool {
			return m["invariant_broken I1"] == 0 && m["audits_total clean"] > clean
		})
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
	reg, _ := startMonitor(t, db, rdb)
	until(t, reg, "a clean audit", func(m map[string]float64) bool { return m["audits_total clean"] > 0 })
	rdb.Close()
	execute(t, db, `drop index one_capture_per_order`)
	got := until(t, reg, "I7 broken", func(m map[string]float64) bool { return m["invariant_broken I7"] == 1 })
	if got["audits_total broken"] != 0 {
		t.Errorf("an audit without Redis did not fail: %v", got)
	}
	execute(t, db, `create unique index x on payments (order_id) where status = 'captured'`)
	more := metrics(t, reg)["audits_total failed"] + 3
	got = until(t, reg, "three failed audits", func(m map[string]float64) bool { return m["audits_total failed"] >= more })
	if got["invariant_broken I7"] != 1 {
		t.Error("a failed audit cleared a finding")
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
	reg, _ := startMonitor(t, db, nil)
	for range 20 {
		execute(t, db, `select 1`)
	}
	until(t, reg, "two clean audits", func(m map[string]float64) bool { return m["audits_total clean"] > 1 })
}
