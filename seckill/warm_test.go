package seckill_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Shortly before a sale opens, every worker has a connection that has run the statements of a settle transaction, also if it was
// in use at first, and nothing of that is left.
func TestConnectionsAreWarmBeforeASaleOpens(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	now := time.Now()
	if _, err := s.sales.Sell(t.Context(), goods.Item{Title: "soon"}, goods.Terms{Price: 1, Total: 7, StartsAt: now.Add(9 * time.Minute), EndsAt: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	db := s.pool("settle")
	inUse, err := db.Acquire(t.Context()) // while the others are made warm
	if err != nil {
		t.Fatal(err)
	}
	release := sync.OnceFunc(inUse.Release)
	defer release()
	engine := s.engine(func(_ *seckill.Config, d *seckill.Deps) { d.DB = db })
	engine.WarmForAnyOpening()
	e := s.run(engine)
	s.now(e.ReconcileNow) // it finds the sale that is to open
	s.now(e.WarmNow)
	release()
	var prepared []int // of each connection that is idle: lock, place, take, refuse, results
	if !sandboxtest.Poll(func() bool {
		s.now(e.WarmNow)
		prepared = nil
		for _, conn := range db.AcquireAllIdle(t.Context()) {
			var statements int
			if err := conn.QueryRow(t.Context(), `select count(*) from pg_prepared_statements
				where statement ~ 'for    no key update of s|insert into orders|stock - |insert into ticket_results|ticket = any'`, pgx.QueryExecModeSimpleProtocol).Scan(&statements); err != nil {
				t.Error(err)
			}
			conn.Release()
			prepared = append(prepared, statements)
		}
		return len(prepared) >= 6 && !slices.ContainsFunc(prepared, func(n int) bool { return n != 5 })
	}) {
		t.Fatalf("%d of the five statements on each connection, want 5 on each of 6", prepared)
	}
	var orders, results, left int
	if err := s.db.QueryRow(t.Context(), `select (select count(*) from orders), (select count(*) from ticket_results), (select sum(stock) from sales)`).Scan(&orders, &results, &left); err != nil {
		t.Fatal(err)
	}
	if orders != 0 || results != 0 || left != 12 {
		t.Errorf("%d orders, %d results, %d units left; want 0, 0, 12", orders, results, left)
	}
}
