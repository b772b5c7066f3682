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
	var warm int
	if !sandboxtest.Poll(10*time.Second, func() bool {
		warm = 0
		for _, conn := range db.AcquireAllIdle(t.Context()) {
			var statements int // lock, place, take, refuse, results
			if err := conn.QueryRow(t.Context(), `select count(*) from pg_prepared_statements where statement ~ 'sales|orders|ticket'`, pgx.QueryExecModeSimpleProtocol).Scan(&statements); err != nil {
				t.Error(err)
			}
			if statements == 5 {
				warm++
			}
			conn.Release()
		}
		return warm == 6
	}) {
		t.Errorf("%d connections have all statements, want 6", warm)
	}
	var orders, results, left int
	if err := s.db.QueryRow(t.Context(), `select (select count(*) from orders), (select count(*) from ticket_results), (select sum(stock) from sales)`).Scan(&orders, &results, &left); err != nil {
		t.Fatal(err)
	}
	if orders != 0 || results != 0 || left != 12 {
		t.Errorf("%d orders, %d results, %d units left; want 0, 0, 12", orders, results, left)
	}
}
