package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// moveAfterRead is a hook of a Redis client. It changes the gate's ops, as settling does, after each of the first moves
// reads of the gate.
type moveAfterRead struct {
	s            *shop
	moves, reads int
}

func (m *moveAfterRead) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *moveAfterRead) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (m *moveAfterRead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[0].Name() != "hmget" { // it publishes what it has read
			return err
		}
		if m.reads++; m.reads <= m.moves {
			m.s.rdb.HIncrBy(ctx, gate.GateKey(m.s.sale), "ops", 1)
		}
		return err
	}
}

// A gate that moves while it is compared with Postgres is fixed in the same tick, unless it moves at every try.
func TestMovingGateIsFixedInOneTick(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	client := s.client(s.redis)
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = client })
	s.awaitGate()
	e.stop()
	m := &moveAfterRead{s: s}
	client.AddHook(m)
	for moves, want := range map[int]int{0: 10, 1: 10, 3: 10, 100: 4} {
		if err := s.rdb.HSet(t.Context(), gate.GateKey(s.sale), "stock", 4).Err(); err != nil {
			t.Fatal(err)
		}
		m.moves, m.reads = moves, 0
		e.ReadGates()
		e.Reconcile(t.Context())
		if got := s.gateState().Stock; got != want {
			t.Errorf("after %d moves the gate has %d units, want %d", moves, got, want)
		}
		if drift := s.metric(e, "miaosha_reconcile_drift_units").Gauge.GetValue(); drift != float64(10-want) {
			t.Errorf("after %d moves the metric says that %v units are wrong, want %d", moves, drift, 10-want)
		}
		if want := min(moves+1, 4); m.reads != want {
			t.Errorf("with %d moves the gate was read %d times, want %d", moves, m.reads, want)
		}
	}
	client.Close()
	e.Reconcile(t.Context())
	if testutil.CollectAndCount(collector(e.Collectors()), "miaosha_reconcile_drift_units") != 0 {
		t.Error("the metric says how many units are wrong while the gate cannot be read")
	}
}

// collector is several collectors as one.
type collector []prometheus.Collector

func (all collector) Describe(out chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(out)
	}
}

func (all collector) Collect(out chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(out)
	}
}

// A state that is set in Postgres with a new epoch reaches the gate.
func TestAStateChangeReachesTheGate(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1000)
	e := s.start(nil)
	s.awaitGate()
	user := int64(0)
	for _, c := range []struct {
		state string
		want  error
	}{{goods.Paused, goods.ErrPaused}, {goods.Published, nil}, {goods.Closed, goods.ErrEnded}} {
		s.setState(c.state)
		s.now(e.ReconcileNow)
		s.awaitFollowed()
		user++
		if _, err := s.retryBuy(e, user); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("the sale is %s, and a buyer hears %v, want %v", c.state, err, c.want)
		}
	}
	s.wantConsistent()
}

// What is changed by plain SQL reaches the gate, whatever it is and wherever it moves the sale, while a crowd buys: then the
// gate grants no ticket that the row does not allow.
func TestChangesByPlainSQLReachTheGate(t *testing.T) {
	t.Parallel()
	const open = `state = 'published', starts_at = now() - interval '1 h', ends_at = now() + interval '1 h'`
	for _, test := range []struct {
		set   string
		reply error  // to a newcomer's click
		also  string // what became of tickets that are no order
	}{
		{`state = 'paused'`, goods.ErrPaused, ""},
		{`state = 'closed'`, goods.ErrEnded, seckill.Closed},
		{`state = 'draft'`, goods.ErrPaused, ""},
		{`ends_at = starts_at + interval '1 s'`, goods.ErrEnded, ""},
		{`starts_at = now() - interval '9 days', ends_at = now() - interval '8 days'`, goods.ErrEnded, ""},
		{`starts_at = now() + interval '1 day', ends_at = now() + interval '2 days'`, goods.NotStartedError{}, ""},
		{`starts_at = now() + interval '5 min'`, goods.NotStartedError{}, ""},
		{`total = total - stock`, goods.ErrSoldOut, seckill.SoldOut},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 100_000)
			at := []*process{s.start(nil), s.start(nil)}
			s.awaitGate()
			crowd, stop := s.buyOn(at)
			sandboxtest.Until(t, "the crowd buys", func() bool { return s.stock() < 99_980 })
			// The crowd's batches hold the row. A person at psql tries again after a time limit.
			sandboxtest.Until(t, "the sale is changed", func() bool {
				_, err := s.db.Exec(t.Context(), `update sales set `+test.set+` where id = $1`, s.sale)
				if pg := new(pgconn.PgError); err != nil && !(errors.As(err, &pg) && pg.Code == "55P03") {
					t.Fatal(err)
				}
				return err == nil
			})
			s.awaitFollowed()
			for user := range int64(3) {
				_, err := s.retryBuy(at[user%2], 1_000_000+user)
				if errors.Is(err, goods.ErrNoSale) && errors.Is(test.reply, goods.ErrPaused) { // a process that sells without the gate asks the row
					err = goods.ErrPaused
				}
				if early := new(goods.NotStartedError); !errors.Is(err, test.reply) && !(errors.As(test.reply, early) && errors.As(err, early)) {
					t.Errorf("a newcomer hears %v, want %v", err, test.reply)
				}
			}
			stop()
			for user := range crowd() { // who was accepted before has one final result
				if st := s.awaitResult(at[0], user); st.State != seckill.Ordered && st.State != test.also {
					t.Errorf("user %d was accepted, and is %s", user, st.State)
				}
			}
			s.wantCleanAudit()
			s.exec(`update sales set ` + open + ` where id = $1`)
			s.exec(`update sales set total = total + 5 where id = $1`)
			s.awaitFollowed()
			sandboxtest.Until(t, "a process that sells without the gate has read the sale again", func() bool {
				_, err := s.retryBuy(at[1], 2_000_000)
				return !errors.Is(err, goods.ErrNoSale)
			})
			s.mustBuy(at[1], 2_000_000)
			s.wantConsistent()
		})
	}
}

// A sale is changed while no process runs, or by one that dies before the gate follows. The gate that it left sells nothing once
// the next process has started, wherever the sale is now.
func TestAGateFromBeforeAChangeIsFollowedAfterARestart(t *testing.T) {
	t.Parallel()
	for _, set := range []string{`state = 'draft'`, `state = 'closed'`, `starts_at = now() + interval '1 day', ends_at = now() + interval '2 days'`,
		`starts_at = now() - interval '9 days', ends_at = now() - interval '8 days'`} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 10)
			s.stoppedWithGate()
			s.exec(`update sales set ` + set + ` where id = $1`)
			e := s.start(nil)
			s.awaitFollowed()
			if _, err := e.ReserveAll(t.Context(), s.sale, []int64{1, 2}); err != nil {
				t.Error(err)
			}
			if n := s.gateState().InFlight; n != 0 {
				t.Errorf("the former gate granted %d tickets", n)
			}
		})
	}
}

// Redis comes back with the gate of before a change, long after the sale has left the query of those that are near.
func TestAGateThatComesBackAfterAChangeIsFollowed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	e := s.engineWithGate(nil)
	restore := s.backUpGate()
	s.exec(`update sales set state = 'draft' where id = $1`)
	s.follow(e)
	e.Reconcile(t.Context()) // the sale has left the query
	restore()
	s.follow(e)
}

// A process that has seen a sale follows its change also where the row does not say that a gate may be left, and through an outage
// of Redis.
func TestASaleThatWasSeenIsFollowed(t *testing.T) {
	t.Parallel()
	for _, outage := range []bool{false, true} {
		t.Run(fmt.Sprint("outage=", outage), func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 10)
			rdb, proxy := s.proxied()
			e := s.engineWithGate(rdb)
			if outage {
				proxy.Cut()
			}
			err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
				_, changed := tx.Exec(t.Context(), `update sales set state = 'draft' where id = $1`, s.sale)
				_, forgot := tx.Exec(t.Context(), `update sales set gate_until = null where id = $1`, s.sale)
				return errors.Join(changed, forgot)
			})
			if err != nil {
				t.Fatal(err)
			}
			e.Reconcile(t.Context())
			if outage {
				s.reconnect(proxy)
			}
			s.follow(e)
		})
	}
}

// The tickets of a process that died are settled also where the sale has become a draft since.
func TestTicketsOfASaleThatBecameADraftAreSettled(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	s.reclaimAfter = 50 * time.Millisecond
	s.stoppedWithGate()
	if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1); err != nil {
		t.Fatal(err)
	}
	s.exec(`update sales set state = 'draft', starts_at = now() - interval '9 days', ends_at = now() - interval '8 days' where id = $1`)
	e := s.start(nil)
	s.untilReclaimed(e, "the ticket is settled", func() bool { return s.gateState().InFlight == 0 && s.stock() == 9 })
}

// Sold without Redis, a sale that was changed by plain SQL a moment ago sells no more.
func TestADirectSaleSeesAChangeAtOnce(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]error{`state = 'paused'`: goods.ErrPaused, `state = 'draft'`: goods.ErrNoSale, `ends_at = now()`: goods.ErrEnded} {
		s := newShop(t, 10)
		e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
		s.mustBuy(e, 1)
		s.exec(`update sales set ` + set + ` where id = $1`)
		if _, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", set, err, want)
		}
	}
}

// exec changes the sale by hand.
func (s *shop) exec(sql string) {
	s.Helper()
	if _, err := s.db.Exec(s.Context(), sql, s.sale); err != nil {
		s.Fatal(err)
	}
}

// awaitFollowed waits until the sale's gate has the epoch of its row.
func (s *shop) awaitFollowed() {
	s.Helper()
	epoch := s.epoch()
	sandboxtest.Until(s, "the gate has the row's epoch", func() bool { return s.gateState().Epoch >= epoch })
}

// engineWithGate returns an Engine that does not run and has made ticks until the sale has its gate. A nil rdb is the shop's.
func (s *shop) engineWithGate(rdb redis.UniversalClient) *seckill.Engine {
	s.Helper()
	e := s.engine(func(_ *seckill.Config, d *seckill.Deps) {
		if rdb != nil {
			d.Redis = rdb
		}
	})
	sandboxtest.Until(s, "the sale has a gate", func() bool {
		e.Reconcile(s.Context())
		return s.gateState().Epoch != 0
	})
	return e
}

// follow makes ticks of a process that does not run, until the sale's gate has the epoch of its row.
func (s *shop) follow(e *seckill.Engine) {
	s.Helper()
	epoch := s.epoch()
	sandboxtest.Until(s, "the gate has the row's epoch", func() bool {
		e.Reconcile(s.Context())
		return s.gateState().Epoch >= epoch
	})
}

// epoch returns the epoch of the sale's row.
func (s *shop) epoch() (epoch int64) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), `select epoch from sales where id = $1`, s.sale).Scan(&epoch); err != nil {
		s.Fatal(err)
	}
	return epoch
}

// buyOn lets a crowd of newcomers click until stop is called. accepted returns those who have a ticket.
func (s *shop) buyOn(at []*process) (accepted func() map[int64]bool, stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var crowd sync.WaitGroup
	var mu sync.Mutex
	has := map[int64]bool{}
	for n := range int64(4) {
		crowd.Go(func() {
			for user := n + 1; ctx.Err() == nil; user += 4 {
				if b, err := at[n%2].Buy(ctx, s.sale, user); err == nil && b.Ticket != "" {
					mu.Lock()
					has[user] = true
					mu.Unlock()
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); crowd.Wait() })
	s.Cleanup(stop)
	return func() map[int64]bool { return has }, stop
}

// awaitResult waits for the final result of a user who has a ticket.
func (s *shop) awaitResult(e *process, user int64) (st seckill.Status) {
	s.Helper()
	sandboxtest.Until(s, "a ticket has its result", func() bool {
		st, _ = e.Result(s.Context(), s.sale, user)
		return st.Final()
	})
	return st
}

// Units of cancelled and expired orders are on sale again, and no process still refuses clicks as sold out.
func TestReturnedUnitsAreSoldAgain(t *testing.T) {
	t.Parallel()
	t.Run("cancelled", func(t *testing.T) {
		s := newShop(t, 1)
		e, other := s.start(nil), s.start(nil)
		id := s.mustBuy(e, 1)
		for _, at := range []*process{e, other} {
			s.awaitMark(at, 2)
		}
		if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
			t.Fatal(err)
		}
		s.now(other.ReconcileNow)
		sandboxtest.Until(t, "the gate has the unit", func() bool { return s.gateState().Stock == 1 })
		sandboxtest.Until(t, "both processes sell it", func() bool { return !e.SoldOut(s.sale, 2) && !other.SoldOut(s.sale, 2) })
		if st, err := s.retryBuy(e, 1); err != nil || st.Status.OrderID != id {
			t.Errorf("the buyer who cancelled buys again: %+v, %v, want the old order", st, err)
		}
		s.mustBuy(other, 2)
		s.wantConsistent()
	})
	t.Run("expired", func(t *testing.T) {
		s := newShopWithDeadline(t, 2, time.Millisecond)
		e := s.start(nil)
		s.mustBuy(e, 1)
		s.mustBuy(e, 2)
		expired := 0
		sandboxtest.Until(t, "both orders expire", func() bool {
			n, err := s.orders.Expire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			expired += n
			return expired == 2
		})
		sandboxtest.Until(t, "the gate has both units", func() bool { return s.gateState().Stock == 2 })
		sale, _, err := goods.NewCache(s.sales).Sale(t.Context(), s.sale)
		if err != nil {
			t.Fatal(err)
		}
		sandboxtest.Until(t, "Left returns 2", func() bool { return e.Left(sale) == 2 })
		s.wantConsistent()
	})
}

// A unit that came back is brought to the gate when the Engine is told, and not only with the next tick, also by a process that is not
// the reader of the sale. The look reads no other gate.
func TestAToldEngineBringsTheUnitBack(t *testing.T) {
	t.Parallel()
	s := newShop(t, 2)
	for range 5 {
		s.sell(1)
	}
	start := func() *process {
		e := s.engine(nil)
		e.ReconcileEach(time.Hour)
		p := s.run(e)
		s.now(p.ReconcileNow)
		return p
	}
	start()
	at := start()
	first, second := s.mustBuy(at, 1), s.mustBuy(at, 2)
	cancel := func(user int64, id uuid.UUID) {
		t.Helper()
		sandboxtest.Until(t, "the tickets are acknowledged", func() bool { return s.gateState().InFlight == 0 })
		was := s.gateState().Stock
		if err := s.orders.Cancel(t.Context(), user, id); err != nil {
			t.Fatal(err)
		}
		if n := s.gateState().Stock; n != was {
			t.Fatalf("the gate has %d units before the Engine is told, %d before the order was cancelled", n, was)
		}
	}
	cancel(1, first)
	at.UnitsReturned(s.sale)
	sandboxtest.Until(t, "the gate has the unit", func() bool { return s.gateState().Stock == 1 })

	client, asked := s.client(s.redis), sandboxtest.SyncBuffer{}
	client.AddHook(gatesRead{&asked})
	alone := s.engine(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = client }) // none of its other parts runs
	cancel(2, second)
	alone.UnitsReturned(s.sale)
	alone.BringBack(t.Context())
	if n := s.gateState().Stock; n != 2 {
		t.Errorf("the gate has %d units after the look, want 2", n)
	}
	for _, key := range strings.Fields(asked.String()) {
		if key != gate.GateKey(s.sale) {
			t.Errorf("it reads %s too", key)
		}
	}
}

// gatesRead is a hook of a Redis client that writes down which gates are read.
type gatesRead struct{ to *sandboxtest.SyncBuffer }

func (h gatesRead) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h gatesRead) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h gatesRead) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, c := range cmds {
			if c.Name() == "hmget" {
				fmt.Fprintln(h.to, c.Args()[1])
			}
		}
		return next(ctx, cmds)
	}
}

// A process sells without the gate and dies before it seeds the owner. The next process tells the buyer of the order at
// once, and seeds the gate.
func TestBypassedGateIsSeededByTheNextProcess(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.start(nil)
	s.awaitGate()
	direct := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	id := s.mustBuy(direct, 1)
	direct.stop()
	next := s.start(nil)
	if st, err := next.Result(t.Context(), s.sale, 1); err != nil || st.OrderID != id {
		t.Errorf("at once: %+v, %v, want order %s", st, err, id)
	}
	sandboxtest.Until(t, "the gate knows the owner", func() bool {
		return s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "1").Val() == "O"+id.String()
	})
	s.wantConsistent()
}

// Redis comes back with older data. A buyer who bought in between is still told of the order. The gate learns of that
// owner again, and of the units that are gone.
func TestRolledBackGateIsRepaired(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	s.mustBuy(e, 1)
	sandboxtest.Until(t, "the first ticket is acknowledged", func() bool { return s.gateState().InFlight == 0 })
	restore := s.backUpGate()
	for user := range int64(5) {
		s.mustBuy(e, user+2)
	}
	sandboxtest.Until(t, "all tickets are acknowledged", func() bool { return s.gateState().InFlight == 0 && s.gateState().Stock == 4 })
	s.awaitTick(e)
	proxy.Cut()
	sandboxtest.Until(t, "the outage is noticed", func() bool {
		_, err := e.Result(t.Context(), s.sale, 99)
		return errors.Is(err, seckill.ErrBusy)
	})
	restore()
	if g := s.gateState(); g.Stock != 9 {
		t.Fatalf("the restored gate has %d units, want 9", g.Stock)
	}
	s.reconnect(proxy)
	for user := range int64(6) {
		sandboxtest.Until(t, "a result can be read", func() bool {
			st, err := e.Result(t.Context(), s.sale, user+1)
			if err == nil && st.State != seckill.Ordered {
				t.Errorf("user %d has an order, and the status %s", user+1, st.State)
			}
			return err == nil
		})
	}
	sandboxtest.Until(t, "the gate knows the last buyer", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "6").Val(), "O")
	})
	s.wantConsistent()
}

// Redis comes back without the last ack, and a process has one that Redis never had. It must not make up for the other before the
// process has compared: the gate would look as new as before, and an owner would stay unknown to it.
func TestAnAckDoesNotHideARollback(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	s.mustBuy(e, 1)
	sandboxtest.Until(t, "the first ticket is acknowledged", func() bool { return s.gateState().InFlight == 0 })
	restore := s.backUpGate()
	s.mustBuy(e, 2)
	sandboxtest.Until(t, "the second ticket is acknowledged", func() bool { return s.gateState().InFlight == 0 })
	s.awaitTick(e)
	release := s.lockSale()
	if _, err := s.retryBuy(e, 3); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	release()
	sandboxtest.Until(t, "the third ticket is settled", func() bool { return s.stock() == 7 })
	sandboxtest.Until(t, "its ack has failed, and the outage is noticed", func() bool {
		_, err := e.Result(t.Context(), s.sale, 99)
		return e.KeptAcks() == 1 && errors.Is(err, seckill.ErrBusy)
	})
	restore()
	s.rdb.Del(t.Context(), gate.JournalKey(s.sale))
	s.reconnect(proxy)
	for _, user := range []string{"2", "3"} {
		sandboxtest.Until(t, "the gate knows the order of user "+user, func() bool {
			return strings.HasPrefix(s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), user).Val(), "O")
		})
	}
	s.wantConsistent()
}

// backUpGate returns a function that sets the gate and its tickets back to what they are now.
func (s *shop) backUpGate() (restore func()) {
	s.Helper()
	backup := map[string]map[string]string{}
	for _, k := range []string{gate.GateKey(s.sale), gate.TicketsKey(s.sale)} {
		backup[k] = s.rdb.HGetAll(s.Context(), k).Val()
	}
	return func() {
		for k, fields := range backup {
			s.rdb.Del(s.Context(), k)
			s.rdb.HSet(s.Context(), k, fields)
		}
	}
}

// awaitTick waits until a process has seen the gate as it is.
func (s *shop) awaitTick(e *process) {
	s.Helper()
	sandboxtest.Until(s, "a tick has seen the gate's ops", func() bool { return e.SeenOps(s.sale) == s.gateState().Ops })
}

// Keys of the wrong type in one sale do not keep other gates from being reconciled, and do not open the breaker.
func TestWrongKeysOfOneSaleHarmNoOther(t *testing.T) {
	t.Parallel()
	s := newShop(t, 3)
	now := time.Now()
	other, err := s.sales.Sell(t.Context(), goods.Item{Title: "coffee"},
		goods.Terms{Price: 1, Total: 1, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	e := s.start(nil)
	s.awaitGate()
	id := s.mustBuy(e, 1)
	s.rdb.Del(t.Context(), gate.GateKey(other))
	if err := s.rdb.Set(t.Context(), gate.GateKey(other), "wrong type", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the unit is on sale again", func() bool { return s.gateState().Stock == 3 })
	for range 4 {
		if _, err := e.Buy(t.Context(), other, 2); !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("the sale with the wrong key: %v, want busy", err)
		}
	}
	if b, err := s.retryBuy(e, 2); err != nil || b.Status.State != seckill.Queued {
		t.Errorf("%+v, %v, want a ticket from the gate", b, err)
	}
}
