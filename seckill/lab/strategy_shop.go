package lab

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
)

// shop is this shop's own engine, as it runs behind the web: clicks that wait together go to Redis in one script call, the
// script checks the buyer and the stock, takes the unit and writes a ticket into a journal; tickets go to Postgres in batches,
// each batch one transaction with the row lock, the unique index and the guard; and Postgres has the last word.
//
// Right, also when the process dies: what it had in its queue is in the journal, and another process takes it over after 5 s.
// A buyer is told "queued" by Redis, and yes only after the commit.
//
// What each part is for is what the other ways lack. The lane: one call of Redis for hundreds of clicks. The batch: one
// transaction on the hot row for hundreds of orders, where guardUnique has one each. The journal: luaChannel's loss. Postgres
// alone ever refills Redis: redisDecr's burnt units, redisOversupply's surplus.
//
// To read on: seckill/lane.go, seckill/scripts/reserve.lua, seckill/pool.go, order/place.go, goods/stock.go.
type shop struct {
	*node
	engine *seckill.Engine
	fault  error
}

var errNoTicket = errors.New("nobody knows of a ticket")

func newShop(n *node) *shop {
	sales := goods.New(n.db.Pool)
	e, err := seckill.New(
		seckill.Config{Captcha: "off", Gate: "redis", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 2 * MaxBuyers, QMax: 20000},
		seckill.Deps{DB: n.db.Pool, Redis: n.rdb, Sales: sales, Cache: goods.NewCache(sales),
			Orders: order.New(n.db.Pool, order.Config{PayWithin: time.Hour}), Secret: make([]byte, 32), Log: slog.New(slog.DiscardHandler)})
	return &shop{n, e, err}
}

// Prepare puts one sale up, whose id is the run's number.
func (s *shop) Prepare(ctx context.Context) error {
	if _, err := s.db.Exec(ctx, `select setval(pg_get_serial_sequence('sales', 'id'), $1, false)`, s.number); err != nil {
		return err
	}
	_, err := goods.New(s.db.Pool).Sell(ctx, goods.Item{Title: "lab"}, goods.Terms{Price: 1, Total: s.plan.Stock,
		StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)})
	return errors.Join(s.fault, err)
}

// Run is the engine's work: lanes, queue, journal, and holding Redis against Postgres.
func (s *shop) Run(ctx context.Context) error { return s.engine.Run(ctx) }

// Ready waits until the engine has set the gate up in Redis, as it does before a sale begins, and knows the sale.
func (s *shop) Ready(ctx context.Context) error {
	for s.look.rdb.Exists(ctx, gateOf(s.number)).Val() == 0 && ctx.Err() == nil {
		pause(ctx, time.Millisecond)
	}
	_, err := s.engine.Result(ctx, s.number, MaxBuyers+1)
	for errors.Is(err, seckill.ErrBusy) && ctx.Err() == nil {
		pause(ctx, again)
		_, err = s.engine.Result(ctx, s.number, MaxBuyers+1)
	}
	return errors.Join(s.node.Ready(ctx), err)
}

// Left is what Postgres has.
func (s *shop) Left(ctx context.Context) (left int, err error) {
	return left, s.db.QueryRow(ctx, `select stock from sales`).Scan(&left)
}

// Buy clicks, and then asks until he knows, as the page does.
func (s *shop) Buy(ctx context.Context, user int64) (bool, error) {
	s.think(ctx, user)
	results, stop := s.engine.Watch(s.number, user)
	defer stop()
	//lab:here
	bought, err := s.engine.Buy(ctx, s.number, user)
	if errors.Is(err, goods.ErrSoldOut) {
		return false, nil
	}
	status := bought.Status
	if err == nil && status.State == seckill.Queued {
		s.promise() // his ticket is in the journal: it will get a result, whoever dies
	}
	for err == nil && status.State == seckill.Queued {
		select {
		case status = <-results:
		case <-time.After(status.NextPoll):
			status, err = s.engine.Result(ctx, s.number, user)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	//lab:end
	if err == nil && status.State == seckill.None {
		err = errNoTicket // asking again is safe
	}
	return status.State == seckill.Ordered, err
}
