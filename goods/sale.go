package goods

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// Item is an entry of the catalogue. The list price is compared with the price of a sale.
type Item struct {
	Title     string
	TitleEN   string
	Image     string
	Detail    string
	DetailEN  string
	ListPrice int64 // fen
	Demo      bool  // made by the sandbox, which publishes a new sale of it when the old one ends
}

// Terms are the price, the amount and the window of a sale.
type Terms struct {
	Price    int64 // fen
	Total    int
	StartsAt time.Time
	EndsAt   time.Time
}

// Validate returns an InvalidError that names the first invalid field.
func (t Terms) Validate() error {
	switch {
	case t.Price < 0:
		return InvalidError{"price", "must not be negative"}
	case t.Total <= 0:
		return InvalidError{"stock", "must be at least 1"}
	case t.Total > math.MaxInt32:
		return InvalidError{"stock", "must be at most 2147483647"}
	case !t.EndsAt.After(t.StartsAt):
		return InvalidError{"end", "must be after the start"}
	}
	return nil
}

// AddItem adds an item to the catalogue and returns its id.
func (s *Store) AddItem(ctx context.Context, tx pgx.Tx, it Item) (id int64, err error) {
	if it.Title == "" {
		return 0, InvalidError{"title", "must not be empty"}
	}
	if it.ListPrice < 0 {
		return 0, InvalidError{"list-price", "must not be negative"}
	}
	err = tx.QueryRow(ctx, `
		insert into goods (title, title_en, image, detail, detail_en, list_price, demo)
		values ($1, $2, $3, $4, $5, $6, $7)
		returning id`,
		it.Title, it.TitleEN, it.Image, it.Detail, it.DetailEN, it.ListPrice, it.Demo).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("add an item: %w", err)
	}
	return id, nil
}

// Publish makes a sale of the item with id goodsID and returns the sale's id. Buyers see the sale
// at once. Reconcile creates its gate within half a second.
func (s *Store) Publish(ctx context.Context, tx pgx.Tx, goodsID int64, t Terms) (id int64, err error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		insert into sales (goods_id, price, total, stock, state, starts_at, ends_at)
		values ($1, $2, $3, $3, 'published', $4, $5)
		returning id`, goodsID, t.Price, t.Total, t.StartsAt, t.EndsAt).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("publish a sale: %w", err)
	}
	return id, nil
}

// Sell adds an item and publishes one sale of it, in one transaction. It returns the sale's id.
func (s *Store) Sell(ctx context.Context, it Item, t Terms) (id int64, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		goodsID, err := s.AddItem(ctx, tx, it)
		if err != nil {
			return err
		}
		id, err = s.Publish(ctx, tx, goodsID, t)
		return err
	})
	return id, err
}
