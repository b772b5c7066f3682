package backend

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// guard stands between the pools and Postgres. The zero value lets everything through.
type guard struct {
	connected atomic.Pointer[func(context.Context, *pgx.Conn) error]
	refused   atomic.Pointer[error]
}

// OnConnect sets what looks at each new connection to Postgres before its first use, and may refuse it with an error.
func (s *Stores) OnConnect(look func(context.Context, *pgx.Conn) error) {
	s.guard.connected.Store(&look)
}

// Refuse ends the use of the stores by this process: no further statement begins, and Redis is closed.
func (s *Stores) Refuse(why error) {
	s.guard.refused.Store(&why)
	s.Redis.Close()
}

// watch puts the guard before a pool.
func (g *guard) watch(cfg *pgxpool.Config) {
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if look := g.connected.Load(); look != nil {
			return (*look)(ctx, conn)
		}
		return nil
	}
	prepare := cfg.PrepareConn
	cfg.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		if why := g.refused.Load(); why != nil {
			return true, *why
		}
		return prepare(ctx, conn)
	}
}
