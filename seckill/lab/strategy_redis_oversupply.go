package lab

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// redisOversupply has twice as many units in Redis as there are. That is what happens when a shop writes the stock into Redis
// as it starts, while purchases are under way; or gives units back twice; or by intention, so that burnt ones don't matter.
//
// Right, because Postgres decides: whoever gets past Redis goes through the transaction of guardUnique, and the guard lets
// through as many as there are. The rest pass Redis and hear "sold out" all the same. Without the guard, Redis alone would
// decide, and sell everything twice.
//
// This is the rule for two stores: one thins the crowd and may be wrong, the other decides and must not be. An error upwards
// in Redis costs some work; one downwards leaves units unsold, as in redisDecr. Twice the stock is enough while nobody
// clicks more than twice and no process dies: the surplus is what a unit may be burnt from. The shop holds Redis against
// Postgres three times a second instead, and puts it right.
type redisOversupply struct{ redisStock }

func (s redisOversupply) Prepare(ctx context.Context) error {
	if err := (guardUnique{s.node}).Prepare(ctx); err != nil {
		return err
	}
	//lab:here
	return s.rdb.Set(ctx, s.key("stock"), 2*s.plan.Stock, keyLife).Err()
	//lab:end
}

func (s redisOversupply) Buy(ctx context.Context, user int64) (bool, error) {
	s.think(ctx, user)
	left, err := s.rdb.Decr(ctx, s.key("stock")).Result()
	if err != nil || left < 0 {
		return false, err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `insert into orders (user_id) values ($1) on conflict do nothing`, user)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		//lab:here
		tag, err = tx.Exec(ctx, `update item set stock = stock - 1 where stock > 0`)
		if err == nil && tag.RowsAffected() == 0 {
			return errSoldOut // past Redis, and no further
		}
		//lab:end
		return err
	})
	if errors.Is(err, errSoldOut) {
		return false, nil
	}
	return err == nil, err
}
