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

// gauges reads the metrics: a name with the values of its labels.
func gauges(t *testing.T, reg *prometheus.Registry) map[string]float64 {
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

// watched runs a Watch that hurries, until the test ends.
func watched(t *testing.T, db *pgxpool.Pool, rdb redis.UniversalClient) (*prometheus.Registry, *sandboxtest.Tape) {
	t.Helper()
	log, reg := &sandboxtest.Tape{}, prometheus.NewRegistry()
	w := audit.NewWatch(db, rdb, slog.New(slog.NewTextHandler(log, nil)))
	w.Hurry(10 * time.Millisecond)
	reg.MustRegister(w.Collectors()...)
	first := gauges(t, reg)
	for name, v := range first {
		if v != 0 {
			t.Errorf("%s is %v at first", name, v)
		}
	}
	if len(first) != 9+3+1 { // invariants, results, the time
		t.Errorf("at first there are %v", first)
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

func until(t *testing.T, reg *prometheus.Registry, what string, is func(map[string]float64) bool) map[string]float64 {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		got := gauges(t, reg)
		if is(got) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("not until now: %s: %v", what, got)
		}
	}
}

func TestTheGaugeTurnsAndTurnsBack(t *testing.T) {
	db, _, _ := lively(t)
	reg, log := watched(t, db, sandboxtest.Redis(t))
	got := until(t, reg, "a clean audit", func(m map[string]float64) bool {
		return m["audits_total clean"] > 0 && m["audit_last_finished_seconds"] > 0 // they are read one after the other
	})
	for _, i := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9"} {
		if v, there := got["invariant_broken "+i]; v != 0 || !there {
			t.Errorf("%s is %v, there %v", i, v, there)
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
		until(t, reg, "more audits", func(m map[string]float64) bool { return m["audits_total broken"] >= more })
		execute(t, db, `update sales set stock = stock - 1`)
		clean := gauges(t, reg)["audits_total clean"]
		until(t, reg, "all clean again", func(m map[string]float64) bool {
			return m["invariant_broken I1"] == 0 && m["audits_total clean"] > clean
		})
	}
	text := log.String()
	if n := strings.Count(text, `level=ERROR msg="an invariant is broken" invariant=I1`); n != 2 || !strings.Contains(text, "stock=3 pending_and_paid=3") {
		t.Errorf("told %d times of two breaks:\n%s", n, text)
	}
	if n := strings.Count(text, "an invariant holds again"); n != 2 {
		t.Errorf("told %d times of two repairs:\n%s", n, text)
	}
}

// Without Redis an audit fails; what Postgres shows is told all the same, and what was known is not forgotten.
func TestAWatchWithoutRedis(t *testing.T) {
	db, _, _ := lively(t)
	rdb := sandboxtest.Redis(t)
	reg, _ := watched(t, db, rdb)
	until(t, reg, "a clean audit", func(m map[string]float64) bool { return m["audits_total clean"] > 0 })
	rdb.Close()
	execute(t, db, `drop index one_capture_per_order`)
	got := until(t, reg, "I7 broken", func(m map[string]float64) bool { return m["invariant_broken I7"] == 1 })
	if got["audits_total broken"] != 0 {
		t.Errorf("an audit without Redis ended: %v", got)
	}
	execute(t, db, `create unique index x on payments (order_id) where status = 'captured'`)
	more := gauges(t, reg)["audits_total failed"] + 3
	got = until(t, reg, "failed audits", func(m map[string]float64) bool { return m["audits_total failed"] >= more })
	if got["invariant_broken I7"] != 1 {
		t.Error("a failed audit took a finding back")
	}
}

// One connection is enough, and none is held between audits.
func TestAWatchTakesOneConnection(t *testing.T) {
	few := sandboxtest.DB(t).Config()
	few.MaxConns = 1
	db, err := pgxpool.NewWithConfig(t.Context(), few)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	reg, _ := watched(t, db, nil)
	for range 20 {
		execute(t, db, `select 1`)
	}
	until(t, reg, "two clean audits", func(m map[string]float64) bool { return m["audits_total clean"] > 1 })
}
