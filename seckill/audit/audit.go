// Package audit holds the running data against the invariants: in Postgres by SQL, and the gates in Redis against
// Postgres. It reads only. The same function serves the command, the tests and the metric.
package audit

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill"
)

// Finding is an invariant that does not hold, with the rows that show it (at most 20).
type Finding struct {
	Invariant string
	Meaning   string
	Rows      []string
}

// Each query gives the rows that should not be.
var queries = []struct{ invariant, meaning, sql string }{
	{"I1", "units left and units held by orders do not make the sale's total", `
		select s.id as sale, s.total, s.stock, a.n as pending_and_paid
		from   sales s cross join lateral
		       (select count(*) n from orders o where o.sale_id = s.id and o.status in ('pending', 'paid')) a
		where  s.stock < 0 or s.stock + a.n <> s.total`},
	{"I2", "a user has more than one order of a sale", `
		select user_id, sale_id, count(*) from orders group by 1, 2 having count(*) > 1`},
	{"I2", "a ticket has more than one order", `
		select ticket, count(*) from orders group by 1 having count(*) > 1`},
	{"I3", "an order without its result, or a result that points at another's order or at none", `
		select o.id from orders o left join ticket_results r on r.ticket = o.ticket and r.order_id = o.id where r.ticket is null
		union all
		select r.order_id from ticket_results r left join orders o on o.id = r.order_id
		where  r.order_id is not null and (o.id is null or o.user_id <> r.user_id or o.sale_id <> r.sale_id)`},
	{"I7", "money and paid orders do not match", `
		select 'payment' as what, p.id from payments p join orders o on o.id = p.order_id
		where  p.status = 'captured' and (o.status <> 'paid' or p.amount <> o.price)
		union all
		select 'order', o.id from orders o
		where  o.status = 'paid'
		and    not exists (select from payments p where p.order_id = o.id and p.status = 'captured')`},
	{"I5", "an order is pending long after its time to pay", `
		select id from orders where status = 'pending' and expires_at < now() - interval '30 seconds'`},
	{"I8", "an order made a move that does not exist, or one of them twice", `
		select order_id from order_events
		where  (from_status, to_status) not in
		       (('new', 'pending'), ('pending', 'paid'), ('pending', 'cancelled'), ('paid', 'refunded'))
		union all
		select order_id from order_events group by order_id, to_status having count(*) > 1`},
}

// Postgres runs the queries in one snapshot.
func Postgres(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, db, opts, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local statement_timeout = '5min'`); err != nil {
			return err
		}
		for _, q := range queries {
			rows, err := tx.Query(ctx, q.sql)
			if err != nil {
				return fmt.Errorf("%s: %w", q.invariant, err)
			}
			f := Finding{Invariant: q.invariant, Meaning: q.meaning}
			if f.Rows, err = pgx.CollectRows(rows, asText); err != nil {
				return fmt.Errorf("%s: %w", q.invariant, err)
			}
			if len(f.Rows) > 0 {
				f.Rows = f.Rows[:min(len(f.Rows), 20)]
				found = append(found, f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("audit Postgres: %w", err)
	}
	return found, nil
}

func asText(row pgx.CollectableRow) (string, error) {
	raw := make([]string, 0, 4)
	values, err := row.Values()
	for i, v := range values {
		if id, ok := v.([16]byte); ok {
			v = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
		}
		raw = append(raw, fmt.Sprintf("%s=%v", row.FieldDescriptions()[i].Name, v))
	}
	return strings.Join(raw, " "), err
}

// gateTries and gatePause give reconcile the time it is promised: a gate is wrong if it stays wrong for over a second.
const (
	gateTries = 6
	gatePause = 300 * time.Millisecond
)

// Gates holds every open sale's gate against Postgres (I6): with an empty journal, the gate's stock is the sale's. A
// sale whose gate is absent or whose journal is being worked on proves nothing and breaks nothing.
func Gates(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) ([]Finding, error) {
	var wrong []string
	for try := range gateTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(gatePause):
			}
		}
		var err error
		if wrong, err = wrongGates(ctx, db, rdb); err != nil {
			return nil, fmt.Errorf("audit the gates: %w", err)
		}
		if len(wrong) == 0 {
			return nil, nil
		}
	}
	return []Finding{{Invariant: "I6", Meaning: "an idle gate's stock is not the sale's", Rows: wrong[:min(len(wrong), 20)]}}, nil
}

func wrongGates(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (wrong []string, err error) {
	var sales []int64
	stocks := map[int64]int{}
	rows, err := db.Query(ctx, `
		select id, stock from sales where state <> 'draft' and now() between starts_at and ends_at`)
	if err != nil {
		return nil, err
	}
	var id int64
	var stock int
	if _, err = pgx.ForEachRow(rows, []any{&id, &stock}, func() error {
		sales, stocks[id] = append(sales, id), stock
		return nil
	}); err != nil {
		return nil, err
	}
	if len(sales) == 0 {
		return nil, nil
	}
	gates, err := seckill.ReadGates(ctx, rdb, sales)
	if err != nil {
		return nil, err
	}
	for _, id := range sales {
		if g := gates[id]; g.Epoch != "" && g.Waiting == 0 && g.Stock != stocks[id] {
			wrong = append(wrong, fmt.Sprintf("sale=%d gate=%d postgres=%d", id, g.Stock, stocks[id]))
		}
	}
	return wrong, nil
}

// Run audits both and prints what is broken. clean is false if anything is.
func Run(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient, w io.Writer) (clean bool, err error) {
	found, err := Postgres(ctx, db)
	if err != nil {
		return false, err
	}
	gates, err := Gates(ctx, db, rdb)
	if err != nil {
		return false, err
	}
	found = append(found, gates...)
	for _, f := range found {
		fmt.Fprintf(w, "BROKEN %s: %s\n", f.Invariant, f.Meaning)
		for _, r := range f.Rows {
			fmt.Fprintf(w, "    %s\n", r)
		}
	}
	if len(found) == 0 {
		fmt.Fprintln(w, "every invariant holds")
	}
	return len(found) == 0, nil
}
