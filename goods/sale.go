package goods

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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

// Bounds of a sale. A price of less than ten million yuan fits into the 32 bits that payment providers count in, and
// the money for all units of a sale into an int64: StockMax * PriceMax is less than 2^61.
const (
	PriceMax = 999_999_999 // fen
	StockMax = math.MaxInt32
	// of all times of a sale, in UTC: another year is a slip of the finger, and a century is a time.Duration
	FirstYear = 2000
	LastYear  = 2099
)

// checkPrice returns an InvalidError for a price out of its range.
func checkPrice(field string, price int64) error {
	if price < 0 || price > PriceMax {
		return InvalidError{field, "range", fmt.Sprintf("must be 0 to %d (fen)", PriceMax)}
	}
	return nil
}

// CheckTime returns an InvalidError for a time that is not within the years of a sale.
func CheckTime(field string, at time.Time) error {
	if year := at.UTC().Year(); year < FirstYear || year > LastYear {
		return InvalidError{field, "range", fmt.Sprintf("must be within the years %d to %d", FirstYear, LastYear)}
	}
	return nil
}

// checkWindow returns an InvalidError for each time of a window that is invalid, joined.
func checkWindow(from, to time.Time) (err error) {
	if !to.After(from) {
		err = InvalidError{"end", "order", "must be after the start"}
	}
	return errors.Join(CheckTime("start", from), CheckTime("end", to), err)
}

// Validate returns an InvalidError for each invalid field, joined.
func (t Terms) Validate() (err error) {
	if t.Total < 1 || t.Total > StockMax {
		err = InvalidError{"stock", "range", fmt.Sprintf("must be 1 to %d", StockMax)}
	}
	return errors.Join(checkPrice("price", t.Price), err, checkWindow(t.StartsAt, t.EndsAt))
}

// Lengths of an item's texts, in characters.
const (
	TitleMax  = 120
	DetailMax = 400
)

// Validate returns an InvalidError for each invalid field, joined.
func (it Item) Validate() error {
	var wrong []error
	if strings.TrimSpace(it.Title) == "" {
		wrong = append(wrong, InvalidError{"title", "required", "must not be empty"})
	}
	for _, text := range []struct {
		field, text string
		most        int
	}{{"title", it.Title, TitleMax}, {"title-en", it.TitleEN, TitleMax}, {"detail", it.Detail, DetailMax}, {"detail-en",
		it.DetailEN, DetailMax}} {
		if utf8.RuneCountInString(text.text) > text.most {
			wrong = append(wrong, InvalidError{text.field, "length",
				fmt.Sprintf("must have at most %d characters", text.most)})
		}
	}
	return errors.Join(append(wrong, checkPrice("list-price", it.ListPrice))...)
}

// unknownImage returns the InvalidError of an image that is not known, or another error as it is. The writes put null
// in the place of an uploaded picture that the shop no longer has, which column image refuses.
func unknownImage(err error) error {
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.Code == "23502" && pg.ColumnName == "image" {
		return InvalidError{"image", "unknown", "the shop has no such picture"}
	}
	return err
}

// AddItem adds an item to the catalogue and returns its id.
func (s *Store) AddItem(ctx context.Context, tx pgx.Tx, it Item) (id int64, err error) {
	if err := it.Validate(); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		insert into goods (image, title, title_en, detail, detail_en, list_price, demo)
		values (case when $1::text like '/pictures/%' and not exists (select from pictures where name = substr($1, 11)) then null else $1 end,
		        $2, $3, $4, $5, $6, $7)
		returning id`,
		it.Image, it.Title, it.TitleEN, it.Detail, it.DetailEN, it.ListPrice, it.Demo).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("add an item: %w", unknownImage(err))
	}
	return id, nil
}

// EditItem changes an item, with all its sales. Orders that are placed keep their title. It returns ErrNoItem.
func (s *Store) EditItem(ctx context.Context, tx pgx.Tx, id int64, it Item) error {
	if err := it.Validate(); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		update goods set title = $2, title_en = $3, detail = $4, detail_en = $5, list_price = $6,
		       image = case when $1::text like '/pictures/%' and not exists (select from pictures where name = substr($1, 11)) then null else $1 end
		where  id = $7`, it.Image, it.Title, it.TitleEN, it.Detail, it.DetailEN, it.ListPrice, id)
	if err != nil {
		return fmt.Errorf("change item %d: %w", id, unknownImage(err))
	}
	if tag.RowsAffected() != 1 {
		return ErrNoItem
	}
	return nil
}

// Publish makes a sale of the item with id goodsID and returns the sale's id. Buyers see the sale
// at once. Reconcile creates its gate within half a second.
func (s *Store) Publish(ctx context.Context, tx pgx.Tx, goodsID int64, t Terms) (id int64, err error) {
	return s.AddSale(ctx, tx, goodsID, t, Published)
}

// AddSale is Publish for a sale that begins in the given state: Draft or Published.
func (s *Store) AddSale(ctx context.Context, tx pgx.Tx, goodsID int64, t Terms, state string) (id int64, err error) {
	if err := t.Validate(); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		insert into sales (goods_id, price, total, stock, state, starts_at, ends_at)
		values ($1, $2, $3::integer, $3, $4, $5, $6)
		returning id`, goodsID, t.Price, t.Total, state, t.StartsAt, t.EndsAt).Scan(&id)
	if pg := new(pgconn.PgError); errors.As(err, &pg) && pg.ConstraintName == "sales_goods_id_fkey" {
		return 0, InvalidError{"goods", "unknown", "product not found"}
	}
	if err != nil {
		return 0, fmt.Errorf("add a sale: %w", err)
	}
	return id, nil
}

// Sell adds an item and publishes one sale of it, in one transaction. It returns the sale's id.
func (s *Store) Sell(ctx context.Context, it Item, t Terms) (id int64, err error) {
	return s.add(ctx, it, t, Published)
}

// Draft is Sell for a sale that no buyer sees before PublishDraft.
func (s *Store) Draft(ctx context.Context, it Item, t Terms) (id int64, err error) {
	return s.add(ctx, it, t, Draft)
}

func (s *Store) add(ctx context.Context, it Item, t Terms, state string) (id int64, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		goodsID, err := s.AddItem(ctx, tx, it)
		if err != nil {
			return err
		}
		id, err = s.AddSale(ctx, tx, goodsID, t, state)
		return err
	})
	return id, err
}

// Listed is a sale as its operator sees it.
type Listed struct {
	ID       int64     `json:"id"`
	Title    string    `json:"title"`
	State    string    `json:"state"`
	StartsAt time.Time `json:"starts_at"`
	EndsAt   time.Time `json:"ends_at"`
	Total    int       `json:"total"`
	Stock    int       `json:"left"`
	Pending  int       `json:"pending"` // orders
	Paid     int       `json:"paid"`
}

// List returns every sale that has not ended a day ago, also drafts and closed ones, soonest first, at most 1,000.
func (s *Store) List(ctx context.Context) ([]Listed, error) {
	rows, _ := s.db.Query(ctx, `
		with page as materialized (select * from sales where ends_at > now() - interval '1 day' order by starts_at, id limit 1000)
		select s.id, g.title, s.state, s.starts_at, s.ends_at, s.total, s.stock, coalesce(o.pending, 0) as pending, coalesce(o.paid, 0) as paid
		from   page s join goods g on g.id = s.goods_id
		left   join (select sale_id, count(*) filter (where status = 'pending') as pending, count(*) filter (where status = 'paid') as paid
		             from   orders
		             where  sale_id = any(array(select id from page)) -- all at once: one by one each could read the whole table
		             group  by sale_id) o on o.sale_id = s.id
		order  by s.starts_at, s.id`)
	sales, err := pgx.CollectRows(rows, pgx.RowToStructByName[Listed])
	if err != nil {
		return nil, fmt.Errorf("list the sales: %w", err)
	}
	return sales, nil
}
