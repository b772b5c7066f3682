package lab

import "context"

// redisDecr decrements first and looks at what came out: DECR gives each caller another number, and whose is not negative has
// a unit. A unique index in Postgres keeps a buyer from a second order.
//
// It never oversells. Wrong all the same: it burns units. A double click takes two from Redis, and only the second step finds
// that the buyer has his order. The unit is in nobody's hands and nobody's stock: Redis says sold out, Postgres has less
// orders than units. So does a process that dies between the two steps.
//
// "Then give it back with INCR" is the next idea, and makes it worse: an undo that is repeated after a lost reply makes
// units out of nothing, and who was told no meanwhile does not come back. The duplicate has to be found before the unit is
// taken, in the same step: see lua.
//
// In the field: the usual first Redis version of the courses. Their undersell is blamed on bots.
type redisDecr struct{ redisStock }

func (s redisDecr) Prepare(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, `create unique index one_order_per_user on orders (user_id)`); err != nil {
		return err
	}
	return s.redisStock.Prepare(ctx)
}

func (s redisDecr) Buy(ctx context.Context, user int64) (bool, error) {
	s.think(ctx, user)
	//lab:here
	left, err := s.rdb.Decr(ctx, s.key("stock")).Result()
	if err != nil || left < 0 {
		return false, err
	}
	_, err = s.db.Exec(ctx, `insert into orders (user_id) values ($1) on conflict do nothing`, user)
	//lab:end
	return err == nil, err // on a conflict he has an order, and the unit that he took once more is burnt
}
