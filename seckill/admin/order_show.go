package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/order"
)

// OrderFile is all that the shop knows of an order.
type OrderFile struct {
	Order
	Nickname  string // of the buyer
	SaleState string
	Archived  *time.Time // since when the sale's rows may be in files: History and Told may lack some then
	History   []Move
	Payments  []Payment
	Told      []Told
}

// Move is a change of an order's status. The first one comes from new.
type Move struct {
	From string    `json:"from"`
	To   string    `json:"to"`
	At   time.Time `json:"at"`
}

// Payment is a payment of an order, with what the provider calls it.
type Payment struct {
	ID          uuid.UUID `json:"id"`
	Amount      int64     `json:"amount"` // fen
	Status      string    `json:"status"`
	Provider    string    `json:"provider"`
	ProviderRef string    `json:"provider_ref"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// Told is the final result of one of the buyer's tickets in the sale, as the buyer was told.
type Told struct {
	Ticket  string    `json:"ticket"`
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`
}

// Money is a payment of which money came, and what the staff noted when they returned it by hand.
type Money struct {
	Payment
	Note string
}

// MoneyOf returns the payments of orders of which money came, as by sees them, in the order in which they were opened.
func (s *Store) MoneyOf(ctx context.Context, by By, orders []uuid.UUID) (map[uuid.UUID][]Money, error) {
	rows, _ := s.db.Query(ctx, `
		select p.order_id, p.id, p.amount, p.status, p.provider, coalesce(p.provider_ref, '') as provider_ref, p.created_at, p.updated_at,
		       coalesce((select l.after->>'note' from admin_log l where l.subject = 'payment ' || p.id and l.action = 'payment.returned' limit 1), '') as note
		from   payments p
		where  p.order_id = any($1) and p.status in ('captured', 'refund_due', 'refunded')
		order  by p.created_at, p.id`, orders)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[struct {
		OrderID uuid.UUID
		Money
	}])
	if err != nil {
		return nil, fmt.Errorf("read the payments of %d orders: %w", len(orders), err)
	}
	money := map[uuid.UUID][]Money{}
	for _, p := range found {
		by.sees(Number, &p.ProviderRef)
		by.sees(Text, &p.Note)
		money[p.OrderID] = append(money[p.OrderID], p.Money)
	}
	return money, nil
}

// OrderFile returns an order as by sees it, with its history, its payments, and what its buyer was told, in one
// snapshot. order.ErrNotFound.
func (s *Store) OrderFile(ctx context.Context, by By, id uuid.UUID) (f OrderFile, err error) {
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) error {
			sql, args := OrderFilter{Q: id.String()}.query(1, false)
			rows, _ := tx.Query(ctx, sql, args)
			if f.Order, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Order]); err != nil {
				return err
			}
			err := tx.QueryRow(ctx, `
			select coalesce((select nickname from users where id = $1), ''), coalesce((select state from sales where id = $2), ''),
			       (select archived_at from sales where id = $2)`, f.UserID, f.SaleID).Scan(&f.Nickname, &f.SaleState, &f.Archived)
			if err != nil {
				return err
			}
			rows, _ = tx.Query(ctx, `select from_status, to_status, at from order_history where order_id = $1 order by at`, id)
			if f.History, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Move]); err != nil {
				return err
			}
			rows, _ = tx.Query(ctx, `
			select id, amount, status, provider, coalesce(provider_ref, '') as provider_ref, created_at, updated_at
			from   payments
			where  order_id = $1
			order  by created_at, id`, id)
			if f.Payments, err = pgx.CollectRows(rows, pgx.RowToStructByName[Payment]); err != nil {
				return err
			}
			rows, _ = tx.Query(ctx, `
			select ticket, 'ordered' as outcome, created_at as at from orders where id = $1
			union  all
			select ticket, outcome, created_at from ticket_results where user_id = $2 and sale_id = $3 and order_id is null
			order  by at
			limit  100`, id, f.UserID, f.SaleID)
			f.Told, err = pgx.CollectRows(rows, pgx.RowToStructByName[Told])
			return err
		})
	if errors.Is(err, pgx.ErrNoRows) {
		return f, order.ErrNotFound
	}
	if err != nil {
		return f, fmt.Errorf("read order %s: %w", id, err)
	}
	by.seesOrder(&f.Order)
	by.sees(Nickname, &f.Nickname)
	for i := range f.Payments {
		by.sees(Number, &f.Payments[i].ProviderRef)
	}
	return f, nil
}
