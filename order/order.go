// Package order has the buyers' orders, their payments, and the four moves an order can make:
//
//	(ticket) -> pending -> paid -> refunded
//	                    -> cancelled
//
// Each move is one conditional update; of two at once, the first to change the row wins. A
// transaction that changes a sale's stock locks the sale's row first (goods.Lock) and an order's
// row after it: see giveBack. Paying changes no stock, so it locks no sale: see receive.
package order

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

// States of an order.
const (
	Pending   = "pending"
	Paid      = "paid"
	Cancelled = "cancelled"
	Refunded  = "refunded"
)

// Statuses are the states of an order.
var Statuses = []string{Pending, Paid, Cancelled, Refunded}

// Refusals.
var (
	ErrNotFound    = errors.New("not found") // missing, or another user's
	ErrWrongStatus = errors.New("not possible in the current status of the order")
	ErrDeclined    = errors.New("too many of the order's payments were declined")
	ErrWrongAmount = errors.New("the amount is not the order's price")
	ErrReusedRef   = errors.New("the reference is that of another payment")
	ErrRefused     = errors.New("the payment provider refuses this payment")
	ErrProvider    = errors.New("the payment provider does not answer")
	ErrMayRefund   = errors.New("the payment provider may still return this money")
)

// Config has the settings of orders.
type Config struct {
	PayWithin time.Duration `name:"pay-within" env:"MIAOSHA_PAY_WITHIN" default:"15m" help:"How long a buyer has to pay before the unit goes back on sale."`
}

// Validate returns an error if PayWithin is less than a second.
func (c Config) Validate() error {
	if c.PayWithin < time.Second {
		return fmt.Errorf("--pay-within: %v is too short, at least 1s", c.PayWithin)
	}
	return nil
}

// Order is one unit of a sale that a user has ordered.
type Order struct {
	ID        uuid.UUID
	UserID    int64
	SaleID    int64
	Title     string // as it was when the order was placed
	TitleEN   string // of the goods; "" if they have none, or another title today
	Image     string // of the goods; "" if they have none
	Price     int64  // fen
	Status    string
	CreatedAt time.Time
	ExpiresAt time.Time
	PaidAt    *time.Time

	CancelledAt *time.Time // at ExpiresAt or later if it was not paid in time
}

// durable is a condition of every query whose rows are told to a user. A row may be visible before a
// synchronous standby has it: after the wait of its commit was cancelled, and after a restart of
// Postgres. If the standby took over then, the shop would have told of what never happened. So the
// query writes too, if there is such a standby: then its own commit waits until the standby has all
// that the query saw. A query that only reads does not wait, and pg_current_xact_id() writes
// nothing. The condition is evaluated once.
const durable = `(select current_setting('synchronous_standby_names') = '' or pg_logical_emit_message(true, 'miaosha', '') is not null)`

// PayWithin returns how long a buyer has to pay.
func (s *Store) PayWithin() time.Duration { return s.cfg.PayWithin }

// Store moves orders in Postgres.
type Store struct {
	db            goods.DB
	cfg           Config
	unitsReturned func(sale int64)
	locked        goods.LockedSales
	expired       goods.LockedSales // of the sweeper, which waits behind no crowd that cancels
	saidLocked    sync.Map          // the sales of which Expire has returned that they stay locked

	expiring, asking, refunding sweepCounts
}

// New returns a Store on db. Give it a pool of its own: paying should not wait behind buying. On a transaction each
// move is a part of it, and whoever commits it tells the reconciler of units that came back.
func New(db goods.DB, cfg Config) *Store {
	return &Store{db: goods.Steady(db), cfg: cfg, unitsReturned: func(int64) {}}
}

// OnUnitsReturned sets a function to be called after each commit that puts units of a sale back on sale. Call
// it before the Store is used.
func (s *Store) OnUnitsReturned(f func(sale int64)) { s.unitsReturned = f }

// selectOrders begins each query for the orders of a user.
const selectOrders = `
		select o.id, o.user_id, o.sale_id, o.title, case when g.title = o.title then g.title_en else '' end as title_en, coalesce(g.image, '') as image, o.price, o.status, o.created_at, o.expires_at, o.paid_at,
		       case when o.status = 'cancelled' then (select max(e.at) from order_events e where e.order_id = o.id) end as cancelled_at
		from   orders o left join sales s on s.id = o.sale_id left join goods g on g.id = s.goods_id`

// OfUser lists a user's orders, newest first, at most 200.
func (s *Store) OfUser(ctx context.Context, userID int64) ([]Order, error) {
	var orders []Order
	err := goods.Again(func() (err error) {
		rows, _ := s.db.Query(ctx, selectOrders+`
		where  o.user_id = $1 and `+durable+`
		order  by o.created_at desc, o.id desc
		limit  200`, userID)
		orders, err = pgx.CollectRows(rows, pgx.RowToStructByName[Order])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the orders of user %d: %w", userID, err)
	}
	return orders, nil
}

// ByID returns a user's order. Another user's order is ErrNotFound, like a missing one.
func (s *Store) ByID(ctx context.Context, userID int64, id uuid.UUID) (Order, error) {
	var o Order
	err := goods.Again(func() (err error) {
		rows, _ := s.db.Query(ctx, selectOrders+`
		where  o.id = $1 and o.user_id = $2 and `+durable, id, userID)
		o, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Order])
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return o, ErrNotFound
	}
	if err != nil {
		return o, fmt.Errorf("read order %s: %w", id, err)
	}
	return o, nil
}

// saleOf returns the sale and the status of an order of any user. ErrNotFound.
func (s *Store) saleOf(ctx context.Context, id uuid.UUID) (sale int64, status string, err error) {
	err = s.db.QueryRow(ctx, `select sale_id, status from orders where id = $1 and `+durable, id).Scan(&sale, &status)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", ErrNotFound
	}
	if err != nil {
		return 0, "", fmt.Errorf("read order %s: %w", id, err)
	}
	return sale, status, nil
}
