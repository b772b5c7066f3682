package audit_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// lively is a database in which everything has happened that can: orders pending, paid, cancelled by hand and run out,
// losers, a second ticket, a payment declined, money that came late and went back.
func lively(t *testing.T) (db *pgxpool.Pool, sale int64, orders []uuid.UUID) {
	t.Helper()
	db = sandboxtest.DB(t)
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
			t.Fatal(list, err)
		}
		orders = append(orders, list[0].ID)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := s.OpenPayment(t.Context(), 1, orders[0])
	must(p, err)
	must(nil, s.Decline(t.Context(), p.ID))
	must(s.Capture(t.Context(), orders[0], 100, "r1"))
	must(s.Capture(t.Context(), orders[0], 100, "r1 again"))
	must(nil, s.Cancel(t.Context(), 2, orders[1]))
	must(s.Capture(t.Context(), orders[1], 100, "r2"))
	must(db.Exec(t.Context(), `update orders set expires_at = clock_timestamp() where id = $1`, orders[2]))
	must(s.Expire(t.Context()))
	must(s.DrainRefunds(t.Context(), func(context.Context, order.Payment) error { return nil }))
	return db, sale, orders
}

func find(t *testing.T, db *pgxpool.Pool) map[string][]string {
	t.Helper()
	found, err := audit.Postgres(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range found {
		if f.Meaning == "" || len(f.Rows) == 0 {
			t.Errorf("a finding that says nothing: %+v", f)
		}
		got[f.Invariant] = append(got[f.Invariant], f.Rows...)
	}
	return got
}

func TestAnEmptyDatabaseIsClean(t *testing.T) {
	if got := find(t, sandboxtest.DB(t)); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

func TestALivelyShopIsClean(t *testing.T) {
	db, _, _ := lively(t)
	if got := find(t, db); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// Each way to break the data is found, under its invariant alone, and the row is named. Orders: 0 is paid, 1 was
// cancelled, 2 ran out, 3 and 4 are pending; users 6 and 7 lost.
func TestWhatIsBrokenIsFound(t *testing.T) {
	const free = `alter table sales drop constraint stock_within_total;
		alter table orders drop constraint one_order_per_user_and_sale, drop constraint one_order_per_ticket, disable trigger all;
		alter table order_events disable trigger all;
		alter table payments disable trigger all; `
	for _, test := range []struct {
		invariant, name, sql string // $0 to $4 stand for the orders, $s for the sale
		names                string // what a row shows
	}{
		{"I1", "a unit got lost", `update sales set stock = stock - 1`, "sale=$s total=5 stock=1 pending_and_paid=3"},
		{"I1", "a unit was put back twice", `update sales set stock = stock + 1`, "sale=$s total=5 stock=3 pending_and_paid=3"},
		{"I1", "oversold", `update sales set stock = -1, total = 2`, "sale=$s total=2 stock=-1 pending_and_paid=3"},
		{"I1", "a pending order vanished", `delete from ticket_results where order_id = '$3'; delete from order_events where order_id = '$3'; delete from orders where id = '$3'`, "sale=$s total=5 stock=2 pending_and_paid=2"},
		{"I2", "two orders of a user", `update orders set user_id = 9 where id in ('$3', '$4'); update ticket_results set user_id = 9 where order_id in ('$3', '$4')`, "user_id=9 sale_id=$s count=2"},
		{"I2", "two orders of a ticket", `update orders set ticket = 't4' where id = '$4'; alter table ticket_results drop constraint ticket_results_pkey; update ticket_results set ticket = 't4' where order_id = '$4'`, "ticket=t4 count=2"},
		{"I3", "an order without a result", `delete from ticket_results where ticket = 't4'`, "id=$3"},
		{"I3", "a result of another order", `update ticket_results set order_id = '$4' where ticket = 't4'`, "id=$3"},
		{"I3", "a user was told of another's order", `update ticket_results set order_id = '$4' where ticket = 'again'`, "id=$4"},
		{"I3", "a user was told of an order of another sale", `update ticket_results set sale_id = sale_id + 1 where ticket = 'again'`, "id=$0"},
		{"I3", "a user was told of an order that does not exist", `delete from order_events where order_id = '$2'; delete from orders where id = '$2'`, "id=$2"},
		{"I7", "an order is paid without money", `update payments set status = 'refund_due' where provider_ref = 'r1'`, "what=order id=$0"},
		{"I7", "money is kept for a cancelled order", `update payments set status = 'captured' where provider_ref = 'r2'`, "what=payment id="},
		{"I7", "another amount was captured", `update payments set amount = 1 where provider_ref = 'r1'`, "what=payment id="},
		{"I5", "an order is long overdue", `update orders set expires_at = now() - interval '31 s' where id = '$3'`, "id=$3"},
		{"I8", "a move that does not exist", `insert into order_events (order_id, sale_id, from_status, to_status) values ('$1', 1, 'cancelled', 'paid')`, "order_id=$1"},
		{"I8", "a move made twice", `insert into order_events (order_id, sale_id, from_status, to_status) values ('$1', 1, 'pending', 'cancelled')`, "order_id=$1"},
		{"I8", "born paid", `insert into order_events (order_id, sale_id, from_status, to_status) values ('00000000-0000-4000-8000-000000000000', 1, 'new', 'paid')`, "order_id=00000000-0000-4000-8000-000000000000"},
	} {
		t.Run(test.invariant+" "+test.name, func(t *testing.T) {
			db, sale, orders := lively(t)
			names := []string{"$s", fmt.Sprint(sale)}
			for i, id := range orders {
				names = append(names, fmt.Sprint("$", i), id.String())
			}
			fill := strings.NewReplacer(names...)
			conn, err := db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = conn.Conn().PgConn().Exec(t.Context(), free+fill.Replace(test.sql)).ReadAll()
			conn.Release()
			if err != nil {
				t.Fatal(err)
			}
			got := find(t, db)
			if diff := cmp.Diff([]string{test.invariant}, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("%s: %v", diff, got)
			}
			if want := fill.Replace(test.names); !slices.ContainsFunc(got[test.invariant], func(row string) bool { return strings.HasPrefix(row, want) }) {
				t.Errorf("no row of %q shows %q", got[test.invariant], want)
			}
		})
	}
}

func TestALittleOverdueIsNotBroken(t *testing.T) {
	db, _, orders := lively(t)
	if _, err := db.Exec(t.Context(), `update orders set expires_at = now() - interval '20 s' where id = $1`, orders[3]); err != nil {
		t.Fatal(err)
	}
	if got := find(t, db); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

func TestAtMostTwentyRowsAreShown(t *testing.T) {
	db, _, _ := lively(t)
	if _, err := db.Exec(t.Context(), `insert into order_events (order_id, sale_id, from_status, to_status)
		select gen_random_uuid(), 1, 'new', 'paid' from generate_series(1, 30)`); err != nil {
		t.Fatal(err)
	}
	if got := find(t, db); len(got["I8"]) != 20 {
		t.Errorf("%d rows are shown, want 20", len(got["I8"]))
	}
}

func TestTheAuditReadsOnly(t *testing.T) {
	db, sale, orders := lively(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { // it waits for nobody who holds a row
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

func TestAnAuditThatCannotReadSaysSo(t *testing.T) {
	db := sandboxtest.DB(t)
	db.Close()
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &strings.Builder{}); clean || err == nil {
		t.Errorf("clean %v, %v", clean, err)
	}
}

func TestGatesAreHeldAgainstPostgres(t *testing.T) {
	type gate map[string]any
	fits := gate{"epoch": 1, "ops": 0, "stock": 2, "state": "published"}
	off := gate{"epoch": 1, "ops": 0, "stock": 3, "state": "published"}
	for _, test := range []struct {
		name    string
		gate    gate
		journal bool
		sale    string // what is done to the sale
		broken  bool
	}{
		{"fits", fits, false, "", false},
		{"absent", nil, false, "", false},
		{"differs", off, false, "", true},
		{"differs, paused", off, false, `state = 'paused'`, true},
		{"differs, being worked on", off, true, "", false},
		{"differs, sale over", off, false, `starts_at = now() - interval '2 h', ends_at = now() - interval '1 h'`, false},
		{"differs, sale to come", off, false, `starts_at = now() + interval '10 s'`, false},
		{"differs, draft", off, false, `state = 'draft'`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // a broken one takes its time
			db, sale, _ := lively(t)
			rdb := sandboxtest.Redis(t)
			key := func(name string) string { return fmt.Sprintf("ms:{%d}:%s", sale, name) }
			if test.gate != nil {
				if err := rdb.HSet(t.Context(), key("gate"), map[string]any(test.gate)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.journal {
				if err := rdb.Do(t.Context(), "xadd", key("journal"), "*", "user", 1).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if test.sale != "" {
				if _, err := db.Exec(t.Context(), `update sales set `+test.sale); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			clean, err := audit.Run(t.Context(), db, rdb, &out)
			want := "every invariant holds\n"
			if test.broken {
				want = fmt.Sprintf("BROKEN I6: an idle gate's stock is not the sale's\n    sale=%d gate=3 postgres=2\n", sale)
			}
			if diff := cmp.Diff(want, out.String()); err != nil || clean == test.broken || diff != "" {
				t.Errorf("clean %v, %v: %s", clean, err, diff)
			}
		})
	}
}

// A gate that is behind for a moment is what reconcile is for.
func TestAGateThatComesRoundIsNotBroken(t *testing.T) {
	db, sale, _ := lively(t)
	rdb := sandboxtest.Redis(t)
	gate := fmt.Sprintf("ms:{%d}:gate", sale)
	if err := rdb.HSet(t.Context(), gate, "epoch", 1, "ops", 0, "stock", 4).Err(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(500*time.Millisecond, func() { rdb.HSet(ctx, gate, "stock", 2) })
	defer timer.Stop()
	if found, err := audit.Gates(t.Context(), db, rdb); err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}
