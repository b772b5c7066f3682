package order_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

const price = 9900

// testShop is a Store on a fresh database.
type testShop struct {
	*order.Store
	db *pgxpool.Pool
}

func newShop(t *testing.T) testShop {
	t.Helper()
	db := sandboxtest.DB(t)
	return testShop{order.New(db, order.Config{PayWithin: time.Hour}), db}
}

// sell publishes an open sale of total units and returns its id.
func (s testShop) sell(t *testing.T, total int) int64 {
	t.Helper()
	now := time.Now()
	id, err := goods.New(s.db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: price, Total: total, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// settle places tickets in a transaction, as package seckill does, and returns the results in the
// order of the tickets.
func (s testShop) settle(ctx context.Context, sale int64, tickets ...order.Ticket) (results []order.Result, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		l, err := goods.Lock(ctx, tx, sale)
		if err != nil {
			return err
		}
		results, err = s.Place(ctx, tx, l, tickets)
		return err
	})
	at := func(r order.Result) int {
		return slices.IndexFunc(tickets, func(t order.Ticket) bool { return t.ID == r.Ticket })
	}
	slices.SortFunc(results, func(a, b order.Result) int { return at(a) - at(b) })
	return results, err
}

func (s testShop) place(t *testing.T, sale int64, tickets ...order.Ticket) []order.Result {
	t.Helper()
	results, err := s.settle(t.Context(), sale, tickets...)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// buy places a user's ticket and returns the pending order.
func (s testShop) buy(t *testing.T, sale, user int64) uuid.UUID {
	t.Helper()
	r := s.place(t, sale, order.Ticket{ID: fmt.Sprintf("t%d-%d", sale, user), UserID: user})
	if len(r) != 1 || r[0].Outcome != order.Ordered {
		t.Fatalf("user %d: results %+v, want an order", user, r)
	}
	return r[0].OrderID
}

func (s testShop) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// read returns the rows of a query as text.
func (s testShop) read(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, _ := s.db.Query(t.Context(), sql, args...)
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func (s testShop) number(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s testShop) stock(t *testing.T, sale int64) int {
	t.Helper()
	return s.number(t, `select stock from sales where id = $1`, sale)
}

func (s testShop) status(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return s.read(t, `select status from orders where id = $1`, id)[0]
}

// makeOverdue moves the payment deadline of an order into the past.
func (s testShop) makeOverdue(t *testing.T, id uuid.UUID) {
	t.Helper()
	s.exec(t, `update orders set expires_at = clock_timestamp() where id = $1`, id)
}

// snapshot returns all rows that must not change when nothing happens.
func (s testShop) snapshot(t *testing.T) []string {
	t.Helper()
	return slices.Concat(
		s.read(t, `select id, stock, total, state, epoch from sales order by id`),
		s.read(t, `select id::text, user_id, sale_id, ticket, price, status, created_at, expires_at, paid_at from orders order by id`),
		s.read(t, `select ticket, user_id, sale_id, outcome, order_id::text, created_at from ticket_results order by ticket`),
		s.read(t, `select id::text, order_id::text, amount, status, provider_ref, updated_at from payments order by id`),
		s.read(t, `select id, order_id::text, from_status, to_status from order_events order by id`))
}

// checkInvariants fails the test if an invariant does not hold.
func (s testShop) checkInvariants(t *testing.T) {
	t.Helper()
	found, err := audit.Postgres(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s: %s: %v", f.Invariant, f.Meaning, f.Rows)
	}
}

// refusedBy returns the name of the constraint that refused a statement, or else the SQLSTATE.
func refusedBy(err error) string {
	pg := new(pgconn.PgError)
	if !errors.As(err, &pg) {
		return ""
	}
	if pg.ConstraintName != "" {
		return pg.ConstraintName
	}
	return pg.Code
}

func TestPayWithinIsAtLeastASecond(t *testing.T) {
	for within, ok := range map[time.Duration]bool{-1: false, 0: false, time.Second - 1: false, time.Second: true, time.Hour: true} {
		if err := (order.Config{PayWithin: within}).Validate(); (err == nil) != ok {
			t.Errorf("%v: %v", within, err)
		}
	}
}

func TestOrdersAreTheirOwnersAlone(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	mine, other := s.buy(t, sale, 1), s.buy(t, sale, 2)
	for range 2 {
		s.buy(t, s.sell(t, 1), 1)
	}
	got, err := s.ByID(t.Context(), 1, mine)
	if err != nil {
		t.Fatal(err)
	}
	want := order.Order{ID: mine, UserID: 1, SaleID: sale, Title: "kettle", Price: price, Status: order.Pending,
		CreatedAt: got.CreatedAt, ExpiresAt: got.ExpiresAt}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct{ update, titleEN string }{{`update goods set title_en = 'a kettle'`, "a kettle"}, {`update goods set title = 'a pot'`, ""}} {
		if _, err := s.db.Exec(t.Context(), c.update); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ByID(t.Context(), 1, mine); err != nil || got.Title != "kettle" || got.TitleEN != c.titleEN {
			t.Errorf("after %s the order is of %q, %q in English, %v; want kettle, %q", c.update, got.Title, got.TitleEN, err, c.titleEN)
		}
	}
	if left := got.ExpiresAt.Sub(got.CreatedAt).Round(time.Minute); left != time.Hour {
		t.Errorf("the order can be paid for %v, want an hour", left)
	}
	for _, id := range []uuid.UUID{other, uuid.Nil, uuid.New()} {
		if _, err := s.ByID(t.Context(), 1, id); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("order %s: %v, want ErrNotFound", id, err)
		}
	}
	list, err := s.OfUser(t.Context(), 1)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d orders, %v; want 3", len(list), err)
	}
	if !slices.IsSortedFunc(list, func(a, b order.Order) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Error("the orders are not listed newest first")
	}
	if diff := cmp.Diff(got, list[2]); diff != "" {
		t.Errorf("OfUser and ByID differ: %s", diff)
	}
	if none, err := s.OfUser(t.Context(), 3); err != nil || len(none) != 0 {
		t.Errorf("the orders of a user without any: %v, %v", none, err)
	}
}

func TestTheSchemaRefusesImpossibleOrders(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	s.buy(t, sale, 1)
	for _, test := range []struct{ name, refused, sql string }{
		{"a second order of a user", "one_order_per_user_and_sale", `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			select gen_random_uuid(), user_id, sale_id, 'other', title, price, expires_at from orders`},
		{"a second order of a ticket", "one_order_per_ticket", `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			select gen_random_uuid(), 2, sale_id, ticket, title, price, expires_at from orders`},
		{"an order without a user", "orders_user_id_check", `update orders set user_id = 0`},
		{"a negative price", "orders_price_check", `update orders set price = -1`},
		{"an unknown status", "orders_status_check", `update orders set status = 'lost'`},
		{"an order that begins as paid", "orders_begin_as_pending", `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at, status, paid_at)
			select gen_random_uuid(), 2, sale_id, 'other', title, price, expires_at, 'paid', now() from orders`},
		{"paid without a time", "paid_has_a_time", `update orders set status = 'paid'`},
		{"a duplicate without an order", "an_order_for_those_who_have_one", `insert into ticket_results (ticket, user_id, sale_id, outcome) values ('x', 1, 1, 'duplicate')`},
		{"sold out with an order", "an_order_for_those_who_have_one", `insert into ticket_results (ticket, user_id, sale_id, outcome, order_id) values ('x', 1, 1, 'sold_out', gen_random_uuid())`},
		{"an unknown outcome", "ticket_results_outcome_check", `insert into ticket_results (ticket, user_id, sale_id, outcome) values ('x', 1, 1, 'won')`},
		{"money without a reference", "money_has_a_reference", `insert into payments (id, order_id, amount, status) select gen_random_uuid(), id, 1, 'captured' from orders`},
		{"two open payments", "one_open_payment_per_order", `insert into payments (id, order_id, amount) select gen_random_uuid(), id, 1 from orders, generate_series(1, 2)`},
		{"two captures", "one_capture_per_order", `insert into payments (id, order_id, amount, status, provider_ref)
			select gen_random_uuid(), id, 1, 'captured', n::text from orders, generate_series(1, 2) n`},
		{"one reference twice", "one_payment_per_reference", `insert into payments (id, order_id, amount, status, provider_ref)
			select gen_random_uuid(), id, 1, 'refund_due', 'r' from orders, generate_series(1, 2) n`},
		{"a changed history", "23514", `update order_events set to_status = 'paid'`},
		{"a deleted history", "only_archived_rows_go", `delete from order_events`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := s.snapshot(t)
			if _, err := s.db.Exec(t.Context(), test.sql); refusedBy(err) != test.refused {
				t.Errorf("got %v, want a refusal by %s", err, test.refused)
			}
			if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every pair of statuses, written by plain SQL: the trigger accepts and records the allowed moves
// and refuses the others.
func TestTheTriggerAllowsOnlyTheMoves(t *testing.T) {
	s := newShop(t)
	statuses := []string{order.Pending, order.Paid, order.Cancelled, order.Refunded}
	path := map[string][]string{order.Pending: {}, order.Paid: {order.Paid}, order.Cancelled: {order.Cancelled}, order.Refunded: {order.Paid, order.Refunded}}
	allowed := map[string]bool{"pending paid": true, "pending cancelled": true, "paid refunded": true}
	sale := s.sell(t, 100)
	user := int64(0)
	for _, from := range statuses {
		for _, to := range statuses {
			t.Run(from+" to "+to, func(t *testing.T) {
				user++
				id := s.buy(t, sale, user)
				move := func(to string) error {
					_, err := s.db.Exec(t.Context(), `update orders set status = $2, paid_at = now() where id = $1`, id, to)
					return err
				}
				want := []string{"new pending"}
				last := order.Pending
				for _, step := range path[from] {
					if err := move(step); err != nil {
						t.Fatal(err)
					}
					want, last = append(want, last+" "+step), step
				}
				switch err := move(to); {
				case from == to && err != nil:
					t.Errorf("an update without a move: %v", err)
				case allowed[from+" "+to]:
					if err != nil {
						t.Error(err)
					}
					want = append(want, from+" "+to)
				case from != to && refusedBy(err) != "23514":
					t.Errorf("got %v, want a refusal", err)
				}
				got := s.read(t, `select from_status || ' ' || to_status from order_history where order_id = $1 order by at, from_status = 'new' desc`, id)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the history: %s", diff)
				}
			})
		}
	}
}
