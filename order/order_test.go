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

// shop is a Store on a fresh database.
type shop struct {
	*order.Store
	db *pgxpool.Pool
}

func newShop(t *testing.T) shop {
	t.Helper()
	db := sandboxtest.DB(t)
	return shop{order.New(db, order.Config{PayWithin: time.Hour}), db}
}

// sell publishes an open sale of total units.
func (s shop) sell(t *testing.T, total int) int64 {
	t.Helper()
	now := time.Now()
	id, err := goods.New(s.db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: price, Total: total, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// settle places tickets as the rush does, in a transaction of its own, and gives the results in the tickets' order.
func (s shop) settle(ctx context.Context, sale int64, tickets ...order.Ticket) (results []order.Result, err error) {
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

func (s shop) place(t *testing.T, sale int64, tickets ...order.Ticket) []order.Result {
	t.Helper()
	results, err := s.settle(t.Context(), sale, tickets...)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// buy gives a user a pending order.
func (s shop) buy(t *testing.T, sale, user int64) uuid.UUID {
	t.Helper()
	r := s.place(t, sale, order.Ticket{ID: fmt.Sprintf("t%d-%d", sale, user), UserID: user})
	if len(r) != 1 || r[0].Outcome != order.Ordered {
		t.Fatalf("user %d got %+v", user, r)
	}
	return r[0].OrderID
}

func (s shop) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// read gives the rows of a query as text.
func (s shop) read(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, err := s.db.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

func (s shop) number(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := s.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s shop) stock(t *testing.T, sale int64) int {
	t.Helper()
	return s.number(t, `select stock from sales where id = $1`, sale)
}

func (s shop) status(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return s.read(t, `select status from orders where id = $1`, id)[0]
}

// overdue lets the time to pay of an order be over.
func (s shop) overdue(t *testing.T, id uuid.UUID) {
	t.Helper()
	s.exec(t, `update orders set expires_at = clock_timestamp() where id = $1`, id)
}

// everything is all that must not change when nothing happens.
func (s shop) everything(t *testing.T) []string {
	t.Helper()
	return slices.Concat(
		s.read(t, `select id, stock, total, state, epoch from sales order by id`),
		s.read(t, `select id::text, user_id, sale_id, ticket, price, status, created_at, expires_at, paid_at from orders order by id`),
		s.read(t, `select ticket, user_id, sale_id, outcome, order_id::text, created_at from ticket_results order by ticket`),
		s.read(t, `select id::text, order_id::text, amount, status, provider_ref, updated_at from payments order by id`),
		s.read(t, `select id, order_id::text, from_status, to_status from order_events order by id`))
}

// sound fails the test where an invariant does not hold.
func (s shop) sound(t *testing.T) {
	t.Helper()
	found, err := audit.Postgres(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Errorf("%s: %s: %v", f.Invariant, f.Meaning, f.Rows)
	}
}

// refusedBy gives the constraint that refused a statement, or the SQLSTATE where it has no name.
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
	if err != nil || got.ID != mine || got.UserID != 1 || got.SaleID != sale || got.Title != "kettle" || got.Price != price ||
		got.Status != order.Pending || got.PaidAt != nil || got.ExpiresAt.Sub(got.CreatedAt).Round(time.Minute) != time.Hour {
		t.Errorf("my order is %+v, %v", got, err)
	}
	for _, id := range []uuid.UUID{other, uuid.Nil, uuid.New()} {
		if _, err := s.ByID(t.Context(), 1, id); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("order %s: %v, want ErrNotFound", id, err)
		}
	}
	list, err := s.OfUser(t.Context(), 1)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d orders, %v; want my 3", len(list), err)
	}
	if !slices.IsSortedFunc(list, func(a, b order.Order) int { return b.CreatedAt.Compare(a.CreatedAt) }) {
		t.Error("they are not listed newest first")
	}
	if diff := cmp.Diff(got, list[2]); diff != "" {
		t.Errorf("listed otherwise than alone: %s", diff)
	}
	if none, err := s.OfUser(t.Context(), 3); err != nil || len(none) != 0 {
		t.Errorf("who has none has %v, %v", none, err)
	}
}

func TestTheSchemaRefusesOrdersThatCannotBe(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	s.buy(t, sale, 1)
	for _, test := range []struct{ name, refused, sql string }{
		{"a second order of a user", "one_order_per_user_and_sale", `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			select gen_random_uuid(), user_id, sale_id, 'other', title, price, expires_at from orders`},
		{"a second order of a ticket", "one_order_per_ticket", `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
			select gen_random_uuid(), 2, sale_id, ticket, title, price, expires_at from orders`},
		{"nobody's order", "orders_user_id_check", `update orders set user_id = 0`},
		{"a negative price", "orders_price_check", `update orders set price = -1`},
		{"an unknown status", "orders_status_check", `update orders set status = 'lost'`},
		{"paid without a time", "paid_has_a_time", `update orders set status = 'paid'`},
		{"ordered without an order", "an_order_for_those_who_have_one", `update ticket_results set order_id = null`},
		{"sold out with an order", "an_order_for_those_who_have_one", `update ticket_results set outcome = 'sold_out'`},
		{"an unknown outcome", "ticket_results_outcome_check", `insert into ticket_results (ticket, user_id, sale_id, outcome) values ('x', 1, 1, 'won')`},
		{"money without a reference", "money_has_a_reference", `insert into payments (id, order_id, amount, status) select gen_random_uuid(), id, 1, 'captured' from orders`},
		{"two open payments", "one_open_payment_per_order", `insert into payments (id, order_id, amount) select gen_random_uuid(), id, 1 from orders, generate_series(1, 2)`},
		{"two captures", "one_capture_per_order", `insert into payments (id, order_id, amount, status, provider_ref)
			select gen_random_uuid(), id, 1, 'captured', n::text from orders, generate_series(1, 2) n`},
		{"one reference twice", "payments_provider_ref_key", `insert into payments (id, order_id, amount, status, provider_ref)
			select gen_random_uuid(), id, 1, 'refund_due', 'r' from orders, generate_series(1, 2) n`},
		{"a changed history", "23514", `update order_events set to_status = 'paid'`},
		{"a deleted history", "23514", `delete from order_events`},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := s.everything(t)
			if _, err := s.db.Exec(t.Context(), test.sql); refusedBy(err) != test.refused {
				t.Errorf("got %v, want it refused by %s", err, test.refused)
			}
			if diff := cmp.Diff(before, s.everything(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every pair of statuses, whoever writes it: the four moves pass and are written down, the others are refused.
func TestTheTriggerKnowsTheMoves(t *testing.T) {
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
					t.Errorf("no move at all: %v", err)
				case allowed[from+" "+to]:
					if err != nil {
						t.Error(err)
					}
					want = append(want, from+" "+to)
				case from != to && refusedBy(err) != "23514":
					t.Errorf("got %v, want it refused", err)
				}
				got := s.read(t, `select from_status || ' ' || to_status from order_events where order_id = $1 order by id`, id)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the history: %s", diff)
				}
			})
		}
	}
}
