package seckill

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
	"miaosha/seckill/gate"
	"miaosha/seckill/rounds"
)

const (
	warmEvery = 2 * time.Second
	warmAhead = 20 * time.Second // before a sale opens
	warmLeast = 5 * time.Second  // later it would be in the way
)

// warmer runs the statements of a settle transaction once on each idle connection before a sale opens, and opens connections
// until every worker has one. Otherwise the first tickets wait while Postgres starts a process, reads its catalogue and
// plans the statements.
type warmer struct {
	db       *pgxpool.Pool      // of settle
	openings func() []time.Time // soon
	orders   *order.Store
	workers  int // of the queue
	clock    *gate.Clock
	metrics  *metrics
	rounds   *rounds.Rounds
	since    time.Time // the connections of warmed are warm for the openings of the next warmAhead
	warmed   map[*pgx.Conn]bool
}

// Run looks for sales that are about to open, until ctx ends.
func (w *warmer) Run(ctx context.Context) {
	w.rounds.Run(ctx, roundLimit, rounds.Every(warmEvery), w.look)
}

func (w *warmer) look(ctx context.Context) {
	now := w.clock.Now()
	if !slices.ContainsFunc(w.openings(), func(start time.Time) bool {
		ahead := start.Sub(now)
		return ahead >= warmLeast && ahead <= warmAhead
	}) {
		return
	}
	if now.Sub(w.since).Abs() >= warmAhead {
		w.since, w.warmed = now, map[*pgx.Conn]bool{}
	}
	if err := w.warm(ctx); err != nil && ctx.Err() == nil {
		w.metrics.logFault("warm connections", err)
	}
}

// warm waits for no connection: those in use stay so, until the next look finds them idle.
func (w *warmer) warm(ctx context.Context) (err error) {
	conns := w.db.AcquireAllIdle(ctx)
	for err == nil && w.db.Stat().TotalConns() < min(int32(w.workers), w.db.Stat().MaxConns()) {
		var conn *pgxpool.Conn
		if conn, err = w.db.Acquire(ctx); err == nil {
			conns = append(conns, conn)
		}
	}
	for _, conn := range conns {
		if err == nil && !w.warmed[conn.Conn()] {
			err = w.rehearse(ctx, conn)
			w.warmed[conn.Conn()] = err == nil
		}
		conn.Release()
	}
	return err
}

var errUndo = errors.New("undo")

// rehearse runs every statement, for a sale that does not exist, and takes all back. It waits for no lock.
func (w *warmer) rehearse(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, conn, goods.ReadCommitted, func(tx pgx.Tx) error {
		if _, err := goods.Lock(ctx, tx, 0); !errors.Is(err, goods.ErrNoSale) {
			return err
		}
		tickets := []order.Ticket{{ID: uuid.NewString(), UserID: 1 + rand.Int64N(math.MaxInt64)}}
		if _, err := w.orders.Place(ctx, tx, goods.Locked{Stock: 1, State: goods.Published}, tickets); !errors.Is(err, goods.ErrSoldOut) {
			return err // the order is there, the sale is not
		}
		if _, err := w.orders.Place(ctx, tx, goods.Locked{State: goods.Closed}, tickets); err != nil {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return fmt.Errorf("rehearse a settle transaction: %w", err)
	}
	return nil
}
