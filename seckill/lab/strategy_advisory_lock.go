package lab

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// advisoryLock is forUpdate with a lock that belongs to a number and not to a row: Postgres keeps it, the program says what
// it means.
//
// Right, on any number of nodes, as long as everybody who touches this stock takes the same lock first. The database does not
// see to that: one forgotten place, or one person at a psql prompt, goes past it. The lock has to be the transaction's
// (..._xact_...), which is released with the commit; one that is released before it lets the next one read the old stock.
//
// Its price is that of forUpdate: everybody in line, each with a connection.
//
// In the field: for work that has no row, such as "one process at a time applies the schema", which is what the shop uses
// it for (backend); and this lab knows by one whether a run is alive. For stock there is a row; lock that.
type advisoryLock struct{ *node }

func (s advisoryLock) Buy(ctx context.Context, user int64) (yes bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		//lab:here
		if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, -s.number); err != nil {
			return err
		}
		//lab:end
		var stock int
		if err := tx.QueryRow(ctx, `select stock from item`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = ordered(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.think(ctx, user)
		if _, err := tx.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
			return err
		}
		yes = true
		_, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
