package strategies

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/lab"
)

// redisOversupply has twice as many units in Redis as there are. This happens when a shop starts during
// a sale and writes the stock into Redis again, or returns a unit twice. Some shops do it on purpose,
// so that lost units do not matter.
//
// Right, because Postgres decides. A buyer who passes Redis goes through the transaction of
// guardUnique, and the guard sells only the units that exist. The rest are told "sold out". Without
// the guard, Redis alone would decide and sell everything twice.
//
// This is the rule for two stores: one reduces the crowd and may be wrong, the other decides and must
// be right. A number that is too high in Redis costs some work; one that is too low leaves units
// unsold, as in redisDecr. Twice the stock is enough if no buyer clicks more than twice and no process
// dies: the surplus covers the lost units. Our shop instead compares Redis with Postgres several times
// a second and corrects it.
type redisOversupply struct{ redisStock }

func (s redisOversupply) Prepare(ctx context.Context) error {
	if err := (guardUnique{s.Node}).Prepare(ctx); err != nil {
		return err
	}
	//lab:here
	return s.Redis.Set(ctx, s.Key("stock"), 2*s.Plan.Stock, lab.KeyLife).Err()
	//lab:end
}

func (s redisOversupply) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	left, err := s.Redis.Decr(ctx, s.Key("stock")).Result()
	if err != nil || left < 0 {
		return false, err
	}
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into orders (user_id) values ($1) on conflict do nothing`, user)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		//lab:here
		tag, err = tx.Exec(ctx, `update item set stock = stock - 1 where stock > 0`)
		if err == nil && tag.RowsAffected() == 0 {
			return errSoldOut // Redis let the buyer pass, Postgres does not
		}
		//lab:end
		return err
	})
	if errors.Is(err, errSoldOut) {
		return false, nil
	}
	return err == nil, err
}
