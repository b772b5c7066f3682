package operator

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/backend"
	"miaosha/seckill/gate"
)

const (
	maxColdSales    = 900 // the list shows a thousand sales
	maxSpread       = 1000
	gatesLimit      = 30 * time.Second // for the shop to build that many gates
	coldSettleLimit = 5 * time.Second  // for settling the last tickets of the other sales
	maxFill         = 10_000_000
	fillUsers       = 1000 // with an order each in one sale
	fillSales       = 10   // with an order of each user
	fillAtOnce      = 3    // transactions: while one waits for the disk, two take a core each
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

// openGates is openSales for the sales of the buyers, and waits until the shop has built their gates.
func openGates(ctx context.Context, s *backend.Stores, n, buyers int, ends time.Time) ([]int64, error) {
	ids, err := openSales(ctx, s, n, buyers, ends)
	for until := time.Now().Add(gatesLimit); err == nil &&
		time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		var states map[int64]gate.State
		if states, err = gate.States(ctx, s.Redis, ids); err == nil &&
			!slices.ContainsFunc(ids, func(id int64) bool { return states[id].Epoch == 0 }) {
			break
		}
	}
	return ids, err
}

// firstFillPhone is the phone of the first user that fill creates. It is longer than any real one.
const firstFillPhone = 90_000_000_000_000

// fillTitle is that of the goods whose sales fill creates: their units are its orders.
const fillTitle = "bench filler"

// fill creates orders of a year, the last of which are two days old, until there are n of them or a few more: ten for
// each user, all over the year, in sales of a thousand units that sell out in ten seconds, with all the rows that
// belong to them. Those of an earlier fill count. It returns how many there are.
func fill(ctx context.Context, db *pgxpool.Pool, n int, progress io.Writer) (have int, err error) {
	var first int
	err = db.QueryRow(ctx, `
		select (select coalesce(sum(s.total), 0) from goods g join sales s on s.goods_id = g.id where g.title = $2),
		       (select coalesce(max(phone)::bigint + 1 - $1::bigint, 0) from users where phone >= $1::text and length(phone) = 14)`,
		firstFillPhone, fillTitle).Scan(&have, &first)
	if err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	if have >= n {
		return have, nil
	}
	users := (n - have + fillSales - 1) / fillSales
	oldest := time.Now().AddDate(-1, 0, 0)
	groups := make([]fillers, (users+fillUsers-1)/fillUsers)
	each := time.Since(oldest.AddDate(0, 0, 2)) / time.Duration(len(groups)*fillSales) // between two sales
	g, limited := errgroup.WithContext(ctx)
	g.SetLimit(fillAtOnce)
	for i := range groups {
		g.Go(func() (err error) {
			groups[i], err = newFillers(limited, db, first+i*fillUsers, min(fillUsers, users-i*fillUsers), oldest)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	g, limited = errgroup.WithContext(ctx)
	g.SetLimit(fillAtOnce)
	for i := range len(groups) * fillSales { // in the order of time, as a shop writes them
		if i%100 == 0 {
			fmt.Fprintf(progress, "fill      %d of %d orders\n", have+i*fillUsers, n)
		}
		g.Go(func() error {
			return fillSale(limited, db, groups[i%len(groups)], groups[(i+1)%len(groups)],
				oldest.Add(time.Duration(i)*each))
		})
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("--fill: %w", err)
	}
	for _, tables := range []string{"orders", "users, sales, order_events, payments, ticket_results"} {
		g.Go(func() error {
			return db.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				defer c.Exec(ctx, `reset statement_timeout`)
				if _, err := c.Exec(ctx, `set statement_timeout = 0`); err != nil {
					return err
				}
				_, err := c.Exec(ctx, `vacuum (analyze) `+tables)
				return err
			})
		})
	}
	return have + users*fillSales, g.Wait()
}

// fillers are users who buy together, and what they buy.
type fillers struct {
	item  int64
	users []int64
}

// newFillers creates n users, numbered from the given one, and one item.
func newFillers(ctx context.Context, db *pgxpool.Pool, from, n int, at time.Time) (c fillers, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, quick); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `insert into goods (title, created_at) values ($1, $2) returning id`, fillTitle, at).Scan(&c.item); err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, `
			insert into users (phone, nickname, created_at)
			select ($1::bigint + u)::text, 'filler ' || u, $4 from generate_series($2::bigint, $2::bigint + $3 - 1) u
			returning id`, int64(firstFillPhone), from, n, at)
		c.users, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	return c, err
}

// quick is for a transaction of fill. Its rows are those that the triggers would have left; for that many rows they
// take most of the time.
const quick = `set local statement_timeout = '60s'; set local synchronous_commit = off; set local session_replication_role = replica`

// fillSale creates a sale of that time with an order for each of the buyers: two thirds are paid or were. A quarter of
// the others were refused by the sale itself: the gate refuses most without a row.
func fillSale(ctx context.Context, db *pgxpool.Pool, buyers, others fillers, at time.Time) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, quick); err != nil {
			return err
		}
		var sale int64
		err := tx.QueryRow(ctx, `
			insert into sales (goods_id, price, total, stock, state, starts_at, ends_at, created_at)
			values ($1::bigint, 1, $2::bigint, (select count(*) from generate_series(1, $2::bigint) u where u % 3 = 0 or u % 30 = 1), 'published', $3::timestamptz, $3::timestamptz + interval '1 hour', $3::timestamptz)
			returning id`, buyers.item, len(buyers.users), at).Scan(&sale)
		if err != nil {
			return err
		}
		ticket := func(at time.Time, id uuid.UUID) string { return fmt.Sprintf("fill:%d-0:%s", at.UnixMilli(), id) }
		var orders, events, payments, refusals [][]any
		for i, user := range buyers.users {
			placed := at.Add(time.Duration(i) * 10 * time.Millisecond)
			// pgx writes a uuid.UUID as a text, which takes half of all time
			id, paid, expires := [16]byte(idOf(placed)), placed.Add(time.Minute), placed.Add(15*time.Minute)
			status, paidAt, payment := order.Paid, &paid, "captured"
			switch {
			case (i+1)%3 == 0:
				status, paidAt = order.Cancelled, nil
				events = append(events, []any{id, sale, order.Pending, status, expires})
			case (i+1)%30 == 1:
				status, payment = order.Refunded, "refunded"
				events = append(events, []any{id, sale, order.Pending, order.Paid, paid},
					[]any{id, sale, order.Paid, status, expires})
			default:
				events = append(events, []any{id, sale, order.Pending, status, paid})
			}
			orders = append(orders, []any{id, user, sale, ticket(placed, uuid.New()), fillTitle, 1, status, placed,
				expires, paidAt})
			if paidAt != nil {
				payments = append(payments, []any{id, id, 1, payment, order.Cashier,
					"sandbox-" + uuid.UUID(id).String(), placed, paid, nil})
			}
			if i%4 == 0 {
				refused := at.Add(10 * time.Second)
				refusals = append(refusals, []any{ticket(refused, uuid.New()), others.users[i%len(others.users)], sale,
					"sold_out", refused})
			}
		}
		for _, rows := range []struct {
			table   string
			columns []string
			rows    [][]any
		}{
			{"orders", []string{"id", "user_id", "sale_id", "ticket", "title", "price", "status", "created_at",
				"expires_at", "paid_at"}, orders},
			{"order_events", []string{"order_id", "sale_id", "from_status", "to_status", "at"}, events},
			{"payments", []string{"id", "order_id", "amount", "status", "provider", "provider_ref", "created_at",
				"updated_at", "ask_at"}, payments},
			{"ticket_results", []string{"ticket", "user_id", "sale_id", "outcome", "created_at"}, refusals},
		} {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{rows.table}, rows.columns,
				pgx.CopyFromRows(rows.rows)); err != nil {
				return fmt.Errorf("%s: %w", rows.table, err)
			}
		}
		return nil
	})
}

// idOf returns a UUIDv7 of that time.
func idOf(at time.Time) uuid.UUID {
	id := uuid.New()
	ms := at.UnixMilli()
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = 7<<4 | id[6]&15
	return id
}
