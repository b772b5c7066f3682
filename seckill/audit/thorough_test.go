package audit_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
)

// The audit finds each kind of broken data, under its invariant alone, and shows the row. Order 0 is paid, order 1 was
// cancelled by the buyer, the time of order 2 ran out, and orders 3 and 4 are pending. Users 6 and 7 have no order.
func TestEachBrokenInvariantIsFound(t *testing.T) {
	const slow = true // Quick finds only that the constraint is missing, or nothing
	const dropConstraints = `alter table sales drop constraint stock_within_total;
		alter table orders drop constraint one_order_per_user_and_sale, drop constraint one_order_per_ticket, disable trigger all;
		alter table order_events disable trigger all;
		alter table ticket_results disable trigger all;
		alter table payments disable trigger all, drop constraint payments_order_id_fkey; `
	const result = `insert into ticket_results (ticket, user_id, sale_id, outcome, order_id) values `
	const event = `insert into order_events (order_id, sale_id, from_status, to_status) values `
	db, sale, orders := activeShop(t)
	for _, test := range []struct {
		invariant, name, sql string // $0 to $4 stand for the orders, $s for the sale
		row                  string // the start of a row of the finding
		slow                 bool
	}{
		{"I1", "a unit was lost", `update sales set stock = stock - 1`, "sale=$s total=5 stock=1 pending_and_paid=3", !slow},
		{"I1", "a unit was returned twice", `update sales set stock = stock + 1`, "sale=$s total=5 stock=3 pending_and_paid=3", !slow},
		{"I1", "oversold", `update sales set stock = -1, total = 2`, "sale=$s total=2 stock=-1 pending_and_paid=3", !slow},
		{"I1", "a pending order was deleted", `delete from orders where id = '$3'`, "sale=$s total=5 stock=2 pending_and_paid=2", !slow},
		{"I2", "two orders of a user", `update orders set user_id = 9 where id in ('$3', '$4')`, "user_id=9 sale_id=$s count=2", slow},
		{"I2", "two orders of a ticket", `update orders set ticket = 't4' where id = '$4'`, "ticket=t4 count=2", slow},
		{"I3", "a refusal of a ticket with an order", result + `('t4', 4, $s, 'sold_out', null)`, "id=$3 ticket=t4", !slow},
		{"I3", "a second result of a ticket with an order", result + `('t4', 5, $s, 'duplicate', '$4')`, "id=$3 ticket=t4", !slow},
		{"I3", "an old result has another order of the same sale", result + `('t4', 5, $s, 'ordered', '$4')`, "id=$3 ticket=t4", !slow},
		{"I3", "an old result has the order of another ticket", result + `('t0', 4, $s, 'ordered', '$3')`, "order_id=$3 ticket=t0", slow},
		{"I3", "a result has the order of another user", `update ticket_results set order_id = '$4' where ticket = 'again'`, "order_id=$4 ticket=again", slow},
		{"I3", "a result has an order of another sale", `update ticket_results set sale_id = sale_id + 1 where ticket = 'again'`, "order_id=$0 ticket=again", slow},
		{"I3", "a result has an order that does not exist", result + `('t0', 3, $s, 'duplicate', 'ffffffff-0000-4000-8000-000000000000')`, "order_id=ffffffff-", slow},
		{"I7", "an order is paid without a payment", `update payments set status = 'refund_due' where provider_ref = 'r1'`, "what=order id=$0", !slow},
		{"I7", "money is kept for a cancelled order", `update payments set status = 'captured' where provider_ref = 'r2'`, "what=payment id=", !slow},
		{"I7", "another amount was captured", `update payments set amount = 1 where provider_ref = 'r1'`, "what=payment id=", !slow},
		{"I5", "an order is long overdue", `update orders set expires_at = now() - interval '31 s' where id = '$3'`, "id=$3", !slow},
		{"I8", "a status change that is not allowed", event + `('$1', 1, 'cancelled', 'paid')`, "order_id=$1", !slow},
		{"I8", "a status change made twice", event + `('$1', 1, 'pending', 'cancelled')`, "order_id=$1", slow},
		{"I8", "the first status is paid", event + `('00000000-0000-4000-8000-000000000000', 1, 'new', 'paid')`, "order_id=00000000-0000-4000-8000-000000000000", !slow},
		{"I7", "paid for twice", `drop index one_capture_per_order; update payments set status = 'captured' where provider_ref = 'r1 again'`, "order_id=$0 count=2", slow},
		{"I7", "two payments have one reference", `alter table payments drop constraint one_payment_per_reference; update payments set provider_ref = 'r1' where provider_ref = 'r1 again'`, "provider=cashier provider_ref=r1 count=2", slow},
		{"I7", "money for an order that does not exist", `update payments set status = 'captured', order_id = gen_random_uuid() where provider_ref = 'r2'`, "what=payment id=", !slow},
		{"I7", "a refund that was due too long", `update payments set status = 'refund_due', updated_at = now() - interval '301 s' where provider_ref = 'r2'`, "id=", !slow},
		{"I8", "cancelled without an event", `update orders set status = 'cancelled' where id = '$3'; update sales set stock = stock + 1`, "id=$3 status=cancelled last_event=pending births=0", !slow},
		{"I8", "born as paid", `delete from order_events where order_id = '$0'`, "id=$0 status=paid last_event=pending births=0", !slow},
		{"I8", "placed twice", event + `('$3', 1, 'new', 'pending'), ('$3', 1, 'new', 'pending')`, "id=$3 status=pending last_event=pending births=2", !slow},
		{"I8", "paid, and then cancelled as if it were pending", `delete from order_events where order_id = '$1'; ` + event + `('$1', 1, 'pending', 'paid'), ('$1', 1, 'pending', 'cancelled')`, "order_id=$1 was=paid from_status=pending to_status=cancelled", slow},
		{"I8", "the same with an old first row", `delete from order_events where order_id = '$1'; ` + event + `('$1', 1, 'new', 'pending'), ('$1', 1, 'pending', 'paid'), ('$1', 1, 'pending', 'cancelled')`, "order_id=$1 was=paid from_status=pending to_status=cancelled", slow},
		{"I8", "the history starts as paid", `update orders set status = 'refunded' where id = '$0'; update sales set stock = stock + 1; update payments set status = 'refunded' where order_id = '$0' and status = 'captured'; delete from order_events where order_id = '$0'; ` + event + `('$0', 1, 'paid', 'refunded')`, "order_id=$0 was=pending from_status=paid to_status=refunded", slow},
		{"I8", "a history without an order", event + `('00000000-0000-4000-8000-000000000000', $s, 'pending', 'cancelled')`, "order_id=00000000-", slow},
		{"I8", "a history of another sale", `update order_events set sale_id = sale_id + 1 where order_id = '$0'`, "order_id=$0 to_status=paid", slow},
		{"I9", "a ticket before the start", granted("epoch", "starts_at - interval '1 ms'"), "ticket=1:", !slow},
		{"I9", "a ticket after the end", granted("epoch", "ends_at + interval '6 s'"), "ticket=1:", !slow},
	} {
		t.Run(test.invariant+" "+test.name, func(t *testing.T) {
			replacements := []string{"$s", fmt.Sprint(sale)}
			for i, id := range orders {
				replacements = append(replacements, fmt.Sprint("$", i), id.String())
			}
			fill := strings.NewReplacer(replacements...)
			undone(t, db, dropConstraints+fill.Replace(test.sql), func(tx pgx.Tx) {
				found, err := audit.PostgresIn(t.Context(), tx)
				got := byInvariant(t, found, err)
				if diff := cmp.Diff([]string{test.invariant}, slices.Sorted(maps.Keys(got))); diff != "" {
					t.Errorf("%s: %v", diff, got)
				}
				want := fill.Replace(test.row)
				matches := func(row string) bool { return strings.HasPrefix(row, want) }
				if !slices.ContainsFunc(got[test.invariant], matches) {
					t.Errorf("no row of %q starts with %q", got[test.invariant], want)
				}
				if found, err = audit.QuickIn(t.Context(), tx); err != nil {
					t.Fatal(err)
				}
				if quick := slices.ContainsFunc(found, func(f audit.Finding) bool {
					return f.Invariant == test.invariant && slices.ContainsFunc(f.Rows, matches)
				}); quick == test.slow {
					t.Errorf("Quick finds it: %v, want %v: %v", quick, !test.slow, found)
				}
			})
		})
	}
}

// granted returns SQL that renames ticket t4: the gate granted it at that time, in that epoch.
func granted(epoch, at string) string {
	ticket := `(select ` + epoch + ` || ':' || floor(extract(epoch from ` + at + `) * 1000)::bigint || '-0:x' from sales)`
	return `update orders set ticket = ` + ticket + ` where ticket = 't4'`
}

func TestToleratedDeviationsAreNotBroken(t *testing.T) {
	db, _, _ := activeShop(t)
	for name, sql := range map[string]string{
		"the rows of a shop before version 6": beforeVersion6,
		"a little overdue":                    `update orders set expires_at = now() - interval '20 s' where ticket = 't4'`,
		"a refund due for a while":            `update payments set status = 'refund_due', updated_at = now() - interval '280 s' where provider_ref = 'r2'`,
		"a ticket at the start":               granted("epoch", "starts_at"),
		"a ticket at the end":                 granted("epoch", "ends_at"),
		"a ticket before a window was moved":  granted("epoch - 1", "starts_at - interval '1 h'"),
		"a ticket with an impossible time":    `update orders set ticket = '1:99999999999999999999-0:x' where ticket = 't4'`,
	} {
		t.Run(name, func(t *testing.T) {
			undone(t, db, sql, func(tx pgx.Tx) {
				found, err := audit.PostgresIn(t.Context(), tx)
				if got := byInvariant(t, found, err); len(got) > 0 {
					t.Errorf("found %v", got)
				}
				if found, err := audit.QuickIn(t.Context(), tx); err != nil || len(found) > 0 {
					t.Errorf("Quick found %v, %v", found, err)
				}
			})
		})
	}
}
