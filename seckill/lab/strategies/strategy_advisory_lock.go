package strategies

import (
	"context"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// advisoryLock is forUpdate with a lock on a number instead of a row. Postgres keeps the lock, and
// the program decides what the number means.
//
// Right, on any number of nodes, if every program that changes this stock takes the same lock first.
// The database does not check that: one forgotten place in the code, or one person at a psql prompt,
// bypasses the lock. Take the lock of the transaction (..._xact_...), which ends with the commit. A
// lock that is released before the commit lets the next buyer read the old stock.
//
// Its price is that of forUpdate: all buyers wait in line, each with a connection.
//
// In the field: for work that has no row, such as "one process at a time applies the schema". The
// shop uses it for that (package backend), and this lab to know whether a run is alive. Stock has a
// row; lock the row.
type advisoryLock struct{ *lab.Node }

func (s advisoryLock) Buy(ctx context.Context, user int64) (yes bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		//lab:here
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, -s.Number); err != nil {
			return err
		}
		//lab:end
		var stock int
		if err := tx.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = hasOrder(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.LookUpPrice(ctx, user)
		if _, err := tx.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
			return err
		}
		yes = true
		_, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
