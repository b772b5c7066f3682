package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/seckill/backend"
)

const (
	maxColdSales    = 900             // the list shows a thousand sales
	coldSettleLimit = 5 * time.Second // for settling the last tickets of the other sales
	maxFill         = 10_000_000
	fillBatch       = 10_000 // users and orders in one transaction, all of one sale
)

// openSales creates n open sales with one unit for each of the buyers.
func openSales(ctx context.Context, s *backend.Stores, n, buyers int, ends time.Time) (ids []int64, err error) {
	for i := range n {
		id, err := goods.New(s.Web).Sell(ctx, goods.Item{Title: fmt.Sprintf("bench cold %d", i+1)},
			goods.Terms{Price: 1, Total: buyers, StartsAt: time.Now(), EndsAt: ends})
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// firstFillPhone is the phone of the first user that fill creates. It is longer than any real one.
const firstFillPhone = 90_000_000_000_000

// fill creates users and cancelled orders of old sales, with all the rows that belong to them,
// until there are n of each. Those of an earlier fill count. It returns how many there are.
func fill(ctx context.Context, db *pgxpool.Pool, n int, progress io.Writer) (have int, err error) {
	rows, _ := db.Query(ctx, `
		select coalesce(max(phone)::bigint + 1 - $1::bigint, 0) from users where phone >= $1::text and length(phone) = 14`, firstFillPhone)
	have, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	if have >= n {
		return have, nil
	}
	for ; have < n; have += min(fillBatch, n-have) {
		fmt.Fprintf(progress, "fill      %d of %d\n", have, n)
		if err := fillSale(ctx, db, have, min(fillBatch, n-have)); err != nil {
			return have, fmt.Errorf("--fill: %w", err)
		}
	}
	return n, db.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		defer c.Exec(ctx, `reset statement_timeout`)
		if _, err := c.Exec(ctx, `set statement_timeout = 0`); err != nil {
			return err
		}
		_, err := c.Exec(ctx, `vacuum (analyze) users, orders, ticket_results, order_events`)
		return err
	})
}

// fillSale creates an old sale with n users, numbered from the given one, and their cancelled orders.
func fillSale(ctx context.Context, db *pgxpool.Pool, from, n int) error {
	ended := time.Now().Add(-48 * time.Hour) // so long ago that no background part still reads the sale
	sale, err := goods.New(db).Sell(ctx, goods.Item{Title: "bench filler"}, goods.Terms{Price: 1, Total: n, StartsAt: ended.Add(-time.Hour), EndsAt: ended})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		for _, step := range []struct {
			sql  string
			args []any
		}{
			{`set local statement_timeout = '60s'`, nil},
			{`set local enable_nestloop = off`, nil}, // the update trigger is planned for hundreds of rows, not for this many
			// Ids and tickets have the form of real ones: a UUIDv7 of that time, and
			// epoch:entry:nonce with an epoch that never exists.
			{`
				with buyers as (
				     insert into users (phone, nickname, created_at)
				     select ($1::bigint + i)::text, 'filler ' || i, $5
				     from   generate_series($2::bigint, $2::bigint + $3 - 1) i
				     returning id, phone)
				insert into orders (id, user_id, sale_id, ticket, title, price, created_at, expires_at)
				select (lpad(to_hex($6::bigint + i), 12, '0') || '7' || substr(r, 14, 3) || '8' || substr(r, 18, 15))::uuid, id, $4,
				       'fill:' || $6::bigint + i || '-0:' || r::uuid, 'bench filler', 1, $5, $5::timestamptz + interval '15 minutes'
				from   buyers, lateral (select phone::bigint - $1::bigint as i) n, lateral (select md5(i::text) as r) m
				order  by i`, []any{int64(firstFillPhone), from, n, sale, ended.Add(-time.Minute), ended.Add(-24 * time.Hour).UnixMilli()}},
			{`update orders set status = 'cancelled' where sale_id = $1`, []any{sale}},
		} {
			if _, err := tx.Exec(ctx, step.sql, step.args...); err != nil {
				return err
			}
		}
		return nil
	})
}
