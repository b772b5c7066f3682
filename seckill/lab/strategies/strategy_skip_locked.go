package strategies

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// skipLocked has a row for each unit, as a cinema has one for each seat. A buyer takes the first free
// row that no other transaction has locked: skip locked passes over locked rows.
//
// Right, and no buyer waits for another: twenty buyers take twenty rows at once. No row is hot.
//
// The trap: no row found does not mean sold out. The last rows may be locked by transactions that roll
// back, such as the second click of a buyer who has a seat. To say "sold out" then leaves units
// unsold. So it asks again, without skipping, whether any row has no owner, and if so tries again.
//
// Its price: one row for each unit, and a search for a free row among the taken ones (here a scan; a
// partial index helps).
//
// In the field: seats, coupons with codes, and above all job queues. For a thousand equal kettles one
// number is simpler.
type skipLocked struct{ *lab.Node }

func (s skipLocked) Prepare(ctx context.Context) error {
	_, err := s.DB.Exec(ctx, `create unique index one_order_per_user on orders (user_id)`)
	if err == nil {
		_, err = s.DB.Exec(ctx, `insert into units (id) select generate_series(1, $1::int)`, s.Plan.Stock)
	}
	return err
}

func (s skipLocked) Left(ctx context.Context) (left int, err error) {
	err = s.DB.QueryRow(ctx, `select count(*) from units where owner is null`).Scan(&left)
	return left, err
}

func (s skipLocked) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	for {
		err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			//lab:here
			tag, err := tx.Exec(ctx, `
				update units set owner = $1
				where  id = (select id from units where owner is null limit 1 for update skip locked)`, user)
			//lab:end
			if err == nil && tag.RowsAffected() == 0 {
				return errSoldOut // as it seems
			}
			if err == nil {
				_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
			}
			return err // the index refuses a second order: the unit is free again
		})
		if isUnique(err) {
			return true, nil
		}
		if !errors.Is(err, errSoldOut) {
			return err == nil, err
		}
		//lab:here
		if left, err := s.Left(ctx); err != nil || left == 0 {
			return false, err
		}
		//lab:end
		lab.Pause(ctx, time.Millisecond) // until the transactions that lock them end
	}
}
