package seckill

import (
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/gate"
)

const (
	warmEvery = 2 * time.Second
	warmAhead = 20 * time.Second // before a sale opens
)

// warmer runs the statements of a settle transaction once on each idle connection before a sale opens, and opens connections
// until every worker has one. Otherwise the first tickets wait while Postgres starts a process, reads its catalogue and
// plans the statements.
type warmer struct {
	db      *pgxpool.Pool // of settle
	cache   *goods.Cache
	orders  *order.Store
	clock   *gate.Clock
	metrics *metrics
	warmed  map[int64]time.Time // the openings that were prepared, by sale
}

// Run looks for sales that are about to open, until ctx ends.
func (w *warmer) Run(ctx context.Context) { every(ctx, warmEvery, nil, w.look) }

func (w *warmer) look(ctx context.Context) {
	now := w.clock.Now()
	maps.DeleteFunc(w.warmed, func(_ int64, start time.Time) bool { return start.Before(now) })
	sales, _, err := w.cache.Live(ctx)
	for _, s := range sales {
		ahead := s.StartsAt.Sub(now)
		if s.State != goods.Published || ahead <= 0 || ahead > warmAhead || w.warmed[s.ID].Equal(s.StartsAt) {
			continue
		}
		if err = w.warm(ctx, s.ID); err != nil {
			break
		}
		w.warmed[s.ID] = s.StartsAt
	}
	if err != nil && ctx.Err() == nil {
		w.metrics.logFault("warm connections", err)
	}
}

var errUndo = errors.New("undo")

// warm places two tickets of a user that does not exist, on each connection, and takes all back. A connection in use is warm.
func (w *warmer) warm(ctx context.Context, sale int64) error {
	for range queueWorkers - int(w.db.Stat().AcquiredConns()) {
		conn, err := w.db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			locked, err := goods.Lock(ctx, tx, sale)
			if err != nil {
				return err
			}
			unknown := []order.Ticket{{ID: uuid.NewString(), UserID: math.MaxInt64}, {ID: uuid.NewString(), UserID: math.MaxInt64}}
			if _, err = w.orders.Place(ctx, tx, locked, unknown); err != nil {
				return err
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			return err
		}
	}
	return nil
}
