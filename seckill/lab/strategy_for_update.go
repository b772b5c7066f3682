package lab

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// forUpdate is the pessimistic lock: the transaction takes the row when it reads it, and everybody else waits until it ends.
//
// Right, on any number of nodes, because the lock is where the stock is. What is read under it can't change until the
// commit, and the look for an earlier order is made under it too, so a double click finds the first one's order.
//
// Its price: a purchase holds the row, and a database connection, for as long as it takes to think, and all others stand in
// line, with a connection each. Even who only comes to hear "sold out" has to stand in it. A thousand of them are more than
// a database has connections, and then it serves nobody, of this item or any other.
//
// In the field: common and sound where few buy the same thing at once. Take rows in the same order everywhere (the item
// first, then the order), or two transactions wait for each other.
type forUpdate struct{ *node }

func (s forUpdate) Buy(ctx context.Context, user int64) (yes bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var stock int
		//lab:here
		if err := tx.QueryRow(ctx, `select stock from item for update`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = ordered(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.think(ctx, user) // while all others wait
		if _, err := tx.Exec(ctx, `update item set stock = $1`, stock-1); err != nil {
			return err
		}
		//lab:end
		yes = true
		_, err := tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return yes && err == nil, err
}
