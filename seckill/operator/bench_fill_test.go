package operator

import (
	"bytes"
	"io"
	"testing"

	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// What fill makes is what the shop could have made: the audit says so. A second fill only adds what is missing.
func TestFill(t *testing.T) {
	t.Parallel()
	db := sandboxtest.DB(t)
	for _, want := range []int{fillBatch + 5, 10, fillBatch + 12} {
		has, err := fill(t.Context(), db, want, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var users, orders, cancelled, results, events, stock int
		err = db.QueryRow(t.Context(), `
			select (select count(*) from users), count(*), count(*) filter (where status = 'cancelled' and created_at < expires_at),
			       (select count(*) from ticket_results), (select count(*) from order_events), (select sum(stock) from sales)
			from   orders`).Scan(&users, &orders, &cancelled, &results, &events, &stock)
		if err != nil {
			t.Fatal(err)
		}
		if all := max(want, fillBatch+5); has != all || users != all || orders != all || cancelled != all || results != all || events != 2*all || stock != all {
			t.Errorf("asked for %d: has %d; %d users, %d orders (%d cancelled), %d results, %d events, %d units", want, has, users, orders, cancelled, results, events, stock)
		}
	}
	var said bytes.Buffer
	if clean, err := audit.Run(t.Context(), db, sandboxtest.Redis(t), &said); err != nil || !clean {
		t.Errorf("%v %s", err, &said)
	}
}
