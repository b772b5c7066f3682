package backend

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pools has the most connections that a process opens to each store.
type Pools struct {
	Settle int32 `name:"pool-settle" env:"MIAOSHA_POOL_SETTLE" default:"8" help:"Connections to Postgres that turn tickets into orders: one for each of --queue-workers, the others for gates and for sales without Redis."`
	Web    int32 `name:"pool-web" env:"MIAOSHA_POOL_WEB" default:"10" help:"Connections to Postgres that read lists, results and the state of sales. Reads are batched, so a few are enough."`
	Pay    int32 `name:"pool-pay" env:"MIAOSHA_POOL_PAY" default:"8" help:"Connections to Postgres that pay, cancel and show orders."`
	Users  int32 `name:"pool-users" env:"MIAOSHA_POOL_USERS" default:"8" help:"Connections to Postgres for accounts."`
	Staff  int32 `name:"pool-staff" env:"MIAOSHA_POOL_STAFF" default:"4" help:"Connections to Postgres for the back office and for pictures, so that a search there takes none from buyers."`
	Redis  int   `name:"redis-pool" env:"MIAOSHA_REDIS_POOL" default:"64" help:"Connections to --redis-url, in a Cluster to each node. Sessions have their own."`
}

// Validate returns an error that names the pool without a connection.
func (p Pools) Validate() error {
	for _, pool := range []struct {
		setting string
		size    int
	}{
		{"--pool-settle (MIAOSHA_POOL_SETTLE)", int(p.Settle)},
		{"--pool-web (MIAOSHA_POOL_WEB)", int(p.Web)},
		{"--pool-pay (MIAOSHA_POOL_PAY)", int(p.Pay)},
		{"--pool-users (MIAOSHA_POOL_USERS)", int(p.Users)},
		{"--pool-staff (MIAOSHA_POOL_STAFF)", int(p.Staff)},
		{"--redis-pool (MIAOSHA_REDIS_POOL)", p.Redis},
	} {
		if pool.size < 1 {
			return fmt.Errorf("%s: %d connections, at least 1", pool.setting, pool.size)
		}
	}
	return nil
}

// postgres returns how many connections to Postgres the pools may open together.
func (p Pools) postgres() int64 {
	return int64(p.Settle) + int64(p.Web) + int64(p.Pay) + int64(p.Users) + int64(p.Staff)
}

// warnOfConnections logs if Postgres accepts fewer connections than the pools of this process may open. Behind a
// pooler, which drops the settings of the planner, the pools are not Postgres' own connections.
func warnOfConnections(ctx context.Context, settle *pgxpool.Pool, pools Pools, log *slog.Logger) {
	var most int64
	var pooled bool
	if err := settle.QueryRow(ctx, `
		select current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
		           - coalesce(current_setting('reserved_connections', true)::bigint, 0),
		       current_setting('plan_cache_mode') <> $1`, byIndex["plan_cache_mode"]).Scan(&most, &pooled); err != nil {
		log.Warn("Postgres does not tell how many connections it accepts", "err", err)
	} else if most < pools.postgres() && !pooled {
		log.Warn(
			"the pools of this process may open more connections than Postgres accepts: lower --pool-settle, --pool-web, --pool-pay, --pool-users or --pool-staff, or raise max_connections (deploy/README.md, Pools)",
			"pools", pools.postgres(), "accepts", most)
	}
}
