// Package seckill is the rush: it lets the right people in, remembers whom it let in, and turns each place into an
// order or a final no.
//
//	captcha -> hidden address -> lane -> gate (Redis) -> pool -> settle (Postgres) -> gate -> whoever polls or listens
//
// Redis thins the crowd and remembers tickets. Postgres alone decides who owns what. Only Postgres ever refills Redis.
// A ticket is written to the sale's journal by the script that grants it, so the queue lives in this process and yet
// survives it: what a dead process left is claimed by another, or by the same one when it is back.
//
// Who wins: among clicks, the reserve script's order; among processes, the sale's row lock; among an order's tickets,
// the first; and always the unique index and the guarded update have the last word.
package seckill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
)

// Refusals. goods has those that a sale's state and window give.
var (
	ErrBusy         = errors.New("seckill: busy, try again")
	ErrWrongCaptcha = errors.New("seckill: wrong or used captcha")
	ErrBadPath      = errors.New("seckill: not this buyer's address, or it has run out")
)

// TooManyError says when to try again.
type TooManyError struct{ RetryAfter time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("seckill: too many, try again in %v", e.RetryAfter)
}

// Config has the settings of the rush.
type Config struct {
	Captcha     string        `name:"captcha" env:"MIAOSHA_CAPTCHA" enum:"math,off" default:"math" help:"Ask a sum before an address is given: math or off."`
	Gate        string        `name:"gate" env:"MIAOSHA_GATE" enum:"redis,off" default:"redis" help:"Where the crowd is thinned: redis, or off to let Postgres do it alone."`
	GateFactor  int           `name:"gate-factor" env:"MIAOSHA_GATE_FACTOR" default:"5" help:"Hidden addresses alive at once, per unit left."`
	PathTTL     time.Duration `name:"path-ttl" env:"MIAOSHA_PATH_TTL" default:"60s" help:"How long a hidden address is good."`
	MaxInFlight int           `name:"max-in-flight" env:"MIAOSHA_MAX_IN_FLIGHT" default:"4096" help:"Buy requests worked on at once; more hear busy."`
	QMax        int           `name:"qmax" env:"MIAOSHA_QMAX" default:"20000" help:"Tickets queued at once: per sale in Redis, and in all in this process."`

	SettlePause    time.Duration `name:"settle-pause" env:"MIAOSHA_SETTLE_PAUSE" default:"0s" hidden:"" help:"For measuring: pause before each settle transaction."`
	CaptchaAnswers bool          `name:"captcha-answers" env:"MIAOSHA_CAPTCHA_ANSWERS" hidden:"" help:"For measuring: tell the answer beside each sum. With the sandbox's own stores only."`
}

// Validate refuses what can't be meant. A bound of zero is an error, never "unlimited".
func (c Config) Validate() error {
	switch {
	case c.GateFactor < 1:
		return errors.New("--gate-factor: at least 1")
	case c.PathTTL < time.Second:
		return errors.New("--path-ttl: at least 1s")
	case c.MaxInFlight < 1:
		return errors.New("--max-in-flight: at least 1")
	case c.QMax < 1:
		return errors.New("--qmax: at least 1")
	case c.SettlePause < 0:
		return errors.New("--settle-pause: at least 0s")
	}
	return nil
}

// Engine runs the rush of one process.
type Engine struct {
	cfg     Config
	db      *pgxpool.Pool
	gate    gate
	sales   *goods.Store
	cache   *goods.Cache
	orders  *order.Store
	log     *slog.Logger
	metrics *metrics

	paths    *paths
	clock    clock
	breaker  *breaker
	lanes    lanes
	pool     *pool
	untold   untold
	view     view
	looks    looks
	watchers watchers
	inFlight atomic.Int64
	direct   chan struct{} // one token per settle without a gate

	reclaimIdle time.Duration // the constant, but in tests
	retired     time.Time     // when dead consumers were last looked for; reclaim's own
}

// Deps is what an Engine stands on. DB should be a pool of its own with short lock and statement timeouts.
type Deps struct {
	DB     *pgxpool.Pool
	Redis  redis.UniversalClient
	Sales  *goods.Store
	Cache  *goods.Cache
	Orders *order.Store
	Secret []byte // at least 32 bytes, the same in every process
	Log    *slog.Logger
}

// New gives an Engine. It does nothing until Run.
func New(cfg Config, d Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	e := &Engine{
		cfg: cfg, db: d.DB, sales: d.Sales, cache: d.Cache, orders: d.Orders, log: d.Log,
		gate:    gate{rdb: d.Redis, consumer: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), uuid.NewString()[:8])},
		paths:   newPaths(d.Secret),
		breaker: newBreaker(),
		direct:  make(chan struct{}, directAtOnce),
		looks:   newLooks(),

		reclaimIdle: reclaimIdle,
	}
	e.lanes.opened, e.lanes.ended = make(chan *lane), make(chan struct{})
	e.metrics = newMetrics(e)
	e.pool = newPool(e)
	return e, nil
}

// Run does the work behind the door until ctx ends: lanes, pool, clock, reconcile, reclaim. At the end no lane takes
// anybody in any more, and what is queued is settled for at most drainLimit; the rest stays in the journals.
func (e *Engine) Run(ctx context.Context) error {
	settling, settled := context.WithCancel(context.WithoutCancel(ctx))
	defer settled()
	var workers errgroup.Group
	for range poolWorkers {
		workers.Go(func() error { return e.pool.work(settling) })
	}
	workers.Go(func() error { return e.pool.guard(settling) })
	last := context.WithoutCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return e.lanes.run(ctx, e) })
	g.Go(func() error { return e.runLooks(ctx) })
	if e.cfg.Gate == "redis" {
		g.Go(func() error { return every(ctx, time.Second, e.setClock) })
		g.Go(func() error { return every(ctx, time.Second, e.reclaim) })
	}
	g.Go(func() error { return every(ctx, reconcileEvery, e.reconcile) })
	err := g.Wait()
	e.pool.drain(drainLimit)
	settled()
	err = errors.Join(err, workers.Wait())
	last, cancel := context.WithTimeout(last, stopLimit)
	defer cancel()
	e.reconcile(last)        // what came back in the last moment; nobody else may be there to do it
	e.view.rebuilding.Lock() // for good: waits for the rebuilds under way, and lets no other begin
	return err
}

// roundLimit is the time one round of a background loop has; a store that hangs costs a round, not the loop.
const roundLimit = 5 * time.Second

// stopLimit is the time for leaving the gates as they should be.
const stopLimit = 2 * time.Second

// every calls f at once and then each d until ctx ends. A fault is f's own to report: the next call tries again.
func every(ctx context.Context, d time.Duration, f func(context.Context)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		round, cancel := context.WithTimeout(ctx, roundLimit)
		f(round)
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
