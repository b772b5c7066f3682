package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/order"
)

// Order is an order as the staff finds it, with its buyer and its delivery.
type Order struct {
	order.Order
	Ticket     string
	BuyerPhone string // "" if the account is gone
	order.Delivery
}

// OrderFilter selects orders. A zero field selects all.
type OrderFilter struct {
	Q      string   // whole: an order's id or number, a ticket, a buyer's phone, or a provider's reference of a payment
	Or     []string // more spellings of it
	Sale   int64
	Status string    // one of order.Statuses
	From   time.Time // inclusive
	To     time.Time // exclusive
	Cursor uuid.UUID // orders behind this one
}

// OrderPage is the number of orders in a page of the list.
const OrderPage = 50

// clocksApart is more than two processes' clocks differ. An order's id has the time of the process that placed it,
// created_at that of Postgres.
const clocksApart = 10 * time.Minute

// Orders returns a page of at most n orders as by sees them, and the cursor of the next page, uuid.Nil after the last
// one. Whoever sees phones and references in part may search for a whole one a few times in a day:
// TooManySearchesError.
//
// The newest come first: an id begins with its time (UUIDv7), so their order is that of the primary key, and no index
// is needed that a purchase would have to write. The orders of one sale come in the order of their buyers' numbers,
// which the unique index of sale and user has. They have no image and no English title: the staff reads the title that
// was ordered. However many orders there are, a page reads little more than itself; only one that selects a rare status
// of a sale reads all of the sale.
func (s *Store) Orders(ctx context.Context, by By, f OrderFilter, n int) (orders []Order, next uuid.UUID, err error) {
	hidden := f.Q != "" && !IsTicket(f.Q) && !slices.ContainsFunc(f.Or, IsTicket)
	if hidden && !by.Whole {
		if err := s.searched(ctx, by, f.Q); err != nil {
			return nil, next, err
		}
	}
	sql, args := f.query(n+1, hidden || by.Whole)
	// Planned each time: what a plan costs depends on which conditions there are, and on their values.
	rows, _ := s.db.Query(ctx, sql, pgx.QueryExecModeCacheDescribe, args)
	orders, err = pgx.CollectRows(rows, pgx.RowToStructByName[Order])
	if err != nil {
		return nil, next, fmt.Errorf("search orders: %w", err)
	}
	if len(orders) > n {
		orders = orders[:n]
		next = orders[n-1].ID
	}
	for i := range orders {
		by.seesOrder(&orders[i])
	}
	return orders, next, nil
}

func (by By) seesOrder(o *Order) {
	by.sees(Telephone, &o.BuyerPhone)
	by.sees(Name, &o.Name)
	by.sees(Telephone, &o.Phone)
	by.sees(Address, &o.Address.Address)
	by.sees(Number, &o.Tracking)
}

// query returns the query of a page of n orders. Without hidden Q is no phone and no reference.
func (f OrderFilter) query(n int, hidden bool) (sql string, args pgx.NamedArgs) {
	where, by := "true", "o.id desc"
	args = pgx.NamedArgs{"n": n}
	add := func(condition, name string, value any) { where += "\n\t\t     and    " + condition; args[name] = value }
	if f.Q != "" {
		find := `
		            select id from orders where id = @id
		            union select id from orders where id between @low and @high
		            union select id from orders where ticket = any(@q)
		            union select order_id from ticket_results where ticket = any(@q)`
		if hidden {
			find += `
		            union select order_id from payments where provider_ref = any(@q)
		            union select b.id from orders b join users u on u.id = b.user_id where u.phone = any(@q)`
		}
		add(`o.id in (`+find+`)`, "q", append([]string{f.Q}, f.Or...))
		id, low, high := uuid.Nil, uuid.Nil, uuid.Nil
		for _, q := range args["q"].([]string) {
			if is, err := uuid.Parse(q); err == nil {
				id = is
			}
			if first, last, ok := order.OfNumber(q); ok {
				low, high = first, last
			}
		}
		args["id"], args["low"], args["high"] = id, low, high
	}
	if f.Status != "" {
		add(`o.status = @status`, "status", f.Status)
	}
	if !f.From.IsZero() {
		add(`o.created_at >= @from and o.id >= @first`, "from", f.From)
		args["first"] = firstID(f.From.Add(-clocksApart))
	}
	if !f.To.IsZero() {
		add(`o.created_at < @to and o.id < @last`, "to", f.To)
		args["last"] = firstID(f.To.Add(clocksApart))
	}
	switch {
	case f.Sale != 0: // pairs, so that no index on the user alone is in this order
		by = "o.sale_id, o.user_id"
		add(`(o.sale_id, o.user_id) > (@sale, coalesce((select user_id from orders where id = @cursor), 0)) and (o.sale_id, o.user_id) <= (@sale, 9223372036854775807)`,
			"sale", f.Sale)
		args["cursor"] = f.Cursor
	case f.Cursor != uuid.Nil:
		add(`o.id < @cursor`, "cursor", f.Cursor)
	}
	return `
		with page as materialized (
		     select o.id, o.user_id, o.sale_id, o.title, o.price, o.status, o.created_at, o.expires_at, o.paid_at, o.ticket
		     from   orders o
		     where  ` + where + `
		     order  by ` + by + `
		     limit  @n)
		select o.*, '' as title_en, '' as image, null::timestamptz as cancelled_at, coalesce(u.phone, '') as buyer_phone, coalesce(d.name, '') as name, coalesce(d.phone, '') as phone,
		       coalesce(d.address, '') as address, coalesce(d.carrier, '') as carrier, coalesce(d.tracking, '') as tracking, d.shipped_at
		from   page o
		left   join users u on u.id = o.user_id
		left   join deliveries d on d.order_id = o.id
		order  by ` + by, args
}

// firstID returns the least id of an order that is placed at that time.
func firstID(at time.Time) (id uuid.UUID) {
	ms := max(0, at.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	return id
}
