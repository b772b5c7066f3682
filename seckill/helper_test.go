package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/audit"
	"miaosha/seckill/captcha"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// shop is one sale, its stores, and the processes that sell it.
type shop struct {
	testing.TB
	url    string        // of the database
	db     *pgxpool.Pool // for everything except settling
	redis  string        // URL
	rdb    redis.UniversalClient
	sales  *goods.Store
	orders *order.Store
	sale   int64
	log    *sandboxtest.SyncBuffer
	// reclaimAfter, if set, replaces the time after which a process that does not beat is dead.
	reclaimAfter time.Duration
}

// newShop returns a shop whose sale is open and has stock units.
func newShop(t testing.TB, stock int) *shop { return newShopWithDeadline(t, stock, 15*time.Minute) }

// newShopWithDeadline is newShop with orders that must be paid within payWithin.
func newShopWithDeadline(t testing.TB, stock int, payWithin time.Duration) *shop {
	s := &shop{TB: t, url: sandboxtest.DatabaseURL(t), redis: sandboxtest.RedisURL(t), log: &sandboxtest.SyncBuffer{}}
	s.db, s.rdb = s.pool("test"), s.client(s.redis)
	s.sales, s.orders = goods.New(s.db), order.New(s.db, order.Config{PayWithin: payWithin})
	s.sale = s.sell(stock)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log)
		}
	})
	return s
}

// sell makes another sale, which is open and has stock units.
func (s *shop) sell(stock int) (sale int64) {
	s.Helper()
	now := time.Now()
	sale, err := s.sales.Sell(s.Context(), goods.Item{Title: "tea"},
		goods.Terms{Price: 1, Total: stock, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		s.Fatal(err)
	}
	return sale
}

// pool returns a new pool with the timeouts of the shop's. pg_stat_activity shows its connections under name. params are
// more run-time parameters, in pairs of name and value.
func (s *shop) pool(name string, params ...string) *pgxpool.Pool {
	s.Helper()
	return s.poolAt(s.url, name, params...)
}

// poolAt is pool for another URL of the database.
func (s *shop) poolAt(url, name string, params ...string) *pgxpool.Pool {
	s.Helper()
	cfg, err := pgxpool.ParseConfig(url)
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

// client returns a Redis client with the shop's settings.
func (s *shop) client(url string) redis.UniversalClient {
	s.Helper()
	opt, err := redis.ParseURL(url)
	if err != nil {
		s.Fatal(err)
	}
	opt.ContextTimeoutEnabled, opt.MaxRetries, opt.PoolSize, opt.DialerRetries = true, 1, 64, 1
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second, time.Second // the test machine is busy
	c := redis.NewClient(opt)
	s.Cleanup(func() { c.Close() })
	return c
}

// proxied returns a Redis client whose connections go through a proxy.
func (s *shop) proxied() (redis.UniversalClient, *sandboxtest.Proxy) {
	s.Helper()
	p, url := sandboxtest.ProxyTo(s, s.redis)
	return s.client(url), p
}

// reconnect lets a proxy accept connections again.
func (s *shop) reconnect(p *sandboxtest.Proxy) {
	s.Helper()
	if err := p.Join(); err != nil {
		s.Fatal(err)
	}
}

// process is a running Engine.
type process struct {
	*seckill.Engine
	stop func() // stops Run and waits for its end
}

// start runs an Engine until the test ends, or stop is called. change may be nil.
func (s *shop) start(change func(*seckill.Config, *seckill.Deps)) *process {
	s.Helper()
	e := s.engine(change)
	if s.reclaimAfter > 0 {
		e.ReclaimAfter(s.reclaimAfter)
	}
	return s.run(e)
}

// run is start for an Engine that the test has made.
func (s *shop) run(e *seckill.Engine) *process {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	s.Cleanup(stop)
	return &process{e, stop}
}

// secret returns the secret of this shop alone.
func (s *shop) secret() []byte { return []byte("a secret of thirty-two bytes for " + s.url) }

// engine returns an Engine that does not run yet. change may be nil.
func (s *shop) engine(change func(*seckill.Config, *seckill.Deps)) *seckill.Engine {
	s.Helper()
	cfg := seckill.Config{Gate: "redis", GateFactor: 5, AddressTTL: time.Minute, MaxInFlight: 4096, QMax: 20000, QueueWorkers: 6, Optimisations: seckill.AllOptimisations()}
	deps := seckill.Deps{Redis: s.rdb, Sales: s.sales, Orders: s.orders,
		Secret: s.secret(), Log: slog.New(slog.NewTextHandler(s.log, nil))}
	if change != nil {
		change(&cfg, &deps)
	}
	if deps.DB == nil {
		deps.DB = s.pool("settle")
	}
	if deps.Cache == nil { // created only if needed: a cache has a goroutine until it is collected
		deps.Cache = goods.NewCache(s.sales)
	}
	e, err := seckill.New(cfg, deps)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// sums returns the sums of a process, which tell their answers.
func (s *shop) sums(e *seckill.Engine) *captcha.Sums {
	return captcha.New(captcha.Config{Kind: "math", Answers: true}, goods.NewCache(s.sales), nil, e.Shared())
}

// retryBuy buys again and again until the reply is not busy.
func (s *shop) retryBuy(e *process, user int64) (b seckill.Bought, err error) {
	if !sandboxtest.Poll(func() bool {
		b, err = e.Buy(s.Context(), s.sale, user)
		return !errors.Is(err, seckill.ErrBusy)
	}) {
		s.Errorf("user %d: still busy", user)
	}
	return b, err
}

// awaitFinal waits for a user's final status. It is SoldOut for a user who has no ticket and gets none.
func (s *shop) awaitFinal(e *process, user int64) (st seckill.Status) {
	if !sandboxtest.Poll(func() bool {
		got, err := e.Result(s.Context(), s.sale, user)
		if errors.Is(err, seckill.ErrBusy) {
			return false
		}
		if st = got; err != nil {
			s.Errorf("result of user %d: %v", user, err)
			return true
		}
		if st.NoTicket() { // Redis lost the ticket, or the buy was refused: another buy is safe
			if b, err := s.retryBuy(e, user); errors.Is(err, goods.ErrSoldOut) {
				st = seckill.Status{State: seckill.SoldOut}
			} else if err == nil {
				st = b.Status
			}
		}
		return st.Final()
	}) {
		s.Errorf("user %d is still %s", user, st.State)
	}
	return st
}

// runRush lets users 1 to n click twice each, at all processes in turn, and returns the final status of each.
func (s *shop) runRush(n int64, at ...*process) []seckill.Status {
	s.Helper()
	var crowd errgroup.Group
	statuses := make([]seckill.Status, n)
	for user := range n {
		user, e := user+1, at[int(user)%len(at)]
		crowd.Go(func() error {
			var clicks errgroup.Group
			for i := range 2 {
				clicks.Go(func() error {
					if _, err := s.retryBuy(at[(int(user)+i)%len(at)], user); err != nil && !errors.Is(err, goods.ErrSoldOut) {
						s.Errorf("user %d: %v", user, err)
					}
					return nil
				})
			}
			clicks.Wait()
			statuses[user-1] = s.awaitFinal(e, user)
			return nil
		})
	}
	crowd.Wait()
	return statuses
}

// stock returns sales.stock: the units left according to Postgres.
func (s *shop) stock() (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), `select stock from sales where id = $1`, s.sale).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// lockSale locks the sale's row, so that nothing is settled until release is called.
func (s *shop) lockSale() (release func()) {
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

// setState changes the sale's state as an administrator does, with a new epoch.
func (s *shop) setState(state string) {
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

// now lets a background part run once more. It returns when a round that began after the call has ended.
func (s *shop) now(part func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), sandboxtest.Hang)
	defer cancel()
	if err := part(ctx); err != nil {
		s.Fatal(err)
	}
}

// untilReclaimed lets a process reclaim again and again until ok returns true.
func (s *shop) untilReclaimed(e *process, what string, ok func() bool) {
	s.Helper()
	sandboxtest.Until(s, what, func() bool {
		s.now(e.BeatNow)
		s.now(e.ReclaimNow)
		return ok()
	})
}

// journal returns the entries of the sale's journal.
func (s *shop) journal() []gate.Entry {
	s.Helper()
	entries, _, err := gate.New(s.rdb, "reader", time.Second).Journal(s.Context(), s.sale, 99)
	if err != nil {
		s.Fatal(err)
	}
	return entries
}

// setOwners makes an entry one that has had so many owners, the last of whom is owner.
func (s *shop) setOwners(entry, owner string, n int) {
	s.Helper()
	if err := s.rdb.HSet(s.Context(), gate.TakeoversKey(s.sale), entry, fmt.Sprint(n, " 1000000000000 ", owner)).Err(); err != nil {
		s.Fatal(err)
	}
}

// reclaimAll lets the processes that live take every entry over, as if all other processes were dead.
func (s *shop) reclaimAll(living ...*process) {
	s.Helper()
	lives := func(name string) bool {
		return slices.ContainsFunc(living, func(p *process) bool { return p.Name() == name })
	}
	left := func() []gate.Entry {
		return slices.DeleteFunc(s.journal(), func(entry gate.Entry) bool { return lives(entry.Owner) })
	}
	sandboxtest.Until(s, "the tickets of the dead are taken over", func() bool {
		for _, p := range living {
			for _, entry := range left() {
				_ = p.TakeOverFrom(s.Context(), entry.Owner) // if the queue has no room now, it is tried again
			}
			s.now(p.ReclaimNow)
		}
		return len(left()) == 0
	})
}

// awaitGate waits until the gate is installed.
func (s *shop) awaitGate() {
	s.Helper()
	sandboxtest.Until(s, "the gate is installed", func() bool { return s.gateState().Epoch != 0 })
}

// stoppedWithGate returns a process that has set up the sale's gate, and has stopped.
func (s *shop) stoppedWithGate() *process {
	s.Helper()
	e := s.start(nil)
	s.awaitGate()
	e.stop()
	return e
}

// mustBuy buys, waits for the order and returns its id. The test fails if there is none.
func (s *shop) mustBuy(e *process, user int64) uuid.UUID {
	s.Helper()
	if _, err := s.retryBuy(e, user); err != nil {
		s.Fatalf("user %d: %v", user, err)
	}
	st := s.awaitFinal(e, user)
	if st.State != seckill.Ordered {
		s.Fatalf("user %d: %s, want an order", user, st.State)
	}
	return st.OrderID
}

// bypass returns the counters of the sale's row.
func (s *shop) bypass() (b goods.Bypass) {
	s.Helper()
	err := s.db.QueryRow(s.Context(), `select bypasses, bypasses_known from sales where id = $1`, s.sale).Scan(&b.Bypasses, &b.BypassesKnown)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// awaitMark waits until the process refuses a user's clicks itself, because the sale is sold out.
func (s *shop) awaitMark(e *process, user int64) {
	s.Helper()
	sandboxtest.Until(s, "the lane is marked as sold out", func() bool {
		if _, err := e.Buy(s.Context(), s.sale, user); err != nil && !errors.Is(err, goods.ErrSoldOut) && !errors.Is(err, seckill.ErrBusy) {
			s.Fatal(err)
		}
		return e.SoldOut(s.sale, user)
	})
}

// gateState returns what the gate holds in Redis.
func (s *shop) gateState() gate.State {
	s.Helper()
	gates, err := gate.States(s.Context(), s.rdb, []int64{s.sale})
	if err != nil {
		s.Fatal(err)
	}
	return gates[s.sale]
}

// owners returns the order of each user who has one, according to Postgres.
func (s *shop) owners() map[int64]uuid.UUID {
	s.Helper()
	owners := map[int64]uuid.UUID{}
	all, err := s.orders.Owners(s.Context(), s.sale, "", 0, 1_000_000)
	if err != nil {
		s.Fatal(err)
	}
	for _, o := range all {
		owners[o.UserID] = o.OrderID
	}
	return owners
}

// wantSold checks that n units are sold and none is left, and that statuses, of users 1, 2 and so on, agree with
// Postgres: an owner has the status of the owner's order, any other user has SoldOut.
func (s *shop) wantSold(n int, statuses []seckill.Status) {
	s.Helper()
	owners := s.owners()
	if len(owners) != n || s.stock() != 0 {
		s.Errorf("%d orders and %d units left, want %d and none", len(owners), s.stock(), n)
	}
	for i, st := range statuses {
		id, ordered := owners[int64(i+1)]
		switch {
		case ordered && (st.State != seckill.Ordered || st.OrderID != id):
			s.Errorf("user %d has order %s, and the status %s %s", i+1, id, st.State, st.OrderID)
		case !ordered && st.State != seckill.SoldOut:
			s.Errorf("user %d has no order, and the status %s %s", i+1, st.State, st.OrderID)
		}
	}
}

// wantConsistent waits until the journal is empty and the gate has the stock of Postgres. Then it audits everything.
func (s *shop) wantConsistent() {
	s.Helper()
	sandboxtest.Until(s, "the journal is empty and the gate has the stock of Postgres", func() bool {
		g := s.gateState()
		return g.Epoch != 0 && g.InFlight == 0 && g.Stock == s.stock()
	})
	s.wantCleanAudit()
}

// wantCleanAudit checks that the audit of Postgres and Redis finds nothing.
func (s *shop) wantCleanAudit() {
	s.Helper()
	var findings strings.Builder
	if clean, err := audit.Run(s.Context(), s.db, s.rdb, &findings); err != nil || !clean {
		s.Errorf("audit: %v\n%s", err, &findings)
	}
}

// clicksServed returns how many clicks the process's lanes have begun to serve. A click for which several requests wait
// counts once.
func (s *shop) clicksServed(e *process) float64 {
	s.Helper()
	return s.metric(e, "miaosha_lane_batch_users").Histogram.GetSampleSum()
}

// counted returns the value of a counter without labels.
func (s *shop) counted(e *process, name string) float64 {
	s.Helper()
	return s.metric(e, name).Counter.GetValue()
}

func (s *shop) metric(e *process, name string) *dto.Metric {
	s.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	all, err := registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == name {
			return m.Metric[0]
		}
	}
	s.Fatalf("there is no metric %s", name)
	return nil
}

// holdCommits stops every transaction that has placed an order at its COMMIT, until release is called.
func (s *shop) holdCommits() (release func()) {
	s.Helper()
	conn, err := s.db.Acquire(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if _, err = conn.Exec(s.Context(), `
		create function hold() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock_shared(1); return null; end';
		create constraint trigger hold after insert on orders deferrable initially deferred for each row execute function hold();
		select pg_advisory_lock(1)`); err != nil {
		s.Fatal(err)
	}
	return func() {
		defer conn.Release()
		if _, err := conn.Exec(s.Context(), `select pg_advisory_unlock(1)`); err != nil {
			s.Error(err)
		}
	}
}

// lockWaiters returns how many connections of that name wait for a lock.
func (s *shop) lockWaiters(name string) int { s.Helper(); return s.waiters(name, "%") }

// heldCommits returns how many COMMITs of that name holdCommits has stopped.
func (s *shop) heldCommits(name string) int { s.Helper(); return s.waiters(name, "advisory") }

// waiters returns how many connections of that name wait for a lock of a kind that is like a pattern.
func (s *shop) waiters(name, kind string) (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), `select count(*) from pg_stat_activity
		where datname = current_database() and application_name = $1 and wait_event_type = 'Lock' and wait_event like $2`, name, kind).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}
