package admin

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/order"
)

var filledFrom = time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC)

// fillOrders adds n orders, one each second from filledFrom on: the k-th is of user k and sale 1 + k % 10. Each 100th is pending, some
// are refunded; of the others each third is cancelled. Users and payments have the same number.
func fillOrders(t *testing.T, db *pgxpool.Pool, n int) {
	t.Helper()
	for _, sql := range []string{
		`insert into users (phone, nickname) select (10000000000 + k)::text, 'buyer ' || k from generate_series(1, $1::int) k`,
		`insert into orders (id, user_id, sale_id, ticket, title, price, created_at, expires_at)
		 select (lpad(to_hex(extract(epoch from at)::bigint * 1000), 12, '0') || '7' || substr(md5(k::text), 1, 3) || '8' || substr(md5(k::text), 4, 15))::uuid,
		        k, 1 + k % 10, 'fill:' || k, 'kettle', 9900, at, at + interval '15 minutes'
		 from   generate_series(1, $1::int) k, lateral (select timestamptz '2026-03-01 20:00Z' + k * interval '1 second') as a (at)`,
		`update orders set status = case when user_id % 3 = 0 then 'cancelled' else 'paid' end, paid_at = created_at where user_id % 100 <> 0 and user_id <= $1`,
		`update orders set status = 'refunded' where user_id % 50 = 1 and status = 'paid' and user_id <= $1`,
		`insert into payments (id, order_id, amount, status, provider_ref)
		 select gen_random_uuid(), id, price, case when status = 'paid' then 'captured' else 'refunded' end, 'ref-' || user_id
		 from   orders where status in ('paid', 'refunded') and user_id <= $1`,
	} {
		if _, err := db.Exec(t.Context(), sql, n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Exec(t.Context(), `analyze users, orders, payments`); err != nil {
		t.Fatal(err)
	}
}

// Each search finds the same as a plain condition, page after page, and reads orders by an index.
func TestOrderSearches(t *testing.T) {
	s, db, _ := newShop(t)
	const n = 2000
	fillOrders(t, db, n)
	if _, err := db.Exec(t.Context(), `insert into ticket_results (ticket, user_id, sale_id, outcome, order_id)
		select 'second', user_id, sale_id, 'duplicate', id from orders where user_id = 7`); err != nil {
		t.Fatal(err)
	}
	var id uuid.UUID
	if err := db.QueryRow(t.Context(), `select id from orders where user_id = 1000`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	from, to := filledFrom.Add(1000*time.Second), filledFrom.Add(1300*time.Second)
	for name, c := range map[string]struct {
		f     OrderFilter
		where string
	}{
		"all":                {OrderFilter{}, "true"},
		"a phone":            {OrderFilter{Q: "10000001000"}, "user_id = 1000"},
		"an order":           {OrderFilter{Q: id.String()}, "user_id = 1000"},
		"a number":           {OrderFilter{Q: strings.ToLower(order.Number(id))}, "user_id = 1000"},
		"a ticket":           {OrderFilter{Q: "fill:1000"}, "user_id = 1000"},
		"a second ticket":    {OrderFilter{Q: "second"}, "user_id = 7"},
		"a reference":        {OrderFilter{Q: "ref-1001"}, "user_id = 1001"},
		"nothing":            {OrderFilter{Q: "ref-x"}, "false"},
		"a sale":             {OrderFilter{Sale: 3}, "sale_id = 3"},
		"no sale":            {OrderFilter{Sale: 99}, "false"},
		"the last number":    {OrderFilter{Sale: math.MaxInt64}, "false"},
		"pending":            {OrderFilter{Status: order.Pending}, "status = 'pending'"},
		"paid":               {OrderFilter{Status: order.Paid}, "status = 'paid'"},
		"cancelled":          {OrderFilter{Status: order.Cancelled}, "status = 'cancelled'"},
		"refunded":           {OrderFilter{Status: order.Refunded}, "status = 'refunded'"},
		"refunded of a sale": {OrderFilter{Sale: 2, Status: order.Refunded}, "sale_id = 2 and status = 'refunded'"},
		"a time":             {OrderFilter{From: from, To: to}, "user_id >= 1000 and user_id < 1300"},
		"a time of a sale":   {OrderFilter{Sale: 3, From: from, To: to}, "sale_id = 3 and user_id >= 1000 and user_id < 1300"},
		"a sale and a phone": {OrderFilter{Sale: 3, Q: "10000001000"}, "false"},
	} {
		var found []int64
		for f := c.f; ; {
			page, next, err := s.Orders(t.Context(), whole, f, OrderPage)
			if err != nil {
				t.Fatal(name, err)
			}
			for _, o := range page {
				found = append(found, o.UserID)
			}
			if f.Cursor = next; next == uuid.Nil {
				break
			}
		}
		by := "user_id desc" // the newest first
		if c.f.Sale != 0 {
			by = "user_id"
		}
		rows, _ := db.Query(t.Context(), `select user_id from orders where `+c.where+` order by `+by)
		want, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			t.Fatal(name, err)
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %v, want %v", name, found, want)
		}
		c.f.Cursor = id
		for _, line := range explain(t, db, c.f) {
			if strings.Contains(line, "Seq Scan") {
				t.Errorf("%s has no index:%s", name, line)
			}
		}
	}
}

// explain returns the plan of a search's page. A small table is read whole if it may be, so here it may not.
func explain(t *testing.T, db *pgxpool.Pool, f OrderFilter) (plan []string) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `set local enable_seqscan = off`); err != nil {
			return err
		}
		sql, args := f.query(OrderPage+1, true)
		rows, _ := tx.Query(t.Context(), "explain "+sql, pgx.QueryExecModeCacheDescribe, args)
		var err error
		plan, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}
