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
// the missing rows.
func TestFill(t *testing.T) {
	t.Parallel()
	type filled struct{ Users, Orders, Cancelled, Results, Events, Stock int }
	db := sandboxtest.DB(t)
	for _, want := range []int{fillBatch + 5, 10, fillBatch + 12} {
		have, err := fill(t.Context(), db, want, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		rows, _ := db.Query(t.Context(), `
			select (select count(*) from users) as users, count(*) as orders,
			       count(*) filter (where status = 'cancelled' and created_at < expires_at) as cancelled,
			       (select count(*) from ticket_results) as results, (select count(*) from order_events) as events,
			       (select sum(stock) from sales) as stock
			from   orders`)
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[filled])
		if err != nil {
			t.Fatal(err)
		}
		all := max(want, fillBatch+5)
		if have != all {
			t.Errorf("fill %d returns %d, want %d", want, have, all)
		}
		if diff := cmp.Diff(filled{Users: all, Orders: all, Cancelled: all, Events: all, Stock: all}, got); diff != "" {
			t.Errorf("after fill %d: %s", want, diff)
		}
	}
	var said bytes.Buffer
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &said); err != nil || !clean {
		t.Errorf("%v %s", err, &said)
	}
}
