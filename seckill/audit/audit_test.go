package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// activeShop returns a database in which all that can happen to an order has happened. Orders are pending, paid,
// cancelled by the buyer, and cancelled because their time to pay ran out. Some buyers got nothing, and one has a second
// ticket. One payment was declined. Two came too late and were refunded.
func activeShop(t *testing.T) (db *pgxpool.Pool, sale int64, orders []uuid.UUID) {
	t.Helper()
	db = sandboxtest.DB(t)
	sale, orders = fill(t, db)
	return db, sale, orders
}

// fill does all of that in an empty database.
func fill(t *testing.T, db *pgxpool.Pool) (sale int64, orders []uuid.UUID) {
	t.Helper()
	now := time.Now()
	sale, err := goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: 100, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s := order.New(db, order.Config{PayWithin: time.Hour})
	var tickets []order.Ticket
	for user := range int64(7) {
		tickets = append(tickets, order.Ticket{ID: fmt.Sprint("t", user+1), UserID: user + 1})
	}
	tickets = append(tickets, order.Ticket{ID: "again", UserID: 1})
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		l, err := goods.Lock(t.Context(), tx, sale)
		if err == nil {
			_, err = s.Place(t.Context(), tx, l, tickets)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for user := range int64(5) {
		list, err := s.OfUser(t.Context(), user+1)
		if err != nil || len(list) != 1 {
			t.Fatalf("user %d has orders %v, %v; want one", user+1, list, err)
		}
		orders = append(orders, list[0].ID)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := s.OpenPayment(t.Context(), order.Cashier, 1, orders[0])
	must(p, err)
	must(nil, s.Decline(t.Context(), p, "no"))
	must(s.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: orders[0], Amount: 100, Ref: "r1"}))
	must(s.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: orders[0], Amount: 100, Ref: "r1 again"}))
	must(nil, s.Cancel(t.Context(), 2, orders[1]))
	must(s.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: orders[1], Amount: 100, Ref: "r2"}))
	must(db.Exec(t.Context(), `update orders set expires_at = clock_timestamp() where id = $1`, orders[2]))
	must(s.Expire(t.Context()))
	must(s.DrainRefunds(t.Context(), cashier{}))
	return sale, orders
}

// undone runs SQL statements that are separated by semicolons, and then check, in a transaction that is
// rolled back: so many tests share a database, and no time passes for now().
func undone(t *testing.T, db *pgxpool.Pool, sql string, check func(pgx.Tx)) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	check(tx)
}

// cashier makes every refund.
type cashier struct{ order.Provider }

func (cashier) Name() string                                           { return order.Cashier }
func (cashier) Refund(context.Context, order.Payment, uuid.UUID) error { return nil }

// beforeVersion6 adds the rows that an older shop stored as well: the result of each ticket with an order, and the first
// status of each order. Events are in the order of their ids.
const beforeVersion6 = `
	insert into ticket_results (ticket, user_id, sale_id, outcome, order_id, created_at)
	select ticket, user_id, sale_id, 'ordered', id, created_at from orders;
	insert into order_events (id, order_id, sale_id, from_status, to_status, at) overriding system value
	select -row_number() over (order by id), id, sale_id, 'new', 'pending', created_at from orders`

// execute runs SQL statements that are separated by semicolons.
func execute(t *testing.T, db *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// findings runs the thorough audit and returns the rows of its findings by invariant.
func findings(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	found, err := audit.Postgres(t.Context(), db)
	return byInvariant(t, found, err)
}

func byInvariant(t *testing.T, found []audit.Finding, err error) map[string][]string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range found {
		if f.Meaning == "" || len(f.Rows) == 0 {
			t.Errorf("a finding without a meaning or without rows: %+v", f)
		}
		got[f.Invariant] = append(got[f.Invariant], f.Rows...)
	}
	return got
}

func TestAnEmptyDatabaseIsClean(t *testing.T) {
	if got := findings(t, sandboxtest.DB(t)); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

func TestAnActiveShopIsClean(t *testing.T) {
	db, _, _ := activeShop(t)
	if got := findings(t, db); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

func TestAtMostTwentyRowsAreShown(t *testing.T) {
	db, _, _ := activeShop(t)
	execute(t, db, `insert into order_events (order_id, sale_id, from_status, to_status)
		select gen_random_uuid(), 1, 'new', 'paid' from generate_series(1, 30)`)
	found, err := audit.Postgres(t.Context(), db)
	if err != nil || len(found) != 2 { // such a change, and a history without an order
		t.Errorf("%d findings, %v; want two", len(found), err)
	}
	for _, f := range found {
		if len(f.Rows) != 20 {
			t.Errorf("%s: %d rows are shown, want 20", f.Meaning, len(f.Rows))
		}
	}
}

func TestTheAuditOnlyReads(t *testing.T) {
	db, sale, orders := activeShop(t)
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // the audit does not wait for row locks
		if _, err := tx.Exec(ctx, `update sales set stock = stock where id = $1`, sale); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `update orders set price = price where id = any($1)`, orders); err != nil {
			return err
		}
		_, err := audit.Postgres(ctx, db)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnAuditWithoutPostgresFails(t *testing.T) {
	db := sandboxtest.DB(t)
	db.Close()
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &strings.Builder{}); clean || err == nil {
		t.Errorf("clean %v, %v; want an error", clean, err)
	}
}

// Counting the rows of ten million orders takes longer than the pool lets a statement of the shop: here it waits for a lock.
func TestReadTakesLongerThanAStatementOfTheShop(t *testing.T) {
	db := sandboxtest.DB(t)
	cfg := db.Config()
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "50"
	cfg.ConnConfig.RuntimeParams["application_name"] = "reader"
	short, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(short.Close)
	tx, err := db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `lock table orders in access exclusive mode`)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := audit.Read(t.Context(), short, sandboxtest.Redis(t))
		read <- err
	}()
	sandboxtest.Until(t, "the count waits longer than that", func() bool {
		var n int
		if err := db.QueryRow(t.Context(), `select count(*) from pg_stat_activity where application_name = 'reader' and wait_event_type = 'Lock' and clock_timestamp() > query_start + interval '100 milliseconds'`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0 || len(read) > 0
	})
	if err := errors.Join(tx.Rollback(t.Context()), <-read); err != nil {
		t.Error(err)
	}
}
