package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
)

// node is one process of a shop: it has connections of its own, and what it remembers dies with it. Strategies embed it.
type node struct {
	*run
	id       int // from 0; looker for the one that only looks
	strategy Strategy
	db       database
	rdb      redis.UniversalClient // hides the place's

	ctx    context.Context // ends with the node
	stop   context.CancelFunc
	ended  chan error // Run's end
	dead   atomic.Bool
	mu     sync.Mutex
	conns  map[net.Conn]struct{} // to Postgres
	latest int                   // its last step on the tape
}

// errKilled is what a dead node's calls give. To the shop's engine it looks like a sale that isn't there, at which it gives
// up: else it would go on trying for the ten seconds that a process has which is stopped, and not killed.
var errKilled = fmt.Errorf("the process was killed: %w", goods.ErrNoSale)

const looker = -1

// openNode connects a node. conns is how many connections to Postgres it may have.
func (r *run) openNode(ctx context.Context, id, conns int) (n *node, err error) {
	n = &node{run: r, id: id, ended: make(chan error, 1), conns: map[net.Conn]struct{}{}, latest: -1}
	n.ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	cfg, err := pgxpool.ParseConfig(r.stores.DatabaseURL)
	if err != nil {
		return nil, errors.New("the lab's database: not a postgres:// address")
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.RuntimeParams["application_name"] = r.schema
	cfg.ConnConfig.RuntimeParams["search_path"] = r.schema
	if r.way.schema { // the limits that the shop gives its connections
		cfg.ConnConfig.RuntimeParams["statement_timeout"], cfg.ConnConfig.RuntimeParams["lock_timeout"] = "1500", "500"
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return c, n.keep(c)
	}
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return !n.dead.Load(), n.alive() }
	cfg.ConnConfig.Tracer = calls{n}
	if n.db.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	n.db.node = n
	if n.rdb, err = openRedis(r.stores); err != nil {
		n.db.Pool.Close()
		return nil, err
	}
	n.rdb.AddHook(calls{n})
	n.strategy = r.way.open(n)
	return n, nil
}

// Ready opens all of the node's connections, so that the crowd does not pay for that.
func (n *node) Ready(ctx context.Context) error {
	var held []*pgxpool.Conn
	defer func() {
		for _, c := range held {
			c.Release()
		}
	}()
	for range n.db.Config().MaxConns {
		c, err := n.db.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		held = append(held, c)
	}
	return n.rdb.Ping(ctx).Err()
}

func (n *node) keep(c net.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive(); err != nil {
		c.Close()
		return err
	}
	n.conns[c] = struct{}{}
	return nil
}

func (n *node) alive() error {
	if n.dead.Load() {
		return errKilled
	}
	return nil
}

// die is kill -9: connections are gone in the middle of whatever they did, and nobody cleans up.
func (n *node) die() {
	n.dead.Store(true)
	n.mu.Lock()
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	n.stop()
}

// close lets the node finish, unless it is dead, and gives its connections back.
func (n *node) close() error {
	n.stop()
	err := <-n.ended
	n.db.Pool.Close()
	n.rdb.Close()
	if n.dead.Load() {
		return nil
	}
	return err
}

// Prepare does nothing: what most ways need is there.
func (n *node) Prepare(context.Context) error { return nil }

// Run does nothing.
func (n *node) Run(context.Context) error { return nil }

// Left is the item's stock.
func (n *node) Left(ctx context.Context) (left int, err error) {
	return left, n.db.QueryRow(ctx, `select stock from item`).Scan(&left)
}

// think is what a shop does with a click besides counting stock: the price, the address, the coupons. Every way has to do
// it once for each purchase, and it takes each buyer the same millisecond or two in all of them. Where it is done is the way's
// choice: between a read and a write, or before both.
func (n *node) think(ctx context.Context, user int64) {
	d := 500*time.Microsecond + time.Duration(n.luck(user).Int64N(int64(time.Millisecond)))
	defer n.tape.step(n.id, "code", "think about the price, the address, the coupons")("")
	pause(ctx, d)
}

// stall stops one buyer in eight for 50 ms more than a key lives: a garbage collector, a page that was swapped out, a
// virtual machine that was moved. It is made to measure, so that nobody has to wait for a real one.
func (n *node) stall(ctx context.Context, user int64, key string) {
	if n.luck(user+MaxBuyers).IntN(8) != 0 {
		return
	}
	defer n.tape.step(n.id, "code", "the process stands still, for longer than the lock lives")("")
	for ctx.Err() == nil && n.look.rdb.Exists(ctx, key).Val() != 0 {
		pause(ctx, 5*time.Millisecond)
	}
	pause(ctx, 50*time.Millisecond)
}

// luck is a buyer's: the same in every run of a seed, whoever clicks first.
func (r *run) luck(user int64) *rand.Rand { return rand.New(rand.NewPCG(r.plan.Seed, uint64(user))) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ordered tells whether the user has an order.
func ordered(ctx context.Context, q interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, user int64) (has bool, err error) {
	return has, q.QueryRow(ctx, `select exists (select from orders where user_id = $1)`, user).Scan(&has)
}

// redisStock is a node whose units are counted in Redis.
type redisStock struct{ *node }

// Prepare puts the stock into Redis.
func (n redisStock) Prepare(ctx context.Context) error {
	return n.rdb.Set(ctx, n.key("stock"), n.plan.Stock, keyLife).Err()
}

// Left is the stock in Redis.
func (n redisStock) Left(ctx context.Context) (int, error) {
	return n.rdb.Get(ctx, n.key("stock")).Int()
}
