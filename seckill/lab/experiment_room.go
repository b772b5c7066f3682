package lab

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
)

// room is a place for one experiment, with a pool whose size is part of the experiment.
type room struct {
	*place
	db *pgxpool.Pool
}

// openRoom makes a place with these tables and a pool of so many connections, all of them open.
func openRoom(ctx context.Context, s Stores, tables string, conns int) (r room, err error) {
	if r.place, err = openPlace(ctx, s, tables); err != nil {
		return r, err
	}
	defer func() {
		if err != nil {
			err, r = errors.Join(err, r.close(ctx)), room{}
		}
	}()
	cfg, err := pgxpool.ParseConfig(s.DatabaseURL)
	if err != nil {
		return r, errors.New("the lab's database: not a postgres:// address")
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.RuntimeParams["application_name"] = r.schema
	cfg.ConnConfig.RuntimeParams["search_path"] = r.schema
	if r.db, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return r, err
	}
	held := make([]*pgxpool.Conn, conns)
	for i := range held {
		if held[i], err = r.db.Acquire(ctx); err != nil {
			return r, fmt.Errorf("connect to Postgres: %w", err)
		}
		defer held[i].Release()
	}
	return r, nil
}

// close removes the place; a room that isn't open has none.
func (r room) close(ctx context.Context) error {
	if r.db != nil {
		r.db.Close()
	}
	if r.place == nil {
		return nil
	}
	return r.place.close(ctx)
}

// till has units in Redis, and counts what it is asked.
type till struct {
	redis.UniversalClient
	asked *atomic.Int64 // commands
}

func openTill(s Stores) (till, error) {
	rdb, err := openRedis(s)
	return till{rdb, new(atomic.Int64)}, err
}

// sell takes a unit if there is one.
func (t till) sell(ctx context.Context, key string) (bool, error) {
	t.asked.Add(1)
	left, err := t.Decr(ctx, key).Result()
	return err == nil && left >= 0, err
}

// read gives a key's text, "" where there is none.
func (t till) read(ctx context.Context, key string) (string, error) {
	t.asked.Add(1)
	text, err := t.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return text, err
}

// door is the shop's own engine at the door of one sale, which is open.
type door struct {
	*seckill.Engine
	room
	config seckill.Config
	secret []byte
	redis  redis.UniversalClient
	stop   func() error
}

// openDoor makes a sale of so many units in a schema of its own, and opens the shop's engine on it.
func openDoor(ctx context.Context, s Stores, captcha string, units int) (d door, err error) {
	if d.redis, err = openRedis(s); err != nil {
		return d, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.room.close(ctx), d.redis.Close())
		}
	}()
	if d.room, err = openRoom(ctx, s, s.Schema, 8); err != nil {
		return d, err
	}
	if _, err = d.db.Exec(ctx, fmt.Sprintf(`alter table sales alter column id restart with %d`, d.number)); err != nil {
		return d, err
	}
	sales := goods.New(d.db)
	now := time.Now()
	if _, err = sales.Sell(ctx, goods.Item{Title: "lab"}, goods.Terms{Total: units, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)}); err != nil {
		return d, err
	}
	d.secret = []byte("the lab has no secret worth keeping")
	d.config = seckill.Config{Captcha: captcha, CaptchaAnswers: true, Gate: "redis", GateFactor: gateFactor, PathTTL: time.Minute, MaxInFlight: 4096, QMax: 20_000}
	d.Engine, err = seckill.New(d.config, seckill.Deps{DB: d.db, Redis: d.redis, Sales: sales, Cache: goods.NewCache(sales),
		Orders: order.New(d.db, order.Config{PayWithin: time.Minute}), Secret: d.secret, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return d, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var behind errgroup.Group
	engine := d.Engine
	behind.Go(func() error { return engine.Run(running) })
	d.stop = func() error {
		stop()
		return behind.Wait()
	}
	return d, nil
}

func (d door) close(ctx context.Context) error {
	return errors.Join(d.stop(), d.room.close(ctx), d.redis.Close())
}

// sum asks the engine for a sum's answer until it gives one.
func (d door) sum(ctx context.Context, token string) (answer string, err error) {
	for {
		_, answer, err = d.Captcha(ctx, d.number, token)
		if !errors.Is(err, seckill.ErrBusy) || ctx.Err() != nil {
			return answer, err
		}
		pause(ctx, again)
	}
}

// counter counts the commands of a client.
type counter struct{ n atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// gateFactor is the shop's default: addresses alive at once, per unit left.
const gateFactor = 5

// address asks the engine for a hidden address until it answers: a machine that stands still for a moment is no part of the
// experiment.
func (d door) address(ctx context.Context, user int64, token, captcha string) (path string, err error) {
	for {
		path, _, err = d.Path(ctx, d.number, user, token, captcha)
		if !errors.Is(err, seckill.ErrBusy) || ctx.Err() != nil {
			return path, err
		}
		pause(ctx, again)
	}
}
