package live

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	maxTracked = 32                     // sales with figures of their own
	countLimit = 800 * time.Millisecond // for the queries of one second
	countShare = 100                    // counting orders takes at most one hundredth of the time
)

// sale is a sale as Postgres knows it: the truth about units and orders.
type sale struct {
	ID      int64     `json:"id"`
	Title   string    `json:"title"`
	TitleEN string    `json:"title_en"`
	State   string    `json:"state"`
	StartAt time.Time `json:"start_at"`
	EndAt   time.Time `json:"end_at"`
	Total   int       `json:"total"`
	Left    int       `json:"left"`
	*Orders
}

// Orders are the orders of a sale; nil as long as they are not known.
type Orders struct {
	Pending   int `json:"pending"`
	Paid      int `json:"paid"`
	Cancelled int `json:"cancelled"`
	Refunded  int `json:"refunded"`
}

// totals are what one process has read from Postgres for all.
type totals struct {
	Sales   []sale    `json:"sales"`   // those that opened last, maxTracked at most
	At      time.Time `json:"at"`      // by the clock of Redis
	Counted time.Time `json:"counted"` // when orders were counted
}

// count reads the sales that are open, open within a minute or ended within the hour. It counts their orders only as
// often as countShare allows, because that reads an index entry per order; in between, and when counting fails, the
// former counts stay.
func (m *Monitor) count(ctx context.Context, now time.Time, before totals) (totals, error) {
	ctx, cancel := context.WithTimeout(ctx, m.countLimit)
	defer cancel()
	rows, _ := m.DB.Query(ctx, `
		select s.id, g.title, g.title_en, s.state, s.starts_at as start_at, s.ends_at as end_at, s.total, s.stock as left
		from   sales s join goods g on g.id = s.goods_id
		where  s.state <> 'draft' and s.ends_at > now() - interval '1 hour' and s.starts_at < now() + interval '1 minute'
		order  by s.starts_at desc, s.id desc
		limit  $1`, maxTracked)
	sales, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[sale])
	if err != nil {
		return before, fmt.Errorf("read the sales of the live view: %w", err)
	}
	next := totals{Sales: sales, At: now, Counted: before.Counted}
	counts := map[int64]*Orders{}
	for _, s := range before.Sales {
		counts[s.ID] = s.Orders
	}
	if !now.Before(m.countAt) {
		began := time.Now()
		fresh, err := m.countOrders(ctx, sales)
		if m.countAt = now.Add(countShare * time.Since(began)); err == nil {
			counts, next.Counted = fresh, now
		} else {
			m.warn(ctx, err)
		}
	}
	for i := range sales {
		sales[i].Orders = counts[sales[i].ID]
	}
	return next, nil
}

func (m *Monitor) countOrders(ctx context.Context, sales []sale) (map[int64]*Orders, error) {
	ids, counts := make([]int64, len(sales)), map[int64]*Orders{}
	for i, s := range sales {
		ids[i], counts[s.ID] = s.ID, &Orders{}
	}
	rows, _ := m.DB.Query(ctx, `
		select sale_id, count(*) filter (where status = 'pending')   as pending,
		                count(*) filter (where status = 'paid')      as paid,
		                count(*) filter (where status = 'cancelled') as cancelled,
		                count(*) filter (where status = 'refunded')  as refunded
		from   orders
		where  sale_id = any($1)
		group  by sale_id`, ids)
	var id int64
	var c Orders
	_, err := pgx.ForEachRow(rows, []any{&id, &c.Pending, &c.Paid, &c.Cancelled, &c.Refunded}, func() error {
		*counts[id] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count the orders of the live view: %w", err)
	}
	return counts, nil
}

// of returns the figures of a scope: a sale, or the sum of all for the shop. It reports whether there are any.
func (t totals) of(scope int64) (sale, bool) {
	var all sale
	for _, s := range t.Sales {
		if s.ID == scope {
			return s, true
		}
		all.Total += s.Total
		all.Left += s.Left
		if s.Orders == nil {
			continue
		}
		if all.Orders == nil {
			all.Orders = &Orders{}
		}
		all.Pending += s.Pending
		all.Paid += s.Paid
		all.Cancelled += s.Cancelled
		all.Refunded += s.Refunded
	}
	return all, scope == shop && !t.At.IsZero()
}
