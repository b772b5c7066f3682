package lab

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// skipLocked has a row for each unit, as a cinema has one for each seat. A buyer takes the first row that is free and that
// nobody is just taking: skip locked goes past those.
//
// Right, and nobody waits for anybody: twenty buyers take twenty rows at once. There is no hot row any more.
//
// The trap: finding no row does not mean sold out. The last ones may be locked by transactions that roll back, such as the second
// click of somebody who has a seat. Who says "sold out" then leaves units unsold. So it asks once more, without skipping,
// whether any row has no owner, and if so tries again.
//
// Its price: as many rows as units, and to find the free ones among those already taken (here by a scan; a partial index helps).
//
// In the field: seats, coupons with codes, and above all job queues. For a thousand equal kettles a counter is simpler.
type skipLocked struct{ *node }

func (s skipLocked) Prepare(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `create unique index one_order_per_user on orders (user_id)`)
	if err == nil {
		_, err = s.db.Exec(ctx, `insert into units (id) select generate_series(1, $1::int)`, s.plan.Stock)
	}
	return err
}

func (s skipLocked) Left(ctx context.Context) (left int, err error) {
	return left, s.db.QueryRow(ctx, `select count(*) from units where owner is null`).Scan(&left)
}

func (s skipLocked) Buy(ctx context.Context, user int64) (bool, error) {
	s.think(ctx, user)
	for {
		err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			//lab:here
			tag, err := tx.Exec(ctx, `
				update units set owner = $1
				where  id = (select id from units where owner is null limit 1 for update skip locked)`, user)
			//lab:end
			if err == nil && tag.RowsAffected() == 0 {
				return errSoldOut // or so it seems
			}
			if err == nil {
				_, err = tx.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
			}
			return err // a second order breaks the index: the unit is free again
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
		pause(ctx, time.Millisecond) // for whoever has them to decide
	}
}
