package lineage

import (
	"context"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// Scripts are the sources of the scripts of this package.
func Scripts() []string { return []string{markSource} }

// Probe makes the calls of this package once, on keys of its own, which it deletes: what it cannot do must be known
// before Postgres goes back. It returns the first error.
func Probe(ctx context.Context, rdb redis.UniversalClient) error {
	id := uuid.NewString()
	marks, processes, alone := probeKey(id, "marks"), probeKey(id, "processes"), probeKey(id, "alone")
	defer rdb.Unlink(context.WithoutCancel(ctx), marks, processes, alone)
	for _, call := range []func() error{
		func() error { return rdb.Time(ctx).Err() },
		func() error {
			return markScript.Run(ctx, rdb, []string{marks, processes}, "probe", "shop", "incarnation", "server", "",
				"users", 1).Err()
		},
		func() error { return rdb.HMGet(ctx, marks, "shop").Err() },
		func() error { return rdb.HScan(ctx, marks, 0, "", 1).Err() },
		func() error {
			return rdb.ZRangeByScoreWithScores(ctx, processes, &redis.ZRangeBy{Min: "-inf", Max: "+inf"}).Err()
		},
		func() error { return rdb.ZRem(ctx, processes, "probe").Err() },
		func() error { return rdb.SetNX(ctx, alone, "probe", aloneFor).Err() },
		func() error { return rdb.PExpire(ctx, marks, aloneFor).Err() },
		func() error { return rdb.XLen(ctx, probeKey(id, "journal")).Err() },
		func() error { return rdb.Scan(ctx, 0, probeKey(id, "*"), 1).Err() },
		func() error { return rdb.Get(ctx, alone).Err() },
		func() error { return rdb.Del(ctx, alone).Err() },
		func() error { return rdb.Unlink(ctx, marks, processes).Err() },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}
