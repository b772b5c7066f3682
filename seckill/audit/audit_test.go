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

// execute runs statements with semicolons between.
func execute(t *testing.T, db *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
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
	if found, err := audit.Cheap(t.Context(), db, sandboxtest.Redis(t)); err != nil || len(found) > 0 {
		t.Errorf("the quick audit found %v, %v", found, err)
	}
}

// Each way to break the data is found, under its invariant alone, and the row is named. Orders: 0 is paid, 1 was
// cancelled, 2 ran out, 3 and 4 are pending; users 6 and 7 lost.
func TestWhatIsBrokenIsFound(t *testing.T) {
	const slow = true // Cheap sees only that the constraint is gone, or nothing
	const free = `alter table sales drop constraint stock_within_total;
		alter table orders drop constraint one_order_per_user_and_sale, drop constraint one_order_per_ticket, disable trigger all;
		alter table order_events disable trigger all;
		alter table payments disable trigger all, drop constraint payments_order_id_fkey; `
	for _, test := range []struct {
		invariant, name, sql string // $0 to $4 stand for the orders, $s for the sale
		names                string // what a row shows
		slow                 bool
	}{
		{"I1", "a unit got lost", `update sales set stock = stock - 1`, "sale=$s total=5 stock=1 pending_and_paid=3", !slow},
		{"I1", "a unit was put back twice", `update sales set stock = stock + 1`, "sale=$s total=5 stock=3 pending_and_paid=3", !slow},
		{"I1", "oversold", `update sales set stock = -1, total = 2`, "sale=$s total=2 stock=-1 pending_and_paid=3", !slow},
		{"I1", "a pending order vanished", `delete from ticket_results where order_id = '$3'; delete from order_events where order_id = '$3'; delete from orders where id = '$3'`, "sale=$s total=5 stock=2 pending_and_paid=2", !slow},
		{"I2", "two orders of a user", `update orders set user_id = 9 where id in ('$3', '$4'); update ticket_results set user_id = 9 where order_id in ('$3', '$4')`, "user_id=9 sale_id=$s count=2", slow},
		{"I2", "two orders of a ticket", `update orders set ticket = 't4' where id = '$4'; alter table ticket_results drop constraint ticket_results_pkey; update ticket_results set ticket = 't4' where order_id = '$4'`, "ticket=t4 count=2", slow},
		{"I3", "an order without a result", `delete from ticket_results where ticket = 't4'`, "id=$3", !slow},
		{"I3", "a result of another order", `update ticket_results set order_id = '$4' where ticket = 't4'`, "id=$3", !slow},
		{"I3", "a user was told of another's order", `update ticket_results set order_id = '$4' where ticket = 'again'`, "id=$4", slow},
		{"I3", "a user was told of an order of another sale", `update ticket_results set sale_id = sale_id + 1 where ticket = 'again'`, "id=$0", slow},
		{"I3", "a user was told of an order that does not exist", `delete from order_events where order_id = '$2'; delete from orders where id = '$2'`, "id=$2", slow},
		{"I7", "an order is paid without money", `update payments set status = 'refund_due' where provider_ref = 'r1'`, "what=order id=$0", !slow},
		{"I7", "money is kept for a cancelled order", `update payments set status = 'captured' where provider_ref = 'r2'`, "what=payment id=", !slow},
		{"I7", "another amount was captured", `update payments set amount = 1 where provider_ref = 'r1'`, "what=payment id=", !slow},
		{"I5", "an order is long overdue", `update orders set expires_at = now() - interval '31 s' where id = '$3'`, "id=$3", !slow},
		{"I8", "a move that does not exist", `insert into order_events (order_id, sale_id, from_status, to_status) values ('$1', 1, 'cancelled', 'paid')`, "order_id=$1", !slow},
		{"I8", "a move made twice", `insert into order_events (order_id, sale_id, from_status, to_status) values ('$1', 1, 'pending', 'cancelled')`, "order_id=$1", slow},
		{"I8", "born paid", `insert into order_events (order_id, sale_id, from_status, to_status) values ('00000000-0000-4000-8000-000000000000', 1, 'new', 'paid')`, "order_id=00000000-0000-4000-8000-000000000000", !slow},
		{"I7", "paid for twice", `drop index one_capture_per_order; update payments set status = 'captured' where provider_ref = 'r1 again'`, "order_id=$0 count=2", slow},
		{"I7", "a reference of two payments", `alter table payments drop constraint payments_provider_ref_key; update payments set provider_ref = 'r1' where provider_ref = 'r1 again'`, "provider_ref=r1 count=2", slow},
		{"I7", "money for an order that does not exist", `update payments set status = 'captured', order_id = gen_random_uuid() where provider_ref = 'r2'`, "what=payment id=", !slow},
		{"I7", "a refund that nobody makes", `update payments set status = 'refund_due', updated_at = now() - interval '301 s' where provider_ref = 'r2'`, "id=", !slow},
		{"I8", "cancelled behind the history's back", `update orders set status = 'cancelled' where id = '$3'; update sales set stock = stock + 1`, "id=$3 status=cancelled last_event=pending births=1", !slow},
		{"I8", "no history", `delete from order_events where order_id = '$3'`, "id=$3 status=pending last_event=none births=0", !slow},
		{"I8", "born twice", `insert into order_events (order_id, sale_id, from_status, to_status) values ('$3', 1, 'new', 'pending')`, "id=$3 status=pending last_event=pending births=2", !slow},
		{"I8", "paid, and then cancelled as if pending", `delete from order_events where order_id = '$1'; insert into order_events (order_id, sale_id, from_status, to_status) values ('$1', 1, 'new', 'pending'), ('$1', 1, 'pending', 'paid'), ('$1', 1, 'pending', 'cancelled')`, "order_id=$1 was=paid from_status=pending to_status=cancelled", slow},
		{"I9", "a ticket before the start", granted("epoch", "starts_at - interval '1 ms'"), "ticket=1:", !slow},
		{"I9", "a ticket after the end", granted("epoch", "ends_at + interval '6 s'"), "ticket=1:", !slow},
	} {
		t.Run(test.invariant+" "+test.name, func(t *testing.T) {
			t.Parallel()
			db, sale, orders := lively(t)
			names := []string{"$s", fmt.Sprint(sale)}
			for i, id := range orders {
				names = append(names, fmt.Sprint("$", i), id.String())
			}
			fill := strings.NewReplacer(names...)
			execute(t, db, free+fill.Replace(test.sql))
			got := find(t, db)
			if diff := cmp.Diff([]string{test.invariant}, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("%s: %v", diff, got)
			}
			want := fill.Replace(test.names)
			shows := func(row string) bool { return strings.HasPrefix(row, want) }
			if !slices.ContainsFunc(got[test.invariant], shows) {
				t.Errorf("no row of %q shows %q", got[test.invariant], want)
			}
			found, err := audit.Cheap(t.Context(), db, nil)
			if quick := slices.ContainsFunc(found, func(f audit.Finding) bool {
				return f.Invariant == test.invariant && slices.ContainsFunc(f.Rows, shows)
			}); err != nil || quick == test.slow {
				t.Errorf("the quick audit shows it: %v, %v: %v", quick, err, found)
			}
		})
	}
}

// granted makes the ticket t4 one that the gate gave at that time, under that epoch.
func granted(epoch, at string) string {
	ticket := `(select ` + epoch + ` || ':' || floor(extract(epoch from ` + at + `) * 1000)::bigint || '-0:x' from sales)`
	return `update ticket_results set ticket = ` + ticket + ` where ticket = 't4'; update orders set ticket = ` + ticket + ` where ticket = 't4'`
}

func TestWhatIsAllowedIsNotBroken(t *testing.T) {
	for name, sql := range map[string]string{
		"a little overdue":                   `update orders set expires_at = now() - interval '20 s' where ticket = 't4'`,
		"a refund due for a while":           `update payments set status = 'refund_due', updated_at = now() - interval '280 s' where provider_ref = 'r2'`,
		"a ticket at the start":              granted("epoch", "starts_at"),
		"a ticket at the end":                granted("epoch", "ends_at"),
		"a ticket before a window was moved": granted("epoch - 1", "starts_at - interval '1 h'"),
		"a ticket with no time that can be":  `update ticket_results set ticket = '1:99999999999999999999-0:x' where ticket = 't4'; update orders set ticket = '1:99999999999999999999-0:x' where ticket = 't4'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, _, _ := lively(t)
			execute(t, db, sql)
			if got := find(t, db); len(got) > 0 {
				t.Errorf("found %v", got)
			}
			if found, err := audit.Cheap(t.Context(), db, nil); err != nil || len(found) > 0 {
				t.Errorf("the quick audit found %v, %v", found, err)
			}
		})
	}
}

func TestAtMostTwentyRowsAreShown(t *testing.T) {
	db, _, _ := lively(t)
	execute(t, db, `insert into order_events (order_id, sale_id, from_status, to_status)
		select gen_random_uuid(), 1, 'new', 'paid' from generate_series(1, 30)`)
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
