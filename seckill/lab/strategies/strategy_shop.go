package strategies

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/lab"
)

// shop is this shop's own engine, as it runs behind the web. Clicks that wait together go to Redis in
// one call of a script. The script checks the buyer and the stock, takes the unit, and writes a ticket
// to a journal. Tickets go to Postgres in batches; a batch is one transaction with the row lock, the
// unique index and the guard. Postgres has the last word.
//
// Right, also when a process dies: its queued tickets are in the journal, and another process takes
// them over after 5 s. Redis tells a buyer only "queued"; yes comes after the commit.
//
// Each part supplies what another strategy lacks. The lane makes one Redis call for hundreds of
// clicks. The batch makes one transaction on the hot row for hundreds of orders; guardUnique makes one
// for each. The journal prevents the loss of luaChannel. And only Postgres' stock refills Redis, so
// there are no lost units as in redisDecr and no surplus as in redisOversupply.
//
// Read on in seckill/README.md.
type shop struct {
	*lab.Node
	engine *seckill.Engine
	err    error // of seckill.New
}

var errNoTicket = errors.New("no ticket of this buyer")

func newShop(n *lab.Node) *shop {
	sales := goods.New(n.DB.Pool)
	e, err := seckill.New(
		seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 2 * lab.MaxBuyers,
			QMax: 20000, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()},
		seckill.Deps{DB: n.DB.Pool, Redis: n.Redis, Sales: sales, Cache: goods.NewCache(sales),
			Orders: order.New(n.DB.Pool, order.Config{PayWithin: time.Hour}), Secret: make([]byte, 32),
			Log: slog.New(slog.DiscardHandler)})
	return &shop{n, e, err}
}

// Prepare creates one sale, whose id is the run's number.
func (s *shop) Prepare(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, `select setval(pg_get_serial_sequence('sales', 'id'), $1, false)`, s.Number); err != nil {
		return err
	}
	_, err := goods.New(s.DB.Pool).Sell(ctx, goods.Item{Title: "lab"}, goods.Terms{Price: 1, Total: s.Plan.Stock,
		StartsAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)})
	return errors.Join(s.err, err)
}

// Run does the engine's work: lanes, queue, journal, reconcile.
func (s *shop) Run(ctx context.Context) error { s.engine.Run(ctx); return nil }

// Ready waits until the engine has created the gate in Redis, as before every sale, and knows the sale.
func (s *shop) Ready(ctx context.Context) error {
	for s.Observer.Redis.Exists(ctx, lab.GateOf(s.Number)).Val() == 0 && ctx.Err() == nil {
		lab.Pause(ctx, time.Millisecond)
	}
	err := lab.Retry(ctx, seckill.ErrBusy, func() error {
		_, err := s.engine.Result(ctx, s.Number, lab.MaxBuyers+1)
		return err
	})
	return errors.Join(s.Node.Ready(ctx), err)
}

// Left returns the stock in Postgres.
func (s *shop) Left(ctx context.Context) (left int, err error) {
	err = s.DB.QueryRow(ctx, `select stock from sales`).Scan(&left)
	return left, err
}

// Buy clicks, and then waits for the result, as the page does.
func (s *shop) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	news, stop := s.engine.Watch(s.Number, user)
	defer stop()
	//lab:here
	bought, err := s.engine.Buy(ctx, s.Number, user)
	if errors.Is(err, goods.ErrSoldOut) {
		return false, nil
	}
	status := bought.Status
	if err == nil && status.State == seckill.Queued {
		s.Promise() // the ticket is in the journal: it gets a result even if this process dies
	}
	for err == nil && status.State == seckill.Queued {
		select {
		case <-news:
		case <-time.After(status.NextPoll):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		status, err = s.engine.Result(ctx, s.Number, user)
	}
	//lab:end
	if err == nil && status.NoTicket() {
		err = errNoTicket // a second click is safe
	}
	return status.State == seckill.Ordered, err
}
