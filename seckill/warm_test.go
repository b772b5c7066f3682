package seckill_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Shortly before a sale opens, every worker has a connection that has run the statements of a settle transaction, and nothing
// of that is left.
func TestConnectionsAreWarmBeforeASaleOpens(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	now := time.Now()
	if _, err := s.sales.Sell(t.Context(), goods.Item{Title: "soon"}, goods.Terms{Price: 1, Total: 7, StartsAt: now.Add(15 * time.Second), EndsAt: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	db := s.pool("settle")
	s.start(func(_ *seckill.Config, d *seckill.Deps) { d.DB = db })
	if !sandboxtest.Poll(10*time.Second, func() bool { return db.Stat().TotalConns() >= 6 && db.Stat().AcquiredConns() == 0 }) {
		t.Fatalf("%d connections, want 6", db.Stat().TotalConns())
	}
	for i, conn := range db.AcquireAllIdle(t.Context()) {
		var statements int
		if err := conn.QueryRow(t.Context(), `select count(*) from pg_prepared_statements
			where statement ~ 'for    no key update of s|insert into orders|stock - |insert into ticket_results|ticket = any'`, pgx.QueryExecModeSimpleProtocol).Scan(&statements); err != nil {
			t.Error(err)
		}
		conn.Release()
		if statements != 5 {
			t.Errorf("connection %d has %d of the five statements: lock, place, take, refuse, results", i, statements)
		}
	}
	var orders, results, left int
	if err := s.db.QueryRow(t.Context(), `select (select count(*) from orders), (select count(*) from ticket_results), (select sum(stock) from sales)`).Scan(&orders, &results, &left); err != nil {
		t.Fatal(err)
	}
	if orders != 0 || results != 0 || left != 12 {
		t.Errorf("%d orders, %d results, %d units left; want 0, 0, 12", orders, results, left)
	}
}
