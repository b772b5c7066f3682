// Package goods is the catalogue: what is sold, at what price, how many, and when.
//
// A sale is one item at one price with `total` units and a window. Its row in Postgres is the truth: column stock is
// what is still to be had, and the statements in stock.go are the only ones that touch it. Everything here that is
// read often is read through Cache; everything that is written is written with its check inside the statement.
package goods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// States of a sale as stored. What a buyer sees also depends on the clock and on what is left.
const (
	Draft     = "draft"
	Published = "published"
	Paused    = "paused"
	Closed    = "closed"
)

// Refusals. NotStartedError carries the wait.
var (
	ErrNoSale  = errors.New("goods: no such sale")
	ErrPaused  = errors.New("goods: the sale is paused")
	ErrEnded   = errors.New("goods: the sale has ended")
	ErrSoldOut = errors.New("goods: sold out")
)

// NotStartedError says how long it is until the sale opens.
type NotStartedError struct{ In time.Duration }

func (e NotStartedError) Error() string { return fmt.Sprintf("goods: the sale opens in %v", e.In) }

// InvalidError names the field of a new sale that can't be.
type InvalidError struct{ Field, Reason string }

func (e InvalidError) Error() string { return e.Field + ": " + e.Reason }

// Sale is one item on sale, as the catalogue shows it. Prices in fen.
type Sale struct {
	ID        int64
	Title     string
	TitleEN   string // "" where there is none
	Image     string // a path below web/static, or an absolute one
	Detail    string
	DetailEN  string
	ListPrice int64
	Price     int64
	Total     int
	Stock     int // as of the read; the gate's count is fresher
	State     string
	StartsAt  time.Time
	EndsAt    time.Time
}

// Window tells whether a purchase is possible at the instant now as far as the state and the clock go: nil,
// ErrPaused, ErrEnded or a NotStartedError. A draft is ErrNoSale.
func (s Sale) Window(now time.Time) error { return window(s.State, s.StartsAt, s.EndsAt, now) }

func window(state string, starts, ends, now time.Time) error {
	switch {
	case state == Draft:
		return ErrNoSale
	case state == Closed || !now.Before(ends):
		return ErrEnded
	case now.Before(starts):
		return NotStartedError{In: starts.Sub(now)}
	case state == Paused:
		return ErrPaused
	}
	return nil
}

// Store reads and writes the catalogue in Postgres.
type Store struct{ db *pgxpool.Pool }

// New gives a Store on db.
func New(db *pgxpool.Pool) *Store { return &Store{db: db} }

const saleColumns = `
	s.id, g.title, g.title_en, g.image, g.detail, g.detail_en, g.list_price,
	s.price, s.total, s.stock, s.state, s.starts_at, s.ends_at`

// live lists every sale that has not ended, soonest first, at most 1,000.
func (s *Store) live(ctx context.Context) ([]Sale, error) {
	rows, err := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.state in ('published', 'paused') and s.ends_at > now()
		order  by s.starts_at, s.id
		limit  1000`)
	return collect(rows, err, "list live sales")
}

// between lists the sales whose window meets [from, to), ended ones too, at most 1,000.
func (s *Store) between(ctx context.Context, from, to time.Time) ([]Sale, error) {
	rows, err := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.state <> 'draft' and s.starts_at < $2 and s.ends_at > $1
		order  by s.starts_at, s.id
		limit  1000`, from, to)
	return collect(rows, err, "list a slot's sales")
}

func (s *Store) byID(ctx context.Context, id int64) ([]Sale, error) {
	rows, err := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.id = $1 and s.state <> 'draft'`, id)
	return collect(rows, err, "read a sale")
}

// lastID is the newest sale's id, 0 without any: who asks for a later one need not ask the table.
func (s *Store) lastID(ctx context.Context) (id int64, err error) {
	if err = s.db.QueryRow(ctx, `select coalesce(max(id), 0) from sales`).Scan(&id); err != nil {
		return 0, fmt.Errorf("read the newest sale's id: %w", err)
	}
	return id, nil
}

func collect(rows pgx.Rows, err error, doing string) ([]Sale, error) {
	if err == nil {
		var sales []Sale
		if sales, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Sale]); err == nil {
			return sales, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", doing, err)
}
