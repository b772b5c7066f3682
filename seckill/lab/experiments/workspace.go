package experiments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/captcha"
	"miaosha/seckill/lab"
)

// workspace is a namespace for one experiment, with a connection pool of the experiment's size.
type workspace struct {
	*lab.Namespace
	db *pgxpool.Pool
}

// openWorkspace creates a workspace with these tables and conns open connections.
func openWorkspace(ctx context.Context, s lab.Stores, tables string, conns int) (w workspace, err error) {
	if w.Namespace, err = lab.OpenNamespace(ctx, s, tables); err != nil {
		return w, err
	}
	defer func() {
		if err != nil {
			err, w = errors.Join(err, w.close(ctx)), workspace{}
		}
	}()
	cfg, err := w.PoolConfig(s, conns)
	if err != nil {
		return w, err
	}
	if w.db, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return w, err
	}
	return w, lab.ConnectAll(ctx, w.db)
}

// close closes the pool and removes the namespace, as far as they are open.
func (w workspace) close(ctx context.Context) error {
	if w.db != nil {
		w.db.Close()
	}
	if w.Namespace == nil {
		return nil
	}
	return w.Namespace.Close(ctx)
}

// counter sells units from a stock in Redis. It counts its own commands.
type counter struct {
	redis.UniversalClient
	commands *atomic.Int64
}

func openCounter(s lab.Stores) (counter, error) {
	rdb, err := lab.OpenRedis(s)
	return counter{rdb, new(atomic.Int64)}, err
}

// sell takes a unit and reports whether there was one.
func (c counter) sell(ctx context.Context, key string) (bool, error) {
	c.commands.Add(1)
	left, err := c.Decr(ctx, key).Result()
	return err == nil && left >= 0, err
}

// read returns the value of a key, "" if there is none.
func (c counter) read(ctx context.Context, key string) (string, error) {
	c.commands.Add(1)
	text, err := c.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// engine is the shop's engine with one open sale.
type engine struct {
	*seckill.Engine
	workspace
	config seckill.Config
	secret []byte
	redis  redis.UniversalClient
	sums   *captcha.Sums
	stop   func() error
}

// openEngine creates a sale in a schema of its own and starts the shop's engine on it. No sum is asked for; see
// withSums.
func openEngine(ctx context.Context, s lab.Stores, units int) (e engine, err error) {
	if e.redis, err = lab.OpenRedis(s); err != nil {
		return e, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.workspace.close(ctx), e.redis.Close())
		}
	}()
	if e.workspace, err = openWorkspace(ctx, s, s.Schema, 8); err != nil {
		return e, err
	}
	if _, err = e.db.Exec(ctx, fmt.Sprintf(`alter table sales alter column id restart with %d`, e.Number)); err != nil {
		return e, err
	}
	sales, now := goods.New(e.db), time.Now()
	if _, err = sales.Sell(ctx, goods.Item{Title: "lab"},
		goods.Terms{Total: units, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)}); err != nil {
		return e, err
	}
	e.secret = []byte("the lab has no secret worth keeping")
	e.config = seckill.Config{Gate: "redis", GateFactor: gateFactor, AddressTTL: time.Minute, MaxInFlight: 4096,
		QMax: 20_000, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()}
	e.Engine, err = seckill.New(e.config, seckill.Deps{DB: e.db, Redis: e.redis, Sales: sales,
		Cache:  goods.NewCache(sales),
		Orders: order.New(e.db, order.Config{PayWithin: time.Minute}), Secret: e.secret,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return e, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background errgroup.Group
	engine := e.Engine
	background.Go(func() error { engine.Run(running); return nil })
	e.stop = func() error {
		stop()
		return background.Wait()
	}
	return e, nil
}

func (e engine) close(ctx context.Context) error {
	return errors.Join(e.stop(), e.workspace.close(ctx), e.redis.Close())
}

// withSums returns the engine with the shop's sums before its addresses.
func (e engine) withSums() engine {
	e.sums = captcha.New(captcha.Config{Kind: "math", Answers: true}, goods.NewCache(goods.New(e.db)), nil, e.Shared())
	return e
}

// captchaAnswer returns the answer of a new captcha.
func (e engine) captchaAnswer(ctx context.Context, user int64, token string) (answer string, err error) {
	err = lab.Retry(ctx, seckill.ErrBusy, func() (err error) {
		_, answer, err = e.sums.Draw(ctx, e.Number, user, token)
		return err
	})
	return answer, err
}

// address returns a hidden address.
func (e engine) address(ctx context.Context, user int64, token, answer string) (path string, err error) {
	err = lab.Retry(ctx, seckill.ErrBusy, func() (err error) {
		path, _, err = e.Address(ctx, e.Number, user, token, e.sums.Answer(e.Number, user, token, answer))
		return err
	})
	return path, err
}

// gateFactor is the shop's default: valid addresses at one time, for each unit left.
const gateFactor = 5
