package strategies

import (
	"context"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// forUpdate uses a pessimistic lock: a transaction locks the row when it reads it, and all other
// buyers wait until the transaction ends.
//
// Right, on any number of nodes, because the lock is where the stock is. The stock cannot change
// between the read and the commit. The search for an earlier order is under the same lock, so the
// second click of a buyer finds the order of the first.
//
// Its price: a purchase holds the row and a database connection for all of its work. All others wait
// in line with a connection each, even those who will only be told "sold out". A thousand waiting
// buyers are more than a database has connections; then it serves no one, for this item or another.
//
// In the field: common and sound where few buyers want the same item at once. Lock rows in the same
// order everywhere (the item first, then the order); otherwise two transactions wait for each other.
type forUpdate struct{ *lab.Node }

func (s forUpdate) Buy(ctx context.Context, user int64) (yes bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		var stock int
		//lab:here
		if err := tx.QueryRow(ctx, `select stock from item for update`).Scan(&stock); err != nil {
			return err
		}
		if yes, err = hasOrder(ctx, tx, user); err != nil || yes || stock <= 0 {
			return err
		}
		s.LookUpPrice(ctx, user) // while all other buyers wait
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
