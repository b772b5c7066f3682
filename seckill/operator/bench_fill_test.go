package operator

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The rows that fill creates could be the shop's own: they pass the audit. A second fill adds only
// the missing rows. They are dated over a year.
func TestFill(t *testing.T) {
	t.Parallel()
	type filled struct{ Users, Orders, Paid, Payments, Events, Left, Days int }
	db := sandboxtest.DB(t)
	for _, want := range []int{fillUsers*fillSales + 5, 10, fillUsers*fillSales + 42} {
		have, err := fill(t.Context(), db, want, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := db.Query(t.Context(), `
			select (select count(*) from users) as users, count(*) as orders, count(*) filter (where status = 'paid') as paid,
			       (select count(*) from payments where status = 'captured') as payments, (select count(*) from order_events) as events,
			       (select sum(stock) from sales) as left, extract(day from max(created_at) - min(created_at)) as days
			from   orders`)
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[filled])
		if err != nil {
			t.Fatal(err)
		}
		users := max(want+fillSales-1, fillUsers*fillSales+10) / fillSales
		paid := (users + 2) / 3 * fillSales
		if have != users*fillSales {
			t.Errorf("fill %d returns %d, want %d", want, have, users*fillSales)
		}
		if diff := cmp.Diff(filled{Users: users, Orders: have, Paid: paid, Payments: paid, Events: have, Left: have - paid, Days: got.Days}, got); diff != "" || got.Days < 350 || got.Days > 364 {
			t.Errorf("after fill %d: %d days, %s", want, got.Days, diff)
		}
	}
	var said bytes.Buffer
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &said); err != nil || !clean {
		t.Errorf("%v %s", err, &said)
	}
}
