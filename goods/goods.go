// Package goods is the catalogue: what is sold, at what price, how many, and when.
//
// A sale is one item at one price with `total` units and a window. Its row in Postgres is the
// truth: column stock counts the units that are left, and only the statements in stock.go change
// it. What is read often is read through Cache. Every write has its check inside the statement.
// The states of a sale, and what moves it from one to the next, are in change.go.
package goods

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	ErrNoSale  = errors.New("sale not found")
	ErrNoItem  = errors.New("product not found")
	ErrPaused  = errors.New("the sale is paused")
	ErrEnded   = errors.New("the sale has ended")
	ErrSoldOut = errors.New("sold out")
)

// NotStartedError has the time until the sale opens.
type NotStartedError struct{ In time.Duration }

func (e NotStartedError) Error() string { return fmt.Sprintf("the sale opens in %v", e.In) }

// TransitionError refuses a change that is not possible in a sale's state.
type TransitionError struct {
	Do     string // the change, in English: publish
	Reason string // a word: a state, or ended, open, past, soon, shown, units
	Left   int    // the unsold units, if the reason is units
}

// whyNot are the reasons of a TransitionError in English.
var whyNot = map[string]string{
	Draft: "it is a draft", Published: "it is published", Paused: "it is paused", Closed: "it is closed",
	"ended": "it has ended",
	"open":  "it is open, or opens within three seconds, so its start stays",
	"past":  "the end has to be in the future; close the sale to end it now",
	"soon":  "it opens in less than a minute, or has opened, so its price stays",
	"shown": "its price has just changed, so it opens at the earliest a minute after that",
}

// Why returns the reason in English.
func (e TransitionError) Why() string {
	if e.Reason == "units" {
		return fmt.Sprintf("%d of its units are unsold, and it has 1 to 2147483647 in all", e.Left)
	}
	return whyNot[e.Reason]
}

func (e TransitionError) Error() string { return "cannot " + e.Do + " this sale: " + e.Why() }

// InvalidError names a field of an item or a sale that has an invalid value.
type InvalidError struct {
	Field  string // as the commands call it: list-price
	Reason string // a word: required, range, length, order, form, unknown
	Text   string // the reason in English
}

func (e InvalidError) Error() string { return e.Field + ": " + e.Text }

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
type Store struct{ db DB }

// DB is a pool of connections; or a transaction, of which each change then is a part.
type DB interface {
	Begin(context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// New returns a Store on db.
func New(db DB) *Store { return &Store{db: Steady(db)} }

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
