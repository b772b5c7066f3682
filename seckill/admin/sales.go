package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
)

// Sale is a sale as the staff sees it, also a draft.
type Sale struct {
	ID        int64     `json:"id"`
	GoodsID   int64     `json:"goods_id"`
	Title     string    `json:"title"`
	TitleEN   string    `json:"title_en"`
	Image     string    `json:"image"`      // as it is stored: goods/kettle.svg, or /pictures/...
	Price     int64     `json:"price"`      // fen
	ListPrice int64     `json:"list_price"` // fen
	State     string    `json:"state"`      // draft, published, paused, closed
	StartsAt  time.Time `json:"start_at"`
	EndsAt    time.Time `json:"end_at"`
	Total     int       `json:"total"`
	Left      int       `json:"left"`
	Pending   int       `json:"pending"` // orders
	Paid      int       `json:"paid"`
	CreatedAt time.Time `json:"created_at"`
}

// saleQuery returns the query of the sales that a condition selects, newest first. The pending orders of all of them
// are counted together: for each sale alone Postgres may read the whole table. A unit that is neither left nor pending
// is paid.
func saleQuery(condition string) string {
	return `
		with page as materialized (select * from sales s where ` + condition + `)
		select s.id, s.goods_id, g.title, g.title_en, g.image, s.price, g.list_price, s.state, s.starts_at, s.ends_at, s.total, s.stock,
		       coalesce(o.pending, 0) as pending, s.total - s.stock - coalesce(o.pending, 0) as paid, s.created_at
		from   page s join goods g on g.id = s.goods_id
		left   join (select sale_id, count(*) as pending
		             from   orders
		             where  status = 'pending' and sale_id = any(array(select id from page))
		             group  by sale_id) o on o.sale_id = s.id
		order  by s.id desc`
}

var (
	pageOfSales = saleQuery(`
		      ($1 = '' or s.state = $1)
		and   ($2::bigint = 0 or s.goods_id = $2)
		and   ($3::bigint = 0 or s.id < $3)
		order  by s.id desc
		limit  $4`)
	oneSale = saleQuery(`s.id = $1`)
)

// SaleFilter selects sales. A zero field selects all.
type SaleFilter struct {
	State   string
	GoodsID int64
	Cursor  int64 // sales before this id
}

// salePage is the number of sales in one page.
const salePage = 25

// Sales returns a page of sales, newest first, and the cursor of the next page, 0 after the last one.
func (s *Store) Sales(ctx context.Context, f SaleFilter) (sales []Sale, next int64, err error) {
	rows, _ := s.db.Query(ctx, pageOfSales, f.State, f.GoodsID, f.Cursor, salePage+1)
	sales, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Sale])
	if err != nil {
		return nil, 0, fmt.Errorf("list the sales: %w", err)
	}
	if len(sales) > salePage {
		sales = sales[:salePage]
		next = sales[salePage-1].ID
	}
	return sales, next, nil
}

// Sale returns one sale, or goods.ErrNoSale.
func (s *Store) Sale(ctx context.Context, id int64) (Sale, error) {
	rows, _ := s.db.Query(ctx, oneSale, id)
	sale, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Sale])
	if errors.Is(err, pgx.ErrNoRows) {
		return sale, goods.ErrNoSale
	}
	if err != nil {
		return sale, fmt.Errorf("read sale %d: %w", id, err)
	}
	return sale, nil
}

// NewSale is a sale to add: of the goods with an id, or of a new item if the id is 0.
type NewSale struct {
	GoodsID int64
	Item    goods.Item
	Terms   goods.Terms
	State   string // goods.Draft or goods.Published
}

// AddSale adds a sale and returns its id. Its errors are those of goods.Store.AddItem and AddSale.
func (s *Store) AddSale(ctx context.Context, by By, sale NewSale) (id int64, err error) {
	a := &action{name: "sale.create", result: &id}
	err = s.act(ctx, by, a, func(tx pgx.Tx) error {
		store, item := goods.New(tx), sale.GoodsID
		if item == 0 {
			if item, err = store.AddItem(ctx, tx, sale.Item); err != nil {
				return err
			}
		}
		if id, err = store.AddSale(ctx, tx, item, sale.Terms, sale.State); err != nil {
			return err
		}
		a.subject = saleSubject(id)
		a.after, err = readSale(ctx, tx, id)
		return err
	})
	return id, err
}

func saleSubject(id int64) string { return fmt.Sprintf("sale %d", id) }

// PublishDraft, Pause, Resume and Close are those of goods.Store, with a line in the log.
func (s *Store) PublishDraft(ctx context.Context, by By, id int64) (epoch int64, err error) {
	return s.ChangeSale(ctx, by, "publish", id, (*goods.Store).PublishDraft)
}

func (s *Store) Pause(ctx context.Context, by By, id int64) (epoch int64, err error) {
	return s.ChangeSale(ctx, by, "pause", id, (*goods.Store).Pause)
}

func (s *Store) Resume(ctx context.Context, by By, id int64) (epoch int64, err error) {
	return s.ChangeSale(ctx, by, "resume", id, (*goods.Store).Resume)
}

func (s *Store) Close(ctx context.Context, by By, id int64) (epoch int64, err error) {
	return s.ChangeSale(ctx, by, "close", id, (*goods.Store).Close)
}

// A SaleChange is a change of a sale that goods.Store makes. It returns the epoch that the sale's gate has to follow.
type SaleChange = func(*goods.Store, context.Context, int64) (epoch int64, err error)

// ChangeSale makes one change of a sale and writes its line in the log: sale.<do>.
func (s *Store) ChangeSale(
	ctx context.Context, by By, do string, id int64, change SaleChange,
) (epoch int64, err error) {
	a := &action{name: "sale." + do, subject: saleSubject(id), result: &epoch}
	err = s.actOnSale(ctx, by, a, id, func(tx pgx.Tx) (err error) {
		epoch, err = changeSale(ctx, tx, a, id, change)
		return err
	})
	return epoch, err
}

// changeSale makes one change of a sale. Its row is locked before it is read, so the log's two states have nothing in
// between.
func changeSale(ctx context.Context, tx pgx.Tx, a *action, id int64, change SaleChange) (epoch int64, err error) {
	if _, err = goods.Lock(ctx, tx, id); err != nil {
		return 0, err
	}
	if a.before, err = readSale(ctx, tx, id); err != nil {
		return 0, err
	}
	if epoch, err = change(goods.New(tx), ctx, id); err != nil {
		return 0, err
	}
	a.after, err = readSale(ctx, tx, id)
	return epoch, err
}

// saleNow is a sale as the log shows it before and after a change.
type saleNow struct {
	GoodsID  int64     `json:"goods_id"`
	State    string    `json:"state"`
	Price    int64     `json:"price"` // fen
	Total    int       `json:"total"`
	Left     int       `json:"left"`
	StartsAt time.Time `json:"start_at"`
	EndsAt   time.Time `json:"end_at"`
}

func readSale(ctx context.Context, tx pgx.Tx, id int64) (saleNow, error) {
	rows, _ := tx.Query(ctx, `select goods_id, state, price, total, stock, starts_at, ends_at from sales where id = $1`, id)
	sale, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[saleNow])
	if err != nil {
		return sale, fmt.Errorf("read sale %d: %w", id, err)
	}
	return sale, nil
}
