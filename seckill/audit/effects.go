package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrInUse reports that a shop uses the database, on which no effect is tried.
var ErrInUse = errors.New(
	"a shop uses this database: try it on a copy, restored beside it (deploy/README.md, Dump and restore)")

// The sale and the orders that Effects makes. No other transaction sees them: its own is rolled back. The orders are of
// the users 1, 2 and 3; the first two are pending, the third is paid.
const effectsOf = `
	create temporary table tried on commit drop as
	with item as (insert into goods (title) values ('tried by an audit') returning id), made as (
	     insert into sales (goods_id, price, total, stock, starts_at, ends_at)
	     select id, 100, 5, 2, now() - interval '1 hour', now() + interval '1 hour' from item returning id, epoch)
	select id as sale, epoch, gen_random_uuid() as a, gen_random_uuid() as b, gen_random_uuid() as c from made;
	insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
	select o.id, o.of_user, sale, 'tried ' || o.id, '', 100, now() + interval '1 hour'
	from   tried, unnest(array[a, b, c], array[1, 2, 3]) o (id, of_user);
	insert into payments (id, order_id, amount, status, provider_ref) select c, c, 100, 'captured', 'tried ' || c from tried;
	update orders set status = 'paid', paid_at = now() from tried where id = c`

// forbidden are statements that the database must refuse: with a unique violation, or with the violation of a check,
// which the triggers raise too.
var forbidden = []query{
	{"I1", "the database lets the stock of a sale fall below zero", `update sales set stock = -1 from tried where id = sale`},
	{"I1", "the database lets a sale have more units than its total", `update sales set stock = total + 1 from tried where id = sale`},
	{"I2", "the database gives a user two orders in a sale", `
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) select gen_random_uuid(), 1, sale, 'tried again', '', 100, now() from tried`},
	{"I2", "the database gives a ticket two orders", `
		insert into orders (id, user_id, sale_id, ticket, title, price, expires_at) select gen_random_uuid(), 4, sale, 'tried ' || a, '', 100, now() from tried`},
	{"I3", "the database gives a ticket two results", `
		insert into ticket_results (ticket, user_id, sale_id, outcome) select 'tried', n, sale, 'sold_out' from tried, generate_series(4, 5) n`},
	{"I7", "the database lets two payments of an order be captured", `
		insert into payments (id, order_id, amount, status, provider_ref) select gen_random_uuid(), c, 100, 'captured', 'tried twice' from tried`},
	{"I7", "the database lets one reference be that of two payments", `
		insert into payments (id, order_id, amount, status, provider_ref) select gen_random_uuid(), a, 100, 'captured', 'tried ' || c from tried`},
	{"I8", "the database lets an order begin as paid", `
		insert into orders (id, user_id, sale_id, ticket, title, price, status, paid_at, expires_at) select gen_random_uuid(), 4, sale, 'tried paid', '', 100, 'paid', now(), now() from tried`},
	{"I8", "the database lets a paid order be pending again", `update orders set status = 'pending' from tried where id = c`},
	{"I8", "the database lets a paid order be cancelled", `update orders set status = 'cancelled' from tried where id = c`},
	{"I8", "the database lets the history of an order be changed", `update order_events set to_status = 'pending' from tried where order_id = c`},
	{"I8", "the database lets the history of an order be deleted", `delete from order_events using tried where order_id = c`},
}

// caused are changes with an effect, and a query that selects a row if the effect is missing.
var caused = []struct{ change, missing query }{
	{query{sql: `update sales set state = 'published' from tried where id = sale`}, query{"I9", "a change of a sale takes no new epoch", `
		select s.id as sale from sales s join tried on s.id = sale where s.epoch = tried.epoch`}},
	{query{sql: `update orders set status = 'cancelled' from tried where id = b`}, query{"I8", "a change of an order is not in its history", `
		select b as "order" from tried where not exists (select from order_events where order_id = b and to_status = 'cancelled')`}},
}

// Effects tries whether the database refuses what it must refuse, and does what it must do, whatever its definitions
// look like. All is rolled back. It takes locks and numbers of sequences, so it is for a copy: ErrInUse if a shop is
// connected. The role has to own the tables.
func Effects(ctx context.Context, db *pgxpool.Pool) (found []Finding, err error) {
	if err := inUse(ctx, db); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, effectsOf); err != nil {
			return fmt.Errorf("make a sale to try: %w", err)
		}
		for _, f := range forbidden {
			allowed, err := tries(ctx, tx, f.sql)
			if err != nil {
				return fmt.Errorf("try whether %s: %w", f.meaning, err)
			}
			if allowed {
				found = append(found, Finding{f.invariant, f.meaning, nil})
			}
		}
		for _, c := range caused {
			if _, err := tx.Exec(ctx, c.change.sql); err != nil {
				return fmt.Errorf("try whether %s: %w", c.missing.meaning, err)
			}
			missing, err := runQueries(ctx, tx, []query{c.missing})
			if err != nil {
				return err
			}
			found = append(found, missing...)
		}
		return errRollback
	})
	if !errors.Is(err, errRollback) {
		return nil, fmt.Errorf("try the effects of the schema: %w", err)
	}
	return found, nil
}

var errRollback = errors.New("tried")

// tries reports whether Postgres allows a statement, which is undone.
func tries(ctx context.Context, tx pgx.Tx, sql string) (allowed bool, err error) {
	err = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
		tag, err := inner.Exec(ctx, sql)
		if err == nil && tag.RowsAffected() > 0 {
			err = errRollback
		}
		return err
	})
	pg := new(pgconn.PgError)
	switch {
	case errors.Is(err, errRollback):
		return true, nil
	case errors.As(err, &pg) && (pg.Code == "23505" || pg.Code == "23514"):
		return false, nil
	}
	return false, err // nil if it found no row to change: the missing row is a finding of its own
}

// inUse returns ErrInUse if another process of a shop is connected to the database.
func inUse(ctx context.Context, db *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	own := []int32{}
	for _, conn := range db.AcquireAllIdle(ctx) {
		own = append(own, int32(conn.Conn().PgConn().PID()))
		conn.Release()
	}
	var others int
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			select count(*) from pg_stat_activity
			where  datname = current_database() and application_name = 'miaosha' and pid <> pg_backend_pid() and not pid = any ($1)`, own).Scan(&others)
	})
	switch {
	case err != nil:
		return fmt.Errorf("look for a shop: %w", err)
	case others > 0:
		return ErrInUse
	}
	return nil
}
