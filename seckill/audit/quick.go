package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const (
	quickLimit     = 20 * time.Second // of a whole quick audit
	quickStatement = 5 * time.Second  // of each query
)

// Quick is an audit that a busy shop can run each minute. It counts the units of the sales that are open or ended less
// than 25 hours ago. It checks the newest 20,000 orders and payments, the defences and the rest of the schema, the
// gates and the journals. Each query uses an index, one core and at most 5 s. Some violations need a missing constraint
// first, such as a second order (I2): Quick finds the missing constraint instead. rdb may be nil for a shop without
// gates.
//
// With an error, Quick also returns the findings from before it.
func Quick(ctx context.Context, db *pgxpool.Pool, rdb redis.UniversalClient) (found []Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, quickLimit)
	defer cancel()
	err = readOnly(ctx, db, quickStatement, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local max_parallel_workers_per_gather = 0; set local jit = off`); err != nil {
			return err
		}
		if found, err = missingDefences(ctx, tx); err != nil {
			return err
		}
		differences, err := schemaFindings(ctx, tx)
		if err != nil {
			return err
		}
		found = append(found, slices.DeleteFunc(differences, Finding.note)...)
		rows, err := runQueries(ctx, tx, quick)
		found = append(found, rows...)
		return err
	})
	if err != nil {
		return found, fmt.Errorf("quick audit of Postgres: %w", err)
	}
	if rdb == nil {
		return found, nil
	}
	gates, err := Gates(ctx, db, rdb)
	return append(found, gates...), err
}

// quick has no query that reads a whole table. Ids of orders and payments grow with time (UUIDv7), so the newest rows
// are at one end of the primary key. The count in each lateral makes Postgres look up one row, not hash a whole table.
var quick = []query{
	{"I1", unitsMismatch, `
		select s.id as sale, s.total, s.stock, a.n as pending_and_paid
		from   sales s cross join lateral
		       (select count(*) n from orders o where o.sale_id = s.id and o.status in ('pending', 'paid')) a
		where  s.state <> 'draft' and s.starts_at <= now() and s.ends_at > now() - interval '25 hours'
		and   (s.stock < 0 or s.stock + a.n <> s.total)`},
	{"I3", otherResult, `
		select o.id, o.ticket
		from  (select id, ticket from orders order by id desc limit 20000) o cross join lateral
		      (select count(*) n from ticket_results r
		       where  r.ticket = o.ticket and (r.outcome <> 'ordered' or r.order_id <> o.id)) r
		where  r.n > 0`},
	overdueOrders,
	{"I7", moneyMismatch, `
		select 'payment' as what, p.id
		from  (select id, order_id, status, amount from payments order by id desc limit 20000) p cross join lateral
		      (select count(*) n from orders o where o.id = p.order_id and o.status = 'paid' and o.price = p.amount) o
		where  p.status = 'captured' and o.n = 0
		union all
		select 'order', o.id
		from  (select id, status from orders order by id desc limit 20000) o cross join lateral
		      (select count(*) n from payments p where p.order_id = o.id and p.status = 'captured') p
		where  o.status = 'paid' and p.n = 0`},
	lateRefunds,
	{"I8", invalidChange, `
		select order_id
		from  (select order_id, from_status, to_status from order_events order by id desc limit 20000) e
		where  (from_status, to_status) not in
		       (('new', 'pending'), ('pending', 'paid'), ('pending', 'cancelled'), ('paid', 'refunded'))`},
	{"I8", historyMismatch, `
		select o.id, o.status, coalesce(e.last, 'pending') as last_event, e.born as births
		from  (select id, status, sale_id from orders order by id desc limit 20000) o cross join lateral
		      (select (array_agg(to_status order by id desc))[1] as last, count(*) filter (where from_status = 'new') as born
		       from   order_events where order_id = o.id) e
		where  e.born > 1 or coalesce(e.last, 'pending') <> o.status
		and   (e.last is not null or (select archived_at from sales where id = o.sale_id) is null)`},
	// The array keeps Postgres from reading all sales: those of the newest orders are few.
	{"I9", outsideWindow, `
		with newest as materialized (select ticket, sale_id from orders order by id desc limit 20000),
		     theirs as materialized (select id, epoch, starts_at, ends_at from sales where id = any (array(select distinct sale_id from newest)))
		select o.ticket, s.id as sale
		from   newest o join theirs s on s.id = o.sale_id and split_part(o.ticket, ':', 1) = s.epoch::text cross join lateral
		      (select case when o.ticket ~ '^[0-9]+:[0-9]{1,15}-[0-9]+:'
		                   then to_timestamp(split_part(split_part(o.ticket, ':', 2), '-', 1)::bigint / 1000.0) end as granted) g
		where  g.granted < date_trunc('milliseconds', s.starts_at) or g.granted > s.ends_at + interval '5 seconds'`},
}
