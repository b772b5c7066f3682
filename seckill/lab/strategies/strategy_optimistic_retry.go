package strategies

import (
	"context"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// optimisticRetry is optimistic with a loop: a buyer who loses reads and tries again, until they have
// a unit or none is left.
//
// Right. Of all tries with the same version one wins, so each round sells a unit and the loop ends.
//
// Its price is wasted work. With 16 tries at once, 15 transactions of a round are for nothing; see its
// statements per order. It slows down as more buyers come, just when a rush needs speed. A limit on
// the tries ("at most three"), as courses have it, makes it undersell again.
//
// In the field: where conflicts are rare. Where they are common, let buyers wait in line (forUpdate),
// or decide in one statement (guard).
type optimisticRetry struct{ *lab.Node }

func (s optimisticRetry) Buy(ctx context.Context, user int64) (yes bool, err error) {
	//lab:here
	for {
		var stock, version int
		if err := s.DB.QueryRow(ctx, `select stock, version from item`).Scan(&stock, &version); err != nil {
			return false, err
		}
		if has, err := hasOrder(ctx, s.DB, user); err != nil || has || stock <= 0 {
			return has, err
		}
		s.LookUpPrice(ctx, user)
		if won, err := s.take(ctx, user, version); err != nil || won {
			return won, err
		}
	}
	//lab:end
}

func (s optimisticRetry) take(ctx context.Context, user int64, version int) (won bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			update item set stock = stock - 1, version = version + 1
			where  version = $1`, version)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		won = true
		_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
		return err
	})
	return won && err == nil, err
}
