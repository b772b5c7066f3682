// Package warm runs the statements of a settle transaction on each idle connection before a sale opens, and opens
// connections until every worker of the queue has one. Otherwise the first tickets wait while Postgres starts a
// process, reads its catalogue and plans the statements. It takes all back, and sells nothing.
package warm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/rounds"
)

const (
	every = 2 * time.Second
	ahead = 20 * time.Second // before a sale opens
	least = 5 * time.Second  // later it would be in the way

	lookLimit     = 5 * time.Second
	rehearseLimit = 1500 * time.Millisecond // as for a settle transaction
)

// Connections are those of the settle transactions.
type Connections struct {
	Settle  *pgxpool.Pool
	Workers int // of the queue
	Sales   *goods.Store
	Orders  *order.Store
	Clock   func() time.Time

	since  time.Time // the connections of warmed are warm for the openings of the time ahead
	warmed map[*pgx.Conn]bool
}

// Run looks for sales that are about to open, until ctx ends. A fault is reported and the next round tries again.
func (c *Connections) Run(ctx context.Context, report func(error)) error {
	rounds.New().Run(ctx, lookLimit, rounds.Every(every), func(look context.Context) {
		if err := c.look(look); err != nil && ctx.Err() == nil {
			report(fmt.Errorf("warm connections: %w", err))
		}
	})
	return nil
}

func (c *Connections) look(ctx context.Context) error {
	near, err := c.Sales.SaleStates(ctx, 0, nil) // an outage of Postgres is reconcile's to report, who reads the same
	now := c.Clock()
	if err != nil || !slices.ContainsFunc(near, func(s goods.SaleState) bool {
		in := s.StartsAt.Sub(now)
		return s.State == goods.Published && !s.Open && in >= least && in <= ahead
	}) {
		return nil
	}
	if now.Sub(c.since).Abs() >= ahead {
		c.since, c.warmed = now, map[*pgx.Conn]bool{}
	}
	return c.warm(ctx)
}

// warm waits for no connection: those in use stay so, until the next look finds them idle.
func (c *Connections) warm(ctx context.Context) (err error) {
	conns := c.Settle.AcquireAllIdle(ctx)
	for err == nil && c.Settle.Stat().TotalConns() < min(int32(c.Workers), c.Settle.Stat().MaxConns()) {
		var conn *pgxpool.Conn
		if conn, err = c.Settle.Acquire(ctx); err == nil {
			conns = append(conns, conn)
		}
	}
	for _, conn := range conns {
		if err == nil && !c.warmed[conn.Conn()] {
			err = c.rehearse(ctx, conn)
			c.warmed[conn.Conn()] = err == nil
		}
		conn.Release()
	}
	return err
}

var errUndo = errors.New("undo")

// rehearse runs every statement, for a sale that does not exist, and takes all back. It waits for no lock.
func (c *Connections) rehearse(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, rehearseLimit)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, conn, goods.ReadCommitted, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, 0); !errors.Is(err, goods.ErrNoSale) {
			return err
		}
		tickets := []order.Ticket{{ID: uuid.NewString(), UserID: 1 + rand.Int64N(math.MaxInt64)}}
		if _, err := c.Orders.Place(ctx, tx, goods.Locked{Stock: 1, State: goods.Published}, tickets); !errors.Is(err,
			goods.ErrSoldOut) {
			return err // the order is there, the sale is not
		}
		if _, err := c.Orders.Place(ctx, tx, goods.Locked{State: goods.Closed}, tickets); err != nil {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return fmt.Errorf("rehearse a settle transaction: %w", err)
	}
	return nil
}
