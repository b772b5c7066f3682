// Package order is who bought what: orders, their payments, and the four moves an order can make.
//
//	(ticket) -> pending -> paid -> refunded
//	                    -> cancelled
//
// Each move is one conditional update; the row it changes decides who wins. Whoever changes a sale's stock takes the
// sale's row first (goods.Lock) and an order's row after it. Paying changes no stock, so it takes no sale's row.
package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// States of an order.
const (
	Pending   = "pending"
	Paid      = "paid"
	Cancelled = "cancelled"
	Refunded  = "refunded"
)

// Refusals.
var (
	ErrNotFound    = errors.New("order: not found") // missing, or somebody else's
	ErrWrongStatus = errors.New("order: not possible in its present state")
	ErrWrongAmount = errors.New("order: the amount is not the order's price")
	ErrReusedRef   = errors.New("order: the provider's reference belongs to another order")
)

// Config has the settings of orders.
type Config struct {
	PayWithin time.Duration `name:"pay-within" env:"MIAOSHA_PAY_WITHIN" default:"15m" help:"How long a buyer has to pay before the unit goes back on sale."`
}

// Validate refuses what can't be meant.
func (c Config) Validate() error {
	if c.PayWithin < time.Second {
		return fmt.Errorf("--pay-within: %v is too short, at least 1s", c.PayWithin)
	}
	return nil
}

// Order is one unit somebody bought, or tried to.
type Order struct {
	ID        uuid.UUID
	UserID    int64
	SaleID    int64
	Title     string
	Price     int64 // fen
	Status    string
	CreatedAt time.Time
	ExpiresAt time.Time
	PaidAt    *time.Time
}

// Store moves orders in Postgres.
type Store struct {
	db  *pgxpool.Pool
	cfg Config
}

// New gives a Store on db. Give it a pool of its own: paying should not wait behind buying.
func New(db *pgxpool.Pool, cfg Config) *Store { return &Store{db: db, cfg: cfg} }

// OfUser lists a user's orders, newest first, at most 200.
func (s *Store) OfUser(ctx context.Context, userID int64) ([]Order, error) {
	rows, err := s.db.Query(ctx, `
		select id, user_id, sale_id, title, price, status, created_at, expires_at, paid_at
		from   orders
		where  user_id = $1
		order  by created_at desc, id desc
		limit  200`, userID)
	if err == nil {
		var orders []Order
		if orders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Order]); err == nil {
			return orders, nil
		}
	}
	return nil, fmt.Errorf("list the orders of user %d: %w", userID, err)
}

// ByID gives a user's order; another's is ErrNotFound, like a missing one.
func (s *Store) ByID(ctx context.Context, userID int64, id uuid.UUID) (Order, error) {
	rows, err := s.db.Query(ctx, `
		select id, user_id, sale_id, title, price, status, created_at, expires_at, paid_at
		from   orders
		where  id = $1 and user_id = $2`, id, userID)
	var o Order
	if err == nil {
		o, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Order])
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return o, ErrNotFound
	}
	if err != nil {
		return o, fmt.Errorf("read order %s: %w", id, err)
	}
	return o, nil
}
