package seckill_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/sandbox/sandboxtest"
)

// shop is one sale and what sells it.
type shop struct {
	testing.TB
	url    string        // of the database
	db     *pgxpool.Pool // for all but settling
	redis  string        // URL
	rdb    redis.UniversalClient
	sales  *goods.Store
	orders *order.Store
	sale   int64
	log    *sandboxtest.Tape
	idle   time.Duration // after which an entry is anybody's, unless the shop's
}

func newShop(t testing.TB, stock int) *shop { return newShopPaying(t, stock, 15*time.Minute) }

func newShopPaying(t testing.TB, stock int, within time.Duration) *shop {
	s := &shop{TB: t, url: sandboxtest.DatabaseURL(t), redis: sandboxtest.RedisURL(t), log: &sandboxtest.Tape{}}
	s.db, s.rdb = s.pool("test"), s.client(nil)
	s.sales, s.orders = goods.New(s.db), order.New(s.db, order.Config{PayWithin: within})
	now := time.Now()
	var err error
	s.sale, err = s.sales.Sell(t.Context(), goods.Item{Title: "tea"},
		goods.Terms{Price: 1, Total: stock, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log)
		}
	})
	return s
}

// pool gives connections of their own, under a name that pg_stat_activity shows, limited like the shop's.
func (s *shop) pool(name string, params ...string) *pgxpool.Pool {
	s.Helper()
	cfg, err := pgxpool.ParseConfig(s.url)
	if err != nil {
		s.Fatal(err)
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "1500"
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "500"
	for i := 0; i < len(params); i += 2 {
		cfg.ConnConfig.RuntimeParams[params[i]] = params[i+1]
	}
	db, err := pgxpool.NewWithConfig(s.Context(), cfg)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(db.Close)
	return db
}

// client gives a Redis client set like the shop's, whose connections go through w if there is one.
func (s *shop) client(w *wire) redis.UniversalClient {
	s.Helper()
	opt, err := redis.ParseURL(s.redis)
	if err != nil {
		s.Fatal(err)
	}
	opt.ContextTimeoutEnabled, opt.MaxRetries, opt.PoolSize = true, 1, 64
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second, time.Second // the test machine is busy
	if w != nil {
		opt.Dialer = w.dial
		opt.DialerRetries = 1
	}
	c := redis.NewClient(opt)
	s.Cleanup(func() { c.Close() })
	return c
}

// wire is what lies between a client and Redis, and can be cut.
type wire struct {
	mu    sync.Mutex
	down  bool
	lose  int // replies to be lost
	conns map[*wired]struct{}
}

type wired struct {
	net.Conn
	w *wire
}

var errCut = errors.New("the wire is cut")

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, errCut
	}
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wc := &wired{c, w}
	if w.conns == nil {
		w.conns = map[*wired]struct{}{}
	}
	w.conns[wc] = struct{}{}
	return wc, nil
}

// Read loses a reply, after it has come, if one is to be lost.
func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if err == nil && c.w.lose > 0 && bytes.Contains(b[:n], []byte("NEW ")) {
		c.w.lose--
		c.Conn.Close()
		return 0, errCut
	}
	return n, err
}

func (w *wire) cut(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down = down; down {
		for c := range w.conns {
			c.Conn.Close()
		}
		w.conns = nil
	}
}

// process is a running Engine.
type process struct {
	*seckill.Engine
	stop func() // and wait
}

// start runs an Engine. change may be nil.
func (s *shop) start(change func(*seckill.Config, *seckill.Deps)) *process {
	s.Helper()
	e := s.engine(change)
	if s.idle > 0 {
		e.ReclaimAfter(s.idle)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("Run: %v", err)
		}
	})
	s.Cleanup(stop)
	return &process{e, stop}
}

// engine makes an Engine, which does nothing until it runs. change may be nil.
func (s *shop) engine(change func(*seckill.Config, *seckill.Deps)) *seckill.Engine {
	s.Helper()
	cfg := seckill.Config{Captcha: "off", Gate: "redis", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 4096, QMax: 20000}
	deps := seckill.Deps{Redis: s.rdb, Sales: s.sales, Orders: s.orders,
		Secret: []byte("a secret of thirty-two bytes ...."), Log: slog.New(slog.NewTextHandler(s.log, nil))}
	if change != nil {
		change(&cfg, &deps)
	}
	if deps.DB == nil {
		deps.DB = s.pool("settle")
	}
	if deps.Cache == nil { // made only if needed: it has a goroutine until it is collected
		deps.Cache = goods.NewCache(s.sales)
	}
	e, err := seckill.New(cfg, deps)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// until asks again and again until ok, and fails when that is not within limit.
func (s *shop) until(limit time.Duration, what string, ok func() bool) {
	s.Helper()
	if limit = sandboxtest.Within(limit); !poll(limit, ok) {
		s.Fatalf("not within %v: %s", limit, what)
	}
}

func poll(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// insist buys until the answer is anything but busy.
func (s *shop) insist(e *process, user int64) (b seckill.Bought, err error) {
	if !poll(15*time.Second, func() bool {
		b, err = e.Buy(s.Context(), s.sale, user)
		return !errors.Is(err, seckill.ErrBusy)
	}) {
		s.Errorf("user %d hears busy for 15 s", user)
	}
	return b, err
}

// final waits for a user's last word: his final result, or sold out for one without a ticket.
func (s *shop) final(e *process, user int64) (st seckill.Status) {
	if !poll(15*time.Second, func() bool {
		if got, err := e.Result(s.Context(), s.sale, user); err == nil {
			st = got
		} else if !errors.Is(err, seckill.ErrBusy) {
			s.Errorf("result of user %d: %v", user, err)
			return true
		}
		if st.State == seckill.None { // lost with Redis, or refused: asking again is safe
			if b, err := s.insist(e, user); errors.Is(err, goods.ErrSoldOut) {
				st = seckill.Status{State: seckill.SoldOut}
			} else if err == nil {
				st = b.Status
			}
		}
		return st.Final()
	}) {
		s.Errorf("user %d is still %s after 15 s", user, st.State)
	}
	return st
}

// rush lets users 1 to n click twice each, at all processes in turn, and gives each one's last word.
func (s *shop) rush(n int64, at ...*process) []seckill.Status {
	s.Helper()
	var crowd errgroup.Group
	last := make([]seckill.Status, n)
	for user := range n {
		user, e := user+1, at[int(user)%len(at)]
		crowd.Go(func() error {
			var clicks errgroup.Group
			for i := range 2 {
				clicks.Go(func() error {
					if _, err := s.insist(at[(int(user)+i)%len(at)], user); err != nil && !errors.Is(err, goods.ErrSoldOut) {
						s.Errorf("user %d: %v", user, err)
					}
					return nil
				})
			}
			clicks.Wait()
			last[user-1] = s.final(e, user)
			return nil
		})
	}
	crowd.Wait()
	return last
}

// stock is the truth.
func (s *shop) stock() (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), `select stock from sales where id = $1`, s.sale).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// hold locks the sale's row, so that nothing is settled until release.
func (s *shop) hold() (release func()) {
	s.Helper()
	tx, err := s.db.Begin(s.Context())
	if err == nil {
		_, err = goods.Lock(s.Context(), tx, s.sale)
	}
	if err != nil {
		s.Fatal(err)
	}
	release = sync.OnceFunc(func() { tx.Rollback(context.WithoutCancel(s.Context())) })
	s.Cleanup(release)
	return release
}

// set changes the sale's state as its administrator does.
func (s *shop) set(state string) {
	s.Helper()
	err := pgx.BeginFunc(s.Context(), s.db, func(tx pgx.Tx) error {
		if _, err := goods.Lock(s.Context(), tx, s.sale); err != nil {
			return err
		}
		if _, err := tx.Exec(s.Context(), `update sales set state = $2 where id = $1`, s.sale, state); err != nil {
			return err
		}
		_, err := goods.NextEpoch(s.Context(), tx, s.sale)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// ready waits until the gate is installed.
func (s *shop) ready() {
	s.Helper()
	s.until(5*time.Second, "the gate is there", func() bool { return s.gate().Epoch != "" })
}

// buy buys, as must be possible, and waits for the order.
func (s *shop) buy(e *process, user int64) uuid.UUID {
	s.Helper()
	if _, err := s.insist(e, user); err != nil {
		s.Fatalf("user %d: %v", user, err)
	}
	st := s.final(e, user)
	if st.State != seckill.Ordered {
		s.Fatalf("user %d: %s, want an order", user, st.State)
	}
	return st.OrderID
}

func (s *shop) gate() seckill.Reading {
	s.Helper()
	gates, err := seckill.ReadGates(s.Context(), s.rdb, []int64{s.sale})
	if err != nil {
		s.Fatal(err)
	}
	return gates[s.sale]
}

// owners gives each user's order.
func (s *shop) owners() map[int64]uuid.UUID {
	s.Helper()
	owners := map[int64]uuid.UUID{}
	all, err := s.orders.Owners(s.Context(), s.sale, "")
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range all {
		owners[o.UserID] = o.OrderID
	}
	return owners
}

// wantSold holds what was sold and what the users were told against each other: exactly n orders, nothing left, each
// buyer told of his own order and nobody else of any.
func (s *shop) wantSold(n int, told []seckill.Status) {
	s.Helper()
	owners := s.owners()
	if len(owners) != n || s.stock() != 0 {
		s.Errorf("%d orders and %d units left, want %d and none", len(owners), s.stock(), n)
	}
	for i, st := range told {
		id, has := owners[int64(i+1)]
		switch {
		case has && (st.State != seckill.Ordered || st.OrderID != id):
			s.Errorf("user %d has order %s and was told %s %s", i+1, id, st.State, st.OrderID)
		case !has && st.State != seckill.SoldOut:
			s.Errorf("user %d has no order and was told %s %s", i+1, st.State, st.OrderID)
		}
	}
}

// wantRest waits until the journal is empty and the gate has what Postgres has, and then audits everything.
func (s *shop) wantRest() {
	s.Helper()
	s.until(10*time.Second, "the journal is empty and the gate is right", func() bool {
		g := s.gate()
		return g.Epoch != "" && g.Waiting == 0 && g.Stock == s.stock()
	})
	s.wantClean()
}

func (s *shop) wantClean() {
	s.Helper()
	var found strings.Builder
	if clean, err := audit.Run(s.Context(), s.db, s.rdb, &found); err != nil || !clean {
		s.Errorf("audit: %v\n%s", err, &found)
	}
}
