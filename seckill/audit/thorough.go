package audit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// thorough checks every row.
//
// A purchase is one row, which cannot contradict itself: a pending order whose user or ticket was changed by hand, or
// that was written by hand together with its unit, is not found. The shop's role may not do the first
// (deploy/README.md), and the second is what the shop itself does.
//
// The events of a sale that is archived may be in files, which Archives reads.
//
// No query sums the money of a sale. The sum is right because each captured payment has a paid order of the same price,
// each paid order has a captured payment, and no order has two.
var thorough = []query{
	{"I1", unitsMismatch, `
		select s.id as sale, s.total, s.stock, a.n as pending_and_paid
		from   sales s cross join lateral
		       (select count(*) n from orders o where o.sale_id = s.id and o.status in ('pending', 'paid')) a
		where  s.stock < 0 or s.stock + a.n <> s.total`},
	{"I2", "a user has more than one order in a sale", `
		select user_id, sale_id, count(*) from orders group by 1, 2 having count(*) > 1`},
	{"I2", "a ticket has more than one order", `
		select ticket, count(*) from orders group by 1 having count(*) > 1`},
	{"I3", otherResult, `
		select o.id, o.ticket from orders o join ticket_results r on r.ticket = o.ticket
		where  r.outcome <> 'ordered' or r.order_id <> o.id`},
	{"I3", "a result has the order of another ticket, user or sale, or an order that does not exist", `
		select r.order_id, r.ticket from ticket_results r left join orders o on o.id = r.order_id
		where  r.order_id is not null and (o.id is null or o.user_id <> r.user_id or o.sale_id <> r.sale_id
		                                   or r.outcome = 'ordered' and o.ticket <> r.ticket)`},
	overdueOrders,
	{"I7", moneyMismatch, `
		select 'payment' as what, p.id from payments p left join orders o on o.id = p.order_id
		where  p.status = 'captured' and (o.status is distinct from 'paid' or p.amount <> o.price)
		union all
		select 'order', o.id from orders o
		where  o.status = 'paid'
		and    not exists (select from payments p where p.order_id = o.id and p.status = 'captured')`},
	{"I7", "an order was paid for more than once", `
		select order_id, count(*) from payments where status = 'captured' group by 1 having count(*) > 1`},
	{"I7", "a provider's reference belongs to more than one payment", `
		select provider, provider_ref, count(*) from payments where provider_ref is not null group by 1, 2 having count(*) > 1`},
	lateRefunds,
	{"I8", invalidChange, `
		select order_id from order_events
		where  (from_status, to_status) not in
		       (('new', 'pending'), ('pending', 'paid'), ('pending', 'cancelled'), ('paid', 'refunded'))
		union all
		select order_id from order_events group by order_id, to_status having count(*) > 1`},
	{"I8", "a status change of an order does not start at the status before it", `
		select order_id, was, from_status, to_status
		from  (select order_id, from_status, to_status,
		              coalesce(lag(to_status) over (partition by order_id order by e.id),
		                       case when from_status = 'new' then 'new' when s.archived_at is not null then from_status else 'pending' end) as was
		       from   order_events e left join sales s on s.id = e.sale_id) e
		where  from_status <> was`},
	{"I8", "a history has no order, or an order of another sale", `
		select e.order_id, e.to_status from order_events e left join orders o on o.id = e.order_id
		where  o.id is null or o.sale_id <> e.sale_id`},
	{"I8", historyMismatch, `
		select o.id, o.status, coalesce(e.last, 'pending') as last_event, coalesce(e.born, 0) as births
		from   orders o left join
		      (select order_id, (array_agg(to_status order by id desc))[1] as last, count(*) filter (where from_status = 'new') as born
		       from   order_events group by order_id) e on e.order_id = o.id left join sales s on s.id = o.sale_id
		where  coalesce(e.last, case when s.archived_at is not null then o.status else 'pending' end) <> o.status or e.born > 1`},
	// A ticket is epoch:entry:nonce, and the journal entry starts with the milliseconds of Redis TIME: the time of the
	// grant. A change of the window changes the epoch, so a ticket of the sale's current epoch was granted in the
	// current window. For a ticket of an older epoch, or of Postgres alone, the window of its grant is unknown.
	{"I9", outsideWindow, `
		select r.ticket, s.id as sale
		from   ticket_outcomes r join sales s on s.id = r.sale_id and split_part(r.ticket, ':', 1) = s.epoch::text cross join lateral
		      (select case when r.ticket ~ '^[0-9]+:[0-9]{1,15}-[0-9]+:'
		                   then to_timestamp(split_part(split_part(r.ticket, ':', 2), '-', 1)::bigint / 1000.0) end as granted) g
		where  g.granted < date_trunc('milliseconds', s.starts_at) or g.granted > s.ends_at + interval '5 seconds'`},
}

// The thorough and the quick audit share these queries: each has an index of its own.
var (
	overdueOrders = query{"I5", "an order is pending long after its payment deadline", `
		with recursive` + firstPending + `
		select overdue.id
		from   first cross join lateral
		      (select id from orders where status = 'pending' and sale_id = first.sale_id and expires_at < now() - interval '30 seconds' limit 20) overdue
		where  first.expires_at < now() - interval '30 seconds'
		limit  20`}
	lateRefunds = query{"I7", "a refund has been due for more than 5 minutes", `
		select id, order_id, amount from payments
		where  status = 'refund_due' and updated_at < now() - interval '5 minutes' limit 20`}
)

// firstPending has of each sale with pending orders the first to end. It reads one order of each, however many there
// are: the index of pending orders is in this order.
const firstPending = `
		first as (
		     (select sale_id, expires_at from orders where status = 'pending' order by sale_id, expires_at limit 1)
		     union all
		     select following.*
		     from   first cross join lateral (
		            select sale_id, expires_at
		            from   orders
		            where  status = 'pending' and sale_id > first.sale_id
		            order  by sale_id, expires_at
		            limit  1) following
		)`

// The meanings of findings for which thorough and quick have different queries.
const (
	unitsMismatch   = "stock plus pending and paid orders is not the sale's total"
	moneyMismatch   = "money and paid orders do not match"
	invalidChange   = "an order made a status change that is not allowed, or one of them twice"
	otherResult     = "a ticket has an order and another result"
	historyMismatch = "an order's history does not end at its status, or starts twice"
	outsideWindow   = "a ticket was granted outside the sale's window"
)

// lostAccounts returns a note of users who have orders and no account: a restore has lost rows of users. Orders are
// right without them, so no invariant is broken.
func lostAccounts(ctx context.Context, db *pgxpool.Pool) (notes []Finding, err error) {
	err = readOnly(ctx, db, thoroughLimit, func(tx pgx.Tx) error {
		notes, err = runQueries(ctx, tx, []query{{"", "users with orders have no account, as after a restore without rows of users", `
			select user_id, count(*) as orders from orders o
			where  not exists (select from users u where u.id = o.user_id) group by 1 order by 1 limit 20`}})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit the accounts of orders: %w", err)
	}
	return notes, nil
}
