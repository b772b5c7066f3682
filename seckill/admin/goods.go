package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

// Item is an entry of the catalogue as the staff sees it.
type Item struct {
	ID        int64     `json:"id"`
	Title     string    `json:"title"`
	TitleEN   string    `json:"title_en"`
	Image     string    `json:"image"` // as it is stored: goods/kettle.svg, or /pictures/...
	Detail    string    `json:"detail"`
	DetailEN  string    `json:"detail_en"`
	ListPrice int64     `json:"list_price"` // fen
	Sales     int       `json:"sales"`      // drafts too
	CreatedAt time.Time `json:"created_at"`
}

const itemColumns = `
	g.id, g.title, g.title_en, g.image, g.detail, g.detail_en, g.list_price,
	(select count(*) from sales where goods_id = g.id) as sales, g.created_at`

// itemPage is the number of items in one page.
const itemPage = 25

// Goods returns a page of the catalogue, newest first, and the cursor of the next page, 0 after the last one. cursor is
// the id before which the page begins, or 0.
func (s *Store) Goods(ctx context.Context, cursor int64) (items []Item, next int64, err error) {
	rows, _ := s.db.Query(ctx, `
		select`+itemColumns+` from goods g where $1::bigint = 0 or g.id < $1 order by g.id desc limit $2`, cursor, itemPage+1)
	items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Item])
	if err != nil {
		return nil, 0, fmt.Errorf("list the goods: %w", err)
	}
	if len(items) > itemPage {
		items = items[:itemPage]
		next = items[itemPage-1].ID
	}
	return items, next, nil
}

// Item returns one entry, or goods.ErrNoItem.
func (s *Store) Item(ctx context.Context, id int64) (Item, error) { return readItem(ctx, s.db, id, "") }

// AddItem adds an item to the catalogue and returns its id.
func (s *Store) AddItem(ctx context.Context, by By, it goods.Item) (id int64, err error) {
	a := &action{name: "goods.create", result: &id}
	err = s.act(ctx, by, a, func(tx pgx.Tx) error {
		if id, err = goods.New(tx).AddItem(ctx, tx, it); err != nil {
			return err
		}
		a.subject = fmt.Sprintf("goods %d", id)
		a.after, err = readItem(ctx, tx, id, "")
		return err
	})
	return id, err
}

// EditItem changes an item. It returns goods.ErrNoItem.
func (s *Store) EditItem(ctx context.Context, by By, id int64, it goods.Item) error {
	a := &action{name: "goods.edit", subject: fmt.Sprintf("goods %d", id)}
	return s.act(ctx, by, a, func(tx pgx.Tx) (err error) {
		if a.before, err = readItem(ctx, tx, id, "for no key update"); err != nil {
			return err
		}
		if err = goods.New(tx).EditItem(ctx, tx, id, it); err != nil {
			return err
		}
		a.after, err = readItem(ctx, tx, id, "")
		return err
	})
}

func readItem(ctx context.Context, db goods.DB, id int64, lock string) (Item, error) {
	rows, _ := db.Query(ctx, `select`+itemColumns+` from goods g where g.id = $1 `+lock, id)
	it, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Item])
	if errors.Is(err, pgx.ErrNoRows) {
		return it, goods.ErrNoItem
	}
	if err != nil {
		return it, fmt.Errorf("read item %d: %w", id, err)
	}
	return it, nil
}
