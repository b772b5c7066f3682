package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/lab"
)

// Happening is one thing that happened in a shop without one of its defences.
type Happening struct {
	Name    string `json:"name"`    // see happenings
	Refused string `json:"refused"` // the constraint or trigger that refused it, "" if none did
}

// WithoutResult is what happened in a shop without one of its defences, and what the audit found in the end.
type WithoutResult struct {
	Without    string       `json:"without"` // "" for a shop with all of them
	Orders     int          `json:"orders"`  // that the crowd bought
	Happenings []Happening  `json:"happenings"`
	Broken     []lab.Broken `json:"broken"` // none: every invariant of the rows holds
}

// sweeper is the one background part among the defences. It cancels orders whose time to pay is over.
const sweeper = "sweeper"

// defences lists what can be left out, with the statement that does it. Only the schema of the run has
// it missing. No code of the shop knows of it: what is left out is a row of the catalogue, or a part
// that is not started.
var defences = []struct{ name, drop string }{
	{"one_order_per_user_and_sale", `alter table orders drop constraint one_order_per_user_and_sale`},
	{"one_order_per_ticket", `alter table orders drop constraint one_order_per_ticket`},
	{"stock_within_total", `alter table sales drop constraint stock_within_total`},
	{"orders_begin_as_pending", `drop trigger orders_begin_as_pending on orders`},
	{"orders_updated", `drop trigger orders_updated on orders`},
	{"sales_changed", `drop trigger sales_changed on sales`},
	{sweeper, ``},
}

// Defences returns the names of what RunWithout can leave out.
func Defences() []string {
	names := make([]string, len(defences))
	for i, d := range defences {
		names[i] = d.name
	}
	return names
}

const (
	withoutBuyers = 30
	withoutUnits  = 40 // some are left for what happens after the crowd
)

// RunWithout sells with the shop's own engine in a schema in which one defence is missing, lets the same things happen
// as with all of them, and asks the audit of s. without is a name of Defences, or "" for none. InvalidError for another
// name.
func RunWithout(ctx context.Context, s lab.Stores, without string) (r WithoutResult, err error) {
	r = WithoutResult{Without: without, Happenings: []Happening{}, Broken: []lab.Broken{}}
	drop := ""
	if without != "" {
		known := false
		for _, d := range defences {
			if d.name == without {
				drop, known = d.drop, true
			}
		}
		if !known {
			return r, lab.InvalidError{Field: "without", Reason: fmt.Sprintf("there is no %q", without)}
		}
	}
	e, err := openEngine(ctx, s, withoutUnits)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.close(ctx)) }()
	if drop != "" {
		if _, err := e.db.Exec(ctx, drop); err != nil {
			return r, fmt.Errorf("leave out %s: %w", without, err)
		}
	}
	if err := e.sellToAll(ctx, withoutBuyers); err != nil {
		return r, err
	}
	if err := e.db.QueryRow(ctx, `select count(*) from orders`).Scan(&r.Orders); err != nil {
		return r, err
	}
	orders := order.New(e.db, order.Config{PayWithin: time.Minute})
	for _, h := range happenings {
		if h.name == overdue && without == sweeper {
			h.do = func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
				return timePasses(ctx, db, sale)
			}
		}
		err := h.do(ctx, e.db, orders, e.Number)
		refusedBy := new(pgconn.PgError)
		if err != nil && (!errors.As(err, &refusedBy) || refusedBy.ConstraintName == "") {
			return r, fmt.Errorf("%s: %w", h.name, err)
		}
		r.Happenings = append(r.Happenings, Happening{h.name, refusedBy.ConstraintName})
	}
	found, err := s.Audit(ctx, e.db)
	r.Broken = append(r.Broken, found...)
	return r, err
}

// sellToAll lets buyers 1 to n click at once, and waits for their orders.
func (e engine) sellToAll(ctx context.Context, n int) error {
	var all errgroup.Group
	for user := int64(1); user <= int64(n); user++ {
		all.Go(func() error {
			err := lab.Retry(ctx, seckill.ErrBusy, func() error { _, err := e.Buy(ctx, e.Number, user); return err })
			for err == nil && ctx.Err() == nil {
				var status seckill.Status
				if err = lab.Retry(ctx, seckill.ErrBusy, func() (err error) {
					status,
						err = e.Result(ctx, e.Number, user)
					return err
				}); status.State == seckill.Ordered {
					return nil
				}
				lab.Pause(ctx, lab.RetryPause)
			}
			return errors.Join(err, ctx.Err())
		})
	}
	return all.Wait()
}

const overdue = "overdue"

// happenings follow the sale, in this order. Each is what one of the defences is there for: something that the shop
// itself never does, but a script, a person at psql or the next version of the shop may.
var happenings = []struct {
	name string
	do   func(ctx context.Context, db *pgxpool.Pool, orders *order.Store, sale int64) error
}{
	{"second order", func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
		return insertByHand(ctx, db, sale, 1, "by hand", `pending`)
	}},
	{"ticket again", func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
		var ticket string
		if err := db.QueryRow(ctx, `select ticket from orders where user_id = 2 and sale_id = $1`, sale).Scan(&ticket); err != nil {
			return err
		}
		return insertByHand(ctx, db, sale, 1001, ticket, `pending`)
	}},
	{"paid order", func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
		return insertByHand(ctx, db, sale, 1002, "by hand, paid", `paid`)
	}},
	{"cancelled order", func(ctx context.Context, db *pgxpool.Pool, orders *order.Store, sale int64) error {
		id, err := orderOf(ctx, db, sale, 3)
		if err != nil {
			return err
		}
		return orders.Cancel(ctx, 3, id)
	}},
	{overdue, func(ctx context.Context, db *pgxpool.Pool, orders *order.Store, sale int64) error {
		err := timePasses(ctx, db, sale)
		if err == nil {
			_, err = orders.Expire(ctx)
		}
		return err
	}},
	{"postponed sale", func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
		_, err := db.Exec(ctx, `update sales set starts_at = now() + interval '10 minutes' where id = $1`, sale)
		return err
	}},
	{"big order", func(ctx context.Context, db *pgxpool.Pool, _ *order.Store, sale int64) error {
		_, err := db.Exec(ctx, `update sales set stock = stock - 100 where id = $1`, sale)
		return err
	}},
}

// insertByHand writes an order and takes its unit, as a script does that is no part of the shop.
func insertByHand(ctx context.Context, db *pgxpool.Pool, sale, user int64, ticket, status string) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			insert into orders (id, user_id, sale_id, ticket, title, price, status, expires_at, paid_at)
			select gen_random_uuid(), $2, id, $3, 'lab', price, $4, now() + interval '1 minute', case when $4 = 'paid' then now() end
			from   sales
			where  id = $1`, sale, user, ticket, status)
		if err == nil {
			_, err = tx.Exec(ctx, `update sales set stock = stock - 1 where id = $1 and stock > 0`, sale)
		}
		return err
	})
}

// timePasses lets the time to pay of buyer 4 be over for a minute.
func timePasses(ctx context.Context, db *pgxpool.Pool, sale int64) error {
	_, err := db.Exec(ctx, `update orders set expires_at = now() - interval '1 minute' where user_id = 4 and sale_id = $1`, sale)
	return err
}

func orderOf(ctx context.Context, db *pgxpool.Pool, sale, user int64) (id uuid.UUID, err error) {
	err = db.QueryRow(ctx, `select id from orders where user_id = $2 and sale_id = $1`, sale, user).Scan(&id)
	return id, err
}
