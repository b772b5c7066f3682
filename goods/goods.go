// Package goods is the catalogue: what is sold, at what price, how many, and when.
//
// A sale is one item at one price with `total` units and a window. Its row in Postgres is the
// truth: column stock counts the units that are left, and only the statements in stock.go change
// it. What is read often is read through Cache. Every write has its check inside the statement.
package goods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// States of a sale as stored. What a buyer sees also depends on the clock and on the stock.
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

// NotStartedError has the time until the sale opens.
type NotStartedError struct{ In time.Duration }

func (e NotStartedError) Error() string { return fmt.Sprintf("goods: the sale opens in %v", e.In) }

// InvalidError names the field of a new sale that has an invalid value.
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
	Stock     int // at the time of the read; the gate's count is fresher
	State     string
	StartsAt  time.Time
	EndsAt    time.Time
}

// Window returns nil if the state and the window allow a purchase at the instant now. Otherwise it
// returns ErrPaused, ErrEnded or a NotStartedError; ErrNoSale for a draft.
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

// New returns a Store on db.
func New(db *pgxpool.Pool) *Store { return &Store{db: db} }

const saleColumns = `
	s.id, g.title, g.title_en, g.image, g.detail, g.detail_en, g.list_price,
	s.price, s.total, s.stock, s.state, s.starts_at, s.ends_at`

// live lists every sale that has not ended, soonest first, at most 1,000.
func (s *Store) live(ctx context.Context) ([]Sale, error) {
	rows, _ := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.state in ('published', 'paused') and s.ends_at > now()
		order  by s.starts_at, s.id
		limit  1000`)
	return collect(rows, "list live sales")
}

// between lists the sales whose window overlaps [from, to), even if they have ended, at most 1,000.
func (s *Store) between(ctx context.Context, from, to time.Time) ([]Sale, error) {
	rows, _ := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.state <> 'draft' and s.starts_at < $2 and s.ends_at > $1
		order  by s.starts_at, s.id
		limit  1000`, from, to)
	return collect(rows, "list a slot's sales")
}

// byID returns a list of one sale, or an empty list.
func (s *Store) byID(ctx context.Context, id int64) ([]Sale, error) {
	rows, _ := s.db.Query(ctx, `
		select`+saleColumns+`
		from   sales s join goods g on g.id = s.goods_id
		where  s.id = $1 and s.state <> 'draft'`, id)
	return collect(rows, "read a sale")
}

// lastID returns the newest sale's id, or 0 if there is no sale. A higher id needs no query.
func (s *Store) lastID(ctx context.Context) (id int64, err error) {
	if err = s.db.QueryRow(ctx, `select coalesce(max(id), 0) from sales`).Scan(&id); err != nil {
		return 0, fmt.Errorf("read the newest sale's id: %w", err)
	}
	return id, nil
}

func collect(rows pgx.Rows, doing string) ([]Sale, error) {
	sales, err := pgx.CollectRows(rows, pgx.RowToStructByName[Sale])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return sales, nil
}
