package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The gauges show what waits in the stores. Those of a store that does not answer are absent, and the others stay.
func TestGaugesShowWhatWaits(t *testing.T) {
	t.Parallel()
	db, sale, _ := activeShop(t)
	rdb, key := sandboxtest.Redis(t), func(name string) string { return fmt.Sprintf("ms:{%d}:%s", sale, name) }
	execute(t, db, `update payments set status = 'refund_due', updated_at = now() - interval '90 s' where provider_ref = 'r2'`)
	execute(t, db, `update orders set expires_at = clock_timestamp() - interval '10 s' where status = 'pending'`)
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	journal := fmt.Sprintf("ms:{%d}:journal2", sale)
	err = rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: journal, ID: fmt.Sprintf("%d-0", now.Add(-20*time.Second).UnixMilli()), Values: []string{"n", "3"}}).Err()
	if err == nil {
		err = rdb.HSet(t.Context(), key("gate"), "epoch", 1, "ops", 0, "stock", 2, "in_flight", 3).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(rdb.(*redis.Client).Options())
	g, reg := audit.NewGauges(db, client, slog.New(slog.DiscardHandler)), prometheus.NewPedanticRegistry()
	reg.MustRegister(g.Collectors()...)
	if first := metrics(t, reg); len(first) != 0 {
		t.Errorf("before the first reading there are %v", first)
	}
	readings := g.Patient()
	ctx, stop := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return g.Run(ctx) })
	defer running.Wait()
	defer stop()
	check := func(want map[string][2]float64) {
		t.Helper()
		if err := readings.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := metrics(t, reg)
		for name, between := range want {
			if v, read := got[name]; !read || v < between[0] || v > between[1] {
				t.Errorf("%s is %v, %v; want %v", name, v, read, between)
			}
			delete(got, name)
		}
		for name, v := range got {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	recent := [2]float64{float64(time.Now().Unix() - 60), float64(time.Now().Unix() + 60)}
	ofPostgres := map[string][2]float64{"refunds_due": {1, 1}, "refunds_due_oldest_seconds": {90, 150}, "orders_overdue": {2, 2}, "orders_overdue_oldest_seconds": {10, 70},
		"store_read_timestamp_seconds postgres": recent, "store_read_timestamp_seconds redis": recent}
	both := map[string][2]float64{"journal_tickets": {3, 3}, "journal_oldest_ticket_seconds": {20, 80}}
	for name, between := range ofPostgres {
		both[name] = between
	}
	check(both)
	client.Close()
	check(ofPostgres)
}
