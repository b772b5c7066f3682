package order

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

// Outcomes of a ticket.
const (
	Ordered   = "ordered"
	Duplicate = "duplicate" // the user already has an order of this sale: OrderID
	SoldOut   = "sold_out"
	Closed    = "closed"
	Invalid   = "invalid"
)

// Buyer is a user in a sale.
type Buyer struct{ SaleID, UserID int64 }

// Ticket is a user's right to one place in the order queue of a sale.
type Ticket struct {
	ID     string
	UserID int64
}

// Result is the final outcome of a ticket. OrderID is uuid.Nil if the user has no order.
type Result struct {
	Ticket  string
	UserID  int64
	Outcome string
	OrderID uuid.UUID
}

// Place turns tickets of one sale into orders, first come first served, and returns the result of each
// ticket: its order, or else a row that Place stores. It needs a transaction of its own, which the caller
// commits or rolls back.
//
// A ticket that has a result keeps it, so the same batch can be placed any number of times. The
// first of a user's tickets wins. A closed sale sells nothing. This function decides: the row lock
// puts the processes in order, the unique index refuses a user's second order, and the conditional
// update refuses a unit that is not there.
func (s *Store) Place(ctx context.Context, tx pgx.Tx, sale goods.Locked, tickets []Ticket) ([]Result, error) {
	won, err := s.sell(ctx, tx, sale, tickets)
	if err != nil || len(won) == len(tickets) {
		return won, err
	}
	others, err := s.refuse(ctx, tx, sale, without(tickets, won))
	return append(won, others...), err
}

// PlaceAtOnce is Place for tickets that no journal holds. Their replies are final, so of a user's
// refusals it stores the first, which tells the user's result, and of a second ticket of an owner
// nothing: however often users click, the tables do not grow. A ticket that won may be placed again;
// any other is a new one each time.
func (s *Store) PlaceAtOnce(ctx context.Context, tx pgx.Tx, sale goods.Locked, tickets []Ticket) ([]Result, error) {
	won, err := s.sell(ctx, tx, sale, tickets)
	if err != nil || len(won) == len(tickets) {
		return won, err
	}
	ids, users := columns(without(tickets, won))
	rows, _ := tx.Query(ctx, `
		with decided as (
		     select t.ticket, t.user_id, o.id as order_id,
		            case when o.id is null then $2 when o.ticket = t.ticket then 'ordered' else 'duplicate' end as outcome
		     from   unnest($3::text[], $4::bigint[]) as t (ticket, user_id)
		     left   join orders o on o.user_id = t.user_id and o.sale_id = $1
		), recorded as (
		     insert into ticket_results (ticket, user_id, sale_id, outcome)
		     select distinct on (user_id) ticket, user_id, $1, outcome
		     from   decided d
		     where  order_id is null and not exists (select from orders x where x.ticket = d.ticket) and not exists (
		            select from ticket_results r
		            where  r.user_id = d.user_id and r.sale_id = $1 and r.order_id is null and r.outcome = $2)
		     order  by user_id, ticket collate "C"
		     on     conflict do nothing
		)
		select ticket, user_id, outcome, coalesce(order_id, '00000000-0000-0000-0000-000000000000') as order_id
		from   decided`, sale.ID, refusal(sale), ids, users)
	others, err := pgx.CollectRows(rows, pgx.RowToStructByName[Result])
	if err != nil {
		return nil, fmt.Errorf("decide %d tickets of sale %d: %w", len(ids), sale.ID, err)
	}
	return append(won, others...), nil
}

// sell places an order for each ticket that gets a unit, and returns their results. The row's lock keeps
// other orders of the sale away, so a unique index that is violated is an error: there is no "on conflict",
// which would look into each index twice.
func (s *Store) sell(ctx context.Context, tx pgx.Tx, sale goods.Locked, tickets []Ticket) (won []Result, err error) {
	if sale.State == goods.Closed || sale.Stock <= 0 {
		return nil, nil
	}
	ids, users := columns(tickets)
	orders := make([][16]byte, len(tickets)) // not uuid.UUID, which travels as text
	ticketOf := make(map[[16]byte]Ticket, len(tickets))
	for i, t := range tickets {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("make an order id: %w", err)
		}
		orders[i], ticketOf[id] = id, t
	}
	rows, _ := tx.Query(ctx, `
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
		select order_id, user_id, $1, ticket, $2, $3, clock_timestamp() + $4::interval
		from (select distinct on (user_id) ticket, user_id, order_id, n
		      from   unnest($5::text[], $6::bigint[], $7::uuid[]) with ordinality as t (ticket, user_id, order_id, n)
		      where  not exists (select from ticket_results r where r.ticket = t.ticket)
		      and    not exists (select from orders o where o.user_id = t.user_id and o.sale_id = $1)
		      order  by user_id, n) as fresh
		order by n
		limit $8
		returning id`,
		sale.ID, sale.Title, sale.Price, s.cfg.PayWithin, ids, users, orders, sale.Stock)
	var id [16]byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		t := ticketOf[id]
		won = append(won, Result{Ticket: t.ID, UserID: t.UserID, Outcome: Ordered, OrderID: id})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("place %d tickets of sale %d: %w", len(tickets), sale.ID, err)
	}
	if len(won) > 0 {
		if err := goods.Take(ctx, tx, sale.ID, len(won)); err != nil {
			return nil, err
		}
	}
	return won, nil
}

// columns returns the ids and the users of tickets.
func columns(tickets []Ticket) (ids []string, users []int64) {
	ids, users = make([]string, len(tickets)), make([]int64, len(tickets))
	for i, t := range tickets {
		ids[i], users[i] = t.ID, t.UserID
	}
	return ids, users
}

// refusal is the outcome of a ticket that gets no unit.
func refusal(sale goods.Locked) string {
	if sale.State == goods.Closed {
		return Closed
	}
	return SoldOut
}

// refuse stores a result for each ticket that has none, and returns the results. If the user has an
// order, the result is that order.
func (s *Store) refuse(ctx context.Context, tx pgx.Tx, sale goods.Locked, tickets []Ticket) ([]Result, error) {
	ids, users := columns(tickets)
	_, err := tx.Exec(ctx, `
		insert into ticket_results (ticket, user_id, sale_id, outcome, order_id)
		select t.ticket, t.user_id, $1, case when o.id is null then $2 else 'duplicate' end, o.id
		from   unnest($3::text[], $4::bigint[]) as t (ticket, user_id)
		left   join orders o on o.user_id = t.user_id and o.sale_id = $1
		where  not exists (select from orders x where x.ticket = t.ticket)
		on     conflict (ticket) do nothing`, sale.ID, refusal(sale), ids, users)
	if err != nil {
		return nil, fmt.Errorf("record %d results of sale %d: %w", len(tickets), sale.ID, err)
	}
	return results(ctx, tx, sale.ID, ids)
}

// without returns the tickets that are not among the results.
func without(tickets []Ticket, won []Result) []Ticket {
	placed := make(map[string]bool, len(won))
	for _, r := range won {
		placed[r.Ticket] = true
	}
	return slices.DeleteFunc(slices.Clone(tickets), func(t Ticket) bool { return placed[t.ID] })
}

// Reject stores the result Invalid for tickets whose data Postgres refuses, and returns the results. A
// ticket that has a result keeps it.
func (s *Store) Reject(ctx context.Context, tx pgx.Tx, saleID int64, tickets []Ticket) ([]Result, error) {
	ids := make([]string, len(tickets))
	for i, t := range tickets {
		ids[i] = t.ID
		_, err := tx.Exec(ctx, `
			insert into ticket_results (ticket, user_id, sale_id, outcome)
			select $1, $2::bigint, $3::bigint, 'invalid' where not exists (select from orders where ticket = $1)
			on conflict (ticket) do nothing`, t.ID, t.UserID, saleID)
		if err != nil {
			return nil, fmt.Errorf("reject a ticket of sale %d: %w", saleID, err)
		}
	}
	return results(ctx, tx, saleID, ids)
}

func results(ctx context.Context, tx pgx.Tx, saleID int64, ids []string) ([]Result, error) {
	rows, _ := tx.Query(ctx, `
		select ticket, user_id, 'ordered' as outcome, id as order_id
		from   orders
		where  ticket = any($1)
		union  all
		select ticket, user_id, outcome, coalesce(order_id, '00000000-0000-0000-0000-000000000000')
		from   ticket_results r
		where  ticket = any($1) and not exists (select from orders o where o.ticket = r.ticket)`, ids)
	rs, err := pgx.CollectRows(rows, pgx.RowToStructByName[Result])
	if err != nil {
		return nil, fmt.Errorf("read results of sale %d: %w", saleID, err)
	}
	return rs, nil
}

// Outcomes returns the results of buyers in any number of sales, in one query: the buyer's order, or else the newest
// result of their tickets. A buyer without either is not in the map.
func (s *Store) Outcomes(ctx context.Context, buyers []Buyer) (map[Buyer]Result, error) {
	sales, users := make([]int64, len(buyers)), make([]int64, len(buyers))
	for i, b := range buyers {
		sales[i], users[i] = b.SaleID, b.UserID
	}
	rows, _ := s.db.Query(ctx, `
		select distinct on (sale_id, user_id) sale_id, user_id, ticket, outcome,
		       coalesce(order_id, '00000000-0000-0000-0000-000000000000') as order_id
		from   unnest($1::bigint[], $2::bigint[]) as asked (sale_id, user_id),
		       lateral (select ticket, 'ordered' as outcome, id as order_id, 'infinity'::timestamptz as created_at
		                from   orders o
		                where  o.sale_id = asked.sale_id and o.user_id = asked.user_id
		                union  all
		                select ticket, outcome, order_id, created_at
		                from   ticket_results r
		                where  r.sale_id = asked.sale_id and r.user_id = asked.user_id and order_id is null) as known
		where  `+durable+`
		order  by sale_id, user_id, created_at desc`, sales, users)
	outcomes := make(map[Buyer]Result)
	var b Buyer
	var r Result
	_, err := pgx.ForEachRow(rows, []any{&b.SaleID, &b.UserID, &r.Ticket, &r.Outcome, &r.OrderID}, func() error {
		r.UserID = b.UserID
		outcomes[b] = r
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the outcomes of %d buyers: %w", len(buyers), err)
	}
	return outcomes, nil
}

// Owner is a user and the order they have of a sale.
type Owner struct {
	UserID  int64
	OrderID uuid.UUID
}

// Owners lists the first users behind another one whose order of the sale has a ticket that begins with prefix ("" for
// all), at most of them, sorted. It takes no lock and may miss orders that are placed at the same time.
func (s *Store) Owners(ctx context.Context, saleID int64, prefix string, behind int64, most int) ([]Owner, error) {
	return s.owners(ctx, saleID, `
		select user_id, id as order_id
		from   orders
		where  sale_id = $1 and starts_with(ticket, $2) and user_id > $3 and `+durable+`
		order  by user_id
		limit  $4`, saleID, prefix, behind, most)
}

// OwnersAmong lists those of the users that have an order of the sale.
func (s *Store) OwnersAmong(ctx context.Context, saleID int64, users []int64) ([]Owner, error) {
	return s.owners(ctx, saleID, `
		select user_id, id as order_id from orders where sale_id = $1 and user_id = any($2) and `+durable, saleID, users)
}

func (s *Store) owners(ctx context.Context, saleID int64, sql string, args ...any) ([]Owner, error) {
	rows, _ := s.db.Query(ctx, sql, args...)
	owners, err := pgx.CollectRows(rows, pgx.RowToStructByName[Owner])
	if err != nil {
		return nil, fmt.Errorf("list the owners in sale %d: %w", saleID, err)
	}
	return owners, nil
}
