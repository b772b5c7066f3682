package strategies

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
)

// hasOrder reports whether the user has an order.
func hasOrder(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, user int64) (has bool, err error) {
	err = q.QueryRow(ctx, `select exists (select from orders where user_id = $1)`, user).Scan(&has)
	return has, err
}

// isUnique reports whether a unique index has refused a row.
func isUnique(err error) bool {
	pg := new(pgconn.PgError)
	return errors.As(err, &pg) && pg.Code == "23505"
}

// redisStock is a node whose units are counted in Redis.
type redisStock struct{ *lab.Node }

// Prepare writes the stock to Redis.
func (n redisStock) Prepare(ctx context.Context) error {
	return n.Redis.Set(ctx, n.Key("stock"), n.Plan.Stock, lab.KeyLife).Err()
}

// Left returns the stock in Redis.
func (n redisStock) Left(ctx context.Context) (int, error) {
	return n.Redis.Get(ctx, n.Key("stock")).Int()
}
