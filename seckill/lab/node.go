package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
)

// Node is one process of a shop, with its own connections and memory. Strategies embed it.
type Node struct {
	*run
	ID       int // from 0, or ObserverID
	strategy Strategy
	DB       database
	Redis    redis.UniversalClient // hides the namespace's

	Ctx      context.Context // ends with the node
	stop     context.CancelFunc
	ended    chan error // receives the result of Run
	dead     atomic.Bool
	mu       sync.Mutex
	conns    map[net.Conn]struct{} // to Postgres
	lastStep int                   // its last step in the recorder
}

// outsideProcess is a Strategy whose node is a process of an outside shop.
type outsideProcess interface {
	StartProcess(ctx context.Context) error // and waits until it can sell
	KillProcess()                           // returns when it is gone
}

// ErrKilled is the error of every call of a dead node. It wraps ErrNoSale, at which the shop's
// engine stops at once; otherwise it would retry for the ten seconds of a graceful stop.
var ErrKilled = fmt.Errorf("the process was killed: %w", goods.ErrNoSale)

const ObserverID = -1 // the id of a run's observer

// openNode connects a node, with at most conns connections to Postgres.
func (r *run) openNode(ctx context.Context, id, conns int) (n *Node, err error) {
	n = &Node{run: r, ID: id, ended: make(chan error, 1), conns: map[net.Conn]struct{}{}, lastStep: -1}
	n.Ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	cfg, err := r.PoolConfig(r.stores, conns)
	if err != nil {
		return nil, err
	}
	if r.spec.Schema { // the limits of the shop's own connections
		cfg.ConnConfig.RuntimeParams["statement_timeout"], cfg.ConnConfig.RuntimeParams["lock_timeout"] = "1500", "500"
	}
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return c, n.addConn(c)
	}
	cfg.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return !n.dead.Load(), n.Alive() }
	cfg.ConnConfig.Tracer = tracer{n}
	if n.DB.Pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	n.DB.node = n
	if n.Redis, err = OpenRedis(r.stores); err != nil {
		n.DB.Pool.Close()
		return nil, err
	}
	n.Redis.AddHook(tracer{n})
	n.strategy = r.spec.Open(n)
	return n, nil
}

// Ready opens all connections of the node, so that the crowd does not wait for them.
func (n *Node) Ready(ctx context.Context) error {
	if err := ConnectAll(ctx, n.DB.Pool); err != nil {
		return err
	}
	return n.Redis.Ping(ctx).Err()
}

// addConn keeps a connection for kill to close. A dead node gets ErrKilled.
func (n *Node) addConn(c net.Conn) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.Alive(); err != nil {
		c.Close()
		return err
	}
	n.conns[c] = struct{}{}
	return nil
}

// Alive returns ErrKilled if the node is dead.
func (n *Node) Alive() error {
	if n.dead.Load() {
		return ErrKilled
	}
	return nil
}

// Kill acts like kill -9: it closes the connections in the middle of their work, without cleanup.
func (n *Node) Kill() {
	n.dead.Store(true)
	n.mu.Lock()
	for c := range n.conns {
		c.Close()
	}
	n.mu.Unlock()
	if p, ok := n.strategy.(outsideProcess); ok {
		p.KillProcess()
	}
	n.stop()
}

// close lets a living node finish, and closes its connections.
func (n *Node) close() error {
	n.stop()
	err := <-n.ended
	n.closeConns()
	if n.dead.Load() {
		return nil
	}
	return err
}

func (n *Node) closeConns() {
	n.stop()
	n.DB.Pool.Close()
	n.Redis.Close()
}

// Prepare does nothing: the tables are enough for most strategies.
func (n *Node) Prepare(context.Context) error { return nil }

// Run does nothing.
func (n *Node) Run(context.Context) error { return nil }

// Left returns the item's stock.
func (n *Node) Left(ctx context.Context) (left int, err error) {
	err = n.DB.QueryRow(ctx, `select stock from item`).Scan(&left)
	return left, err
}

// Step records the start of a step of the node's own code, and returns the function that records its end.
func (n *Node) Step(text string) func(result string) { return n.recorder.step(n.ID, "code", text) }

// LookUpPrice stands for a shop's other work on a click: the price, the address, the coupons. Every
// strategy does it once for each purchase. It takes 0.5 to 1.5 ms, the same for a buyer under every
// strategy. The strategy decides where to do it: between a read and a write, or before both.
func (n *Node) LookUpPrice(ctx context.Context, user int64) {
	d := 500*time.Microsecond + time.Duration(n.RNG(user).Int64N(int64(time.Millisecond)))
	defer n.Step("look up the price, the address, the coupons")("")
	Pause(ctx, d)
}

// Stall stops one buyer in eight until 50 ms after a key has expired. It stands for a garbage
// collection, a swapped-out page or a moved virtual machine: real stalls are too rare to wait for.
func (n *Node) Stall(ctx context.Context, user int64, key string) {
	if n.RNG(user+MaxBuyers).IntN(8) != 0 {
		return
	}
	defer n.Step("the process stalls for longer than the lock lives")("")
	for ctx.Err() == nil && n.Observer.Redis.Exists(ctx, key).Val() != 0 {
		Pause(ctx, 5*time.Millisecond)
	}
	Pause(ctx, 50*time.Millisecond)
}

// First reports whether it is called for the first time with a buyer.
func (n *Node) First(user int64) bool {
	_, again := n.hung.LoadOrStore(user, true)
	return !again
}

// Hang lets the first order of one buyer in three run into a time limit of Postgres, which cancels the
// statement. It stands for every order that fails: a deadlock, a full disk, a standby that takes over.
func (n *Node) Hang(ctx context.Context, tx pgx.Tx, user int64) error {
	if n.RNG(user+2*MaxBuyers).IntN(3) != 0 {
		return nil
	}
	if !n.First(user) {
		return nil
	}
	if _, err := tx.Exec(ctx, `set local statement_timeout = 10`); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `select pg_sleep(1)`)
	return err
}

// PressesAgain reports whether a buyer who was told "sold out" at since presses again, after a pause that
// grows. They do so while the page shows units, and under Cancel while it shows none, since some may come
// back; unless its number has not changed for 1.5 s.
func (n *Node) PressesAgain(ctx context.Context, since time.Time, tries int) (again bool, err error) {
	left, changed, err := n.page.get(ctx, n.Observer)
	if err != nil || left <= 0 && !n.Plan.Has(Cancel) || time.Since(since) > patience &&
		time.Since(changed) > patience {
		return false, err
	}
	defer n.Step("the page shows units: wait and press again")(strconv.Itoa(left))
	Pause(ctx, 10*time.Millisecond<<min(tries, 6))
	return true, ctx.Err()
}

const patience = 1500 * time.Millisecond

// shownStock is the stock that the page shows: Postgres' stock, from a cache of 5 ms for all buyers. Its
// reads are not counted.
type shownStock struct {
	mu            sync.Mutex
	left          int
	read, changed time.Time
}

// get returns the number, and when it last changed.
func (p *shownStock) get(ctx context.Context, observer *Node) (left int, changed time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.read) > 5*time.Millisecond {
		before := p.left
		err = observer.DB.QueryRow(ctx, `select stock from item`).Scan(&p.left)
		if p.read = time.Now(); p.left != before {
			p.changed = p.read
		}
	}
	return p.left, p.changed, err
}

// RNG returns a buyer's random numbers. They depend on the seed and the buyer only, not on the
// order of the clicks.
func (r *run) RNG(user int64) *rand.Rand { return rand.New(rand.NewPCG(r.Plan.Seed, uint64(user))) }

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Retry repeats a call while it returns this error: the engine is busy, for example, and a stall of the machine is no
// part of a run.
func Retry(ctx context.Context, busy error, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, busy) || ctx.Err() != nil {
			return err
		}
		Pause(ctx, RetryPause)
	}
}
