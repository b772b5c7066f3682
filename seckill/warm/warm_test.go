package warm

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// Shortly before a sale opens, every worker has a connection that has run the statements of a settle transaction, also if it was
// in use at first, and nothing of that is left. Earlier and later, none is opened.
func TestConnectionsAreWarmBeforeASaleOpens(t *testing.T) {
	t.Parallel()
	const workers = 6
	db, err := pgxpool.New(t.Context(), sandboxtest.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	cfg := db.Config()
	cfg.MaxConns = workers + 2
	settle, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(settle.Close)
	sales, opening := goods.New(db), time.Now().Add(9*time.Minute)
	if _, err := sales.Sell(t.Context(), goods.Item{Title: "soon"}, goods.Terms{Price: 1, Total: 7, StartsAt: opening, EndsAt: opening.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	var now time.Time
	c := &Connections{Settle: settle, Workers: workers, Sales: sales, Orders: order.New(db, order.Config{}), Clock: func() time.Time { return now }}
	look := func(before time.Duration) {
		t.Helper()
		now = opening.Add(-before)
		if err := c.look(t.Context()); err != nil {
			t.Error(err)
		}
	}
	look(ahead + time.Second)
	look(least - time.Second)
	if n := settle.Stat().TotalConns(); n != 0 {
		t.Errorf("%d connections when no sale is about to open", n)
	}
	inUse, err := settle.Acquire(t.Context()) // while the others are made warm
	if err != nil {
		t.Fatal(err)
	}
	look(ahead - time.Second)
	inUse.Release()
	look(ahead - 3*time.Second)
	var prepared []int // of each connection that is idle: lock, place, take, refuse, results
	for _, conn := range settle.AcquireAllIdle(t.Context()) {
		var statements int
		if err := conn.QueryRow(t.Context(), `select count(*) from pg_prepared_statements
			where statement ~ 'for    no key update of s|insert into orders|stock - |insert into ticket_results|ticket = any'`, pgx.QueryExecModeSimpleProtocol).Scan(&statements); err != nil {
			t.Error(err)
		}
		conn.Release()
		prepared = append(prepared, statements)
	}
	if len(prepared) != workers || slices.ContainsFunc(prepared, func(n int) bool { return n != 5 }) {
		t.Errorf("%d of the five statements on each connection, want 5 on each of %d", prepared, workers)
	}
	var orders, results, left int
	if err := db.QueryRow(t.Context(), `select (select count(*) from orders), (select count(*) from ticket_results), (select sum(stock) from sales)`).Scan(&orders, &results, &left); err != nil {
		t.Fatal(err)
	}
	if orders != 0 || results != 0 || left != 7 {
		t.Errorf("%d orders, %d results, %d units left; want 0, 0, 7", orders, results, left)
	}
}
