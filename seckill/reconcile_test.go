package seckill_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
		if m.reads++; m.reads <= m.moves {
			m.s.rdb.HIncrBy(ctx, gate.GateKey(m.s.sale), "ops", 1)
		}
		return err
	}
}

// Without Redis a doubt does not end: what Redis has not read yet is carried out when it goes on.
func TestADoubtLastsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	s := newShop(t, 10)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	proxy.Cut()
	e.MarkInDoubt(s.sale)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if !e.InDoubt(s.sale) {
			t.Fatal("the doubt is over, and Redis has not replied since")
		}
	}
	s.reconnect(proxy)
	sandboxtest.Until(t, 10*time.Second, "the doubt is over", func() bool { return !e.InDoubt(s.sale) })
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
		e.Reconcile(t.Context())
		if got := s.gateState().Stock; got != want {
			t.Errorf("after %d moves the gate has %d units, want %d", moves, got, want)
		}
		if want := min(moves+1, 4); m.reads != want {
			t.Errorf("with %d moves the gate was read %d times, want %d", moves, m.reads, want)
		}
	}
}

// A state that is set in Postgres with a new epoch reaches the gate within two seconds.
func TestLatencyOfAStateChange(t *testing.T) {
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
		sandboxtest.Until(t, 2*time.Second, "the gate is "+c.state, func() bool {
			user++
			_, err := e.Buy(t.Context(), s.sale, user)
			return errors.Is(err, c.want) && (err == nil) == (c.want == nil)
		})
	}
	s.wantConsistent()
}

// Units of cancelled and expired orders are on sale again within a second at the latest, and no process still refuses clicks as sold out.
func TestLatencyOfReturnedUnits(t *testing.T) {
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
		sandboxtest.Until(t, time.Second, "the gate has the unit", func() bool { return s.gateState().Stock == 1 })
		sandboxtest.Until(t, time.Second, "both processes sell it", func() bool { return !e.SoldOut(s.sale, 2) && !other.SoldOut(s.sale, 2) })
		if st, err := e.Buy(t.Context(), s.sale, 1); err != nil || st.Status.OrderID != id {
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
		sandboxtest.Until(t, 2*time.Second, "both orders expire", func() bool {
			n, err := s.orders.Expire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			expired += n
			return expired == 2
		})
		sandboxtest.Until(t, time.Second, "the gate has both units", func() bool { return s.gateState().Stock == 2 })
		sale, _, err := goods.NewCache(s.sales).Sale(t.Context(), s.sale)
		if err != nil {
			t.Fatal(err)
		}
		sandboxtest.Until(t, time.Second, "Left returns 2", func() bool { return e.Left(sale) == 2 })
		s.wantConsistent()
	})
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
	sandboxtest.Until(t, 2*time.Second, "the gate knows the owner", func() bool {
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
	sandboxtest.Until(t, time.Second, "the first ticket is acknowledged", func() bool { return s.gateState().InFlight == 0 })
	keys := []string{gate.GateKey(s.sale), gate.TicketsKey(s.sale)}
	backup := map[string]map[string]string{}
	for _, k := range keys {
		backup[k] = s.rdb.HGetAll(t.Context(), k).Val()
	}
	for user := range int64(5) {
		s.mustBuy(e, user+2)
	}
	sandboxtest.Until(t, time.Second, "all tickets are acknowledged", func() bool { return s.gateState().InFlight == 0 && s.gateState().Stock == 4 })
	time.Sleep(2 * seckill.ReconcileEvery) // a tick has seen the new ops
	proxy.Cut()
	sandboxtest.Until(t, 5*time.Second, "the outage is noticed", func() bool {
		_, err := e.Result(t.Context(), s.sale, 99)
		return errors.Is(err, seckill.ErrBusy)
	})
	for _, k := range keys {
		s.rdb.Del(t.Context(), k)
		s.rdb.HSet(t.Context(), k, backup[k])
	}
	if g := s.gateState(); g.Stock != 9 {
		t.Fatalf("the restored gate has %d units, want 9", g.Stock)
	}
	s.reconnect(proxy)
	for user := range int64(6) {
		sandboxtest.Until(t, 5*time.Second, "a result can be read", func() bool {
			st, err := e.Result(t.Context(), s.sale, user+1)
			if err == nil && st.State != seckill.Ordered {
				t.Errorf("user %d has an order, and the status %s", user+1, st.State)
			}
			return err == nil
		})
	}
	sandboxtest.Until(t, 2*time.Second, "the gate knows the last buyer", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "6").Val(), "O")
	})
	s.wantConsistent()
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
	sandboxtest.Until(t, 2*time.Second, "the unit is on sale again", func() bool { return s.gateState().Stock == 3 })
	for range 4 {
		if _, err := e.Buy(t.Context(), other, 2); !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("the sale with the wrong key: %v, want busy", err)
		}
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); err != nil || b.Status.State != seckill.Queued {
		t.Errorf("%+v, %v, want a ticket from the gate", b, err)
	}
}
