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

// The rows that fill creates could be the shop's own: they pass the audit. A second fill adds only the missing rows. They are dated
// over a year, and each user's too.
func TestFill(t *testing.T) {
	t.Parallel()
	type filled struct{ Users, Orders, Cancelled, Refunded, Captured, Returned, Refusals, Left int }
	type spread struct{ Days, Apart int }
	db := sandboxtest.DB(t)
	for _, c := range []struct {
		n    int
		want filled
	}{
		{fillUsers*fillSales + 30, filled{1003, 10030, 3340, 350, 6340, 350, 2510, 3690}},
		{10, filled{1003, 10030, 3340, 350, 6340, 350, 2510, 3690}},
		{fillUsers*fillSales + 42, filled{1005, 10050, 3340, 360, 6350, 360, 2520, 3700}},
	} {
		have, err := fill(t.Context(), db, c.n, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := db.Query(t.Context(), `
			select (select count(*) from users) as users, count(*) as orders, count(*) filter (where status = 'cancelled') as cancelled, count(*) filter (where status = 'refunded') as refunded,
			       (select count(*) from payments where status = 'captured') as captured, (select count(*) from payments where status = 'refunded') as returned,
			       (select count(*) from ticket_results) as refusals, (select sum(stock) from sales) as left
			from   orders`)
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[filled])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" || have != c.want.Orders {
			t.Errorf("fill %d returns %d: %s", c.n, have, diff)
		}
	}
	rows, _ := db.Query(t.Context(), `
		select extract(day from max(last) - min(first))::int as days, min(extract(day from last - first))::int as apart
		from  (select min(created_at) as first, max(created_at) as last from orders group by user_id) u`)
	got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[spread])
	if err != nil || got.Days < 320 || got.Days > 364 || got.Apart < 300 {
		t.Errorf("the orders are %+v, %v", got, err)
	}
	var said bytes.Buffer
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &said); err != nil || !clean {
		t.Errorf("%v %s", err, &said)
	}
}
