package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/seckill/backend"
)

const (
	maxColdSales    = 900             // the list shows a thousand sales
	coldSettleLimit = 5 * time.Second // for settling the last tickets of the other sales
	maxFill         = 10_000_000
	fillUsers       = 1000 // in one transaction
	fillSales       = 10   // in each of which each of them has an order
	fillAtOnce      = 2    // transactions: one takes a core of Postgres
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

// fill creates orders of a year, the last of which are two days old, until there are n of them or a few more: ten for each user, in
// sales of a thousand units, a third of them paid and the others cancelled, with all the rows that belong to them. Those of an
// earlier fill count. It returns how many there are.
func fill(ctx context.Context, db *pgxpool.Pool, n int, progress io.Writer) (have int, err error) {
	rows, _ := db.Query(ctx, `
		select coalesce(max(phone)::bigint + 1 - $1::bigint, 0) from users where phone >= $1::text and length(phone) = 14`, firstFillPhone)
	first, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	users := (n + fillSales - 1) / fillSales
	if first >= users {
		return first * fillSales, nil
	}
	oldest := time.Now().AddDate(-1, 0, 0)
	each := time.Since(oldest.AddDate(0, 0, 2)) / time.Duration((users-first)*fillSales) // between two orders
	g, limited := errgroup.WithContext(ctx)
	g.SetLimit(fillAtOnce)
	for from := first; from < users && limited.Err() == nil; from += fillUsers {
		if (from-first)%(100*fillUsers) == 0 {
			fmt.Fprintf(progress, "fill      %d of %d orders\n", from*fillSales, n)
		}
		g.Go(func() error {
			return fillSome(limited, db, from, min(fillUsers, users-from), oldest.Add(time.Duration((from-first)*fillSales)*each), each)
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	return users * fillSales, db.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		defer c.Exec(ctx, `reset statement_timeout`)
		if _, err := c.Exec(ctx, `set statement_timeout = 0`); err != nil {
			return err
		}
		_, err := c.Exec(ctx, `vacuum (analyze) users, orders, order_events, payments`)
		return err
	})
}

// fillSome creates n users, numbered from the given one, and their orders in old sales, the first of which is of that time.
func fillSome(ctx context.Context, db *pgxpool.Pool, from, n int, at time.Time, each time.Duration) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		// The rows are those that the triggers would have left; for so many, and for each order twice, they take most of the time.
		if _, err := tx.Exec(ctx, `set local statement_timeout = '60s'; set local synchronous_commit = off; set local session_replication_role = replica`); err != nil {
			return err
		}
		// Ids and tickets have the form of real ones: a UUIDv7 of that time, and epoch:entry:nonce with an epoch that never exists.
		_, err := tx.Exec(ctx, `
			with item as (
			     insert into goods (title) values ('bench filler') returning id
			), buyers as (
			     insert into users (phone, nickname, created_at)
			     select ($1::bigint + u)::text, 'filler ' || u, $4 from generate_series($2::bigint, $2::bigint + $3 - 1) u
			     returning id, phone::bigint - $1::bigint as u
			), opened as (
			     insert into sales (goods_id, price, total, stock, state, starts_at, ends_at)
			     select id, 1, $3, $3 - (select count(*) from generate_series($2::bigint, $2::bigint + $3 - 1) u where u % 3 = 0), 'published', at, at + interval '1 day'
			     from   item, generate_series(0, $6::bigint - 1) s, lateral (select $4::timestamptz + s * $3::bigint * $5::interval as at) t
			     returning id, starts_at
			), placed as (
			     insert into orders (id, user_id, sale_id, ticket, title, price, status, created_at, expires_at, paid_at)
			     select (lpad(to_hex(ms), 12, '0') || '7' || substr(r, 14, 3) || '8' || substr(r, 18, 15))::uuid, b.id, s.id, 'fill:' || ms || '-0:' || r::uuid, 'bench filler', 1,
			            case when paid then 'paid' else 'cancelled' end, at, at + interval '15 minutes', case when paid then at + interval '1 minute' end
			     from   opened s cross join buyers b cross join lateral (select s.starts_at + (b.u - $2::bigint) * $5::interval as at, b.u % 3 = 0 as paid) t cross join
			            lateral (select (extract(epoch from at) * 1000)::bigint as ms, md5(b.u || ' ' || s.id) as r) m
			     order  by s.id, b.u
			     returning id, sale_id, ticket, status, created_at
			), moved as (
			     insert into order_events (order_id, sale_id, from_status, to_status, at)
			     select id, sale_id, 'pending', status, created_at + case status when 'paid' then interval '1 minute' else interval '15 minutes' end from placed
			)
			insert into payments (id, order_id, amount, status, provider_ref, created_at, updated_at, ask_at)
			select id, id, 1, 'captured', 'sandbox-' || ticket, created_at, created_at + interval '1 minute', null from placed where status = 'paid'`,
			int64(firstFillPhone), from, n, at, each, fillSales)
		return err
	})
}
