package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A shop made slow for measuring pauses before each transaction, and then sells as ever.
func TestSettlePause(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.SettlePause = 300 * time.Millisecond })
	s.ready()
	began := time.Now()
	s.buy(e, 1)
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("bought after %v", took)
	}
	s.wantRest()
}

// The sale itself: 300 people, two clicks each, 50 units.
func TestRush(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		processes int
		gate      string
	}{"one process": {1, "redis"}, "two processes": {2, "redis"}, "no gate": {2, "off"}} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 50)
			var at []*process
			for range c.processes {
				at = append(at, s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = c.gate }))
			}
			s.wantSold(50, s.rush(300, at...))
			if c.gate == "redis" {
				s.wantRest()
			} else if n := s.rdb.Exists(t.Context(), seckill.GateKey(s.sale)).Val(); n != 0 {
				t.Error("a gate came into being")
			}
			s.wantClean()
		})
	}
}

// A bound of one queue place slows the crowd down, and loses nobody and no unit.
func TestRushThroughANarrowQueue(t *testing.T) {
	t.Parallel()
	s := newShop(t, 20)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax = 1 })
	s.wantSold(20, s.rush(40, e))
	s.wantRest()
}

func TestWithoutAGateTheAnswerIsFinal(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	b, err := e.Buy(t.Context(), s.sale, 1)
	if err != nil || b.Status.State != seckill.Ordered || b.Status.NextPoll != 0 {
		t.Fatalf("%+v, %v, want an order", b, err)
	}
	if again, err := e.Buy(t.Context(), s.sale, 1); err != nil || again.Status.OrderID != b.Status.OrderID {
		t.Errorf("%+v, %v, want the same order", again, err)
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("%+v, %v, want sold out", b, err)
	}
	s.set(goods.Paused)
	if b, err := e.Buy(t.Context(), s.sale, 3); !errors.Is(err, goods.ErrPaused) {
		t.Errorf("%+v, %v, want paused", b, err)
	}
	s.set(goods.Closed)
	if b, err := e.Buy(t.Context(), s.sale, 3); !errors.Is(err, goods.ErrEnded) {
		t.Errorf("%+v, %v, want ended", b, err)
	}
	if b, err := e.Buy(t.Context(), s.sale+1, 3); !errors.Is(err, goods.ErrNoSale) {
		t.Errorf("%+v, %v, want no sale", b, err)
	}
	s.wantClean()
}

// Who clicks again while his click is being worked on waits for that one's answer: one place is taken, however many ask,
// and whoever of them stays hears it.
func TestOneClickOfAUserIsInFlight(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" }) // the answer waits for Postgres
	release := s.hold()
	buy := func(ctx context.Context) chan error {
		answer := make(chan error, 1)
		go func() {
			b, err := e.Buy(ctx, s.sale, 1)
			if err == nil && b.Status.State != seckill.Ordered {
				err = fmt.Errorf("state %s", b.Status.State)
			}
			answer <- err
		}()
		return answer
	}
	leaves, leave := context.WithCancel(t.Context())
	first := buy(leaves)
	s.until(5*time.Second, "the first click is being worked on", func() bool { return s.placesTaken(e) == 1 })
	stays := buy(t.Context())
	var others errgroup.Group
	for range 50 {
		others.Go(func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := e.Buy(ctx, s.sale, 1); !errors.Is(err, seckill.ErrBusy) {
				return fmt.Errorf("who has 20 ms hears %v, want busy", err)
			}
			return nil
		})
	}
	if err := others.Wait(); err != nil {
		t.Error(err)
	}
	leave()
	if err := <-first; !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("who leaves hears %v", err)
	}
	release()
	if err := <-stays; err != nil {
		t.Errorf("who stays hears %v, want an order", err)
	}
	if n := s.placesTaken(e); n != 1 {
		t.Errorf("%v places in the lane, want 1", n)
	}
}

// placesTaken is how many clicks the process's lanes have worked on.
func (s *shop) placesTaken(e *process) (sum float64) {
	s.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	all, err := registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "miaosha_lane_batch_users" {
			return m.Metric[0].Histogram.GetSampleSum()
		}
	}
	s.Fatal("the lanes' clicks are not counted")
	return 0
}

// A sale's first click comes before anybody has set its gate up, and after Redis has lost it.
func TestFirstClickMakesTheGate(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(nil)
	for user := int64(1); user <= 3; user++ {
		if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if b, err := e.Buy(t.Context(), s.sale, user); err != nil {
			t.Fatalf("%+v, %v", b, err)
		}
		s.buy(e, user)
	}
	s.wantRest()
	if g := s.gate(); g.Stock != 2 {
		t.Errorf("%+v, want 2 units", g)
	}
}

// Redis loses everything while the tickets wait, and again and again while they are settled. Nobody who has an order is
// ever told that he has none.
func TestRedisForgets(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.ready()
	release := s.hold()
	told := make(chan []seckill.Status, 1)
	go func() { told <- s.rush(300, e) }()
	s.until(10*time.Second, "all places are given", func() bool { return s.gate().Waiting == 50 })
	queued := int64(0)
	for user := int64(1); user <= 300; user++ {
		if st, err := e.Result(t.Context(), s.sale, user); err == nil && st.State == seckill.Queued {
			queued = user
		}
	}
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if st, err := e.Result(t.Context(), s.sale, queued); err != nil || st.State != seckill.Queued {
		t.Errorf("user %d waits here still, and is told %v, %v", queued, st, err)
	}
	release()
	for range 20 {
		for user, id := range s.owners() {
			if st, err := e.Result(t.Context(), s.sale, user); err == nil && st.State != seckill.Queued && st.OrderID != id {
				t.Errorf("user %d has order %s and is told %s %s", user, id, st.State, st.OrderID)
			}
		}
		if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	s.wantSold(50, <-told)
	s.wantRest()

	// Lost once more, at rest: the new gate knows everybody before it is there.
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.ready()
	for user, id := range s.owners() {
		if st, err := e.Result(t.Context(), s.sale, user); err != nil || st.OrderID != id {
			t.Errorf("user %d has order %s, and the new gate says %+v, %v", user, id, st, err)
		}
	}
}

// A gate that is set up anew knows everybody who has an order, also who bought between the look at the orders and the
// installing; and if Redis loses it between, there is no gate rather than one that knows nobody.
func TestRebuildMissesNobody(t *testing.T) {
	t.Parallel()
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprint("flush=", flush), func(t *testing.T) {
			s := newShop(t, 5)
			e, err := seckill.New(seckill.Config{Captcha: "off", Gate: "redis", GateFactor: 5, PathTTL: time.Minute, MaxInFlight: 9, QMax: 9},
				seckill.Deps{DB: s.pool("settle", "lock_timeout", "0", "statement_timeout", "0"), Redis: s.rdb, Sales: s.sales,
					Cache: goods.NewCache(s.sales), Orders: s.orders, Secret: []byte("a secret of thirty-two bytes ...."), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			release, rebuilt := s.hold(), make(chan error, 1)
			go func() { rebuilt <- e.Rebuild(context.WithoutCancel(t.Context()), s.sale) }()
			s.until(5*time.Second, "the rebuild waits for the row", func() bool { return s.waiting("settle") == 1 })
			// What the transaction before ours did, and what its process tells the gate.
			id, ticket := uuid.New(), "1:1-1:"+uuid.NewString()
			if _, err := s.db.Exec(t.Context(), `insert into orders (id, user_id, sale_id, ticket, title, price, expires_at)
				values ($1, 7, $2, $3, 'tea', 1, now() + interval '1 hour')`, id, s.sale, ticket); err != nil {
				t.Fatal(err)
			}
			if err := seckill.Tell(t.Context(), s.rdb, s.sale, order.Result{Ticket: ticket, UserID: 7, Outcome: order.Ordered, OrderID: id}); err != nil {
				t.Fatal(err)
			}
			if flush {
				s.rdb.FlushDB(t.Context())
			}
			release()
			err = <-rebuilt
			if flush {
				if g := s.gate(); err == nil || g.Epoch != "" {
					t.Errorf("a gate that knows nobody: %+v, %v", g, err)
				}
				err = e.Rebuild(t.Context(), s.sale)
			}
			if err != nil {
				t.Fatal(err)
			}
			if has := s.rdb.HGet(t.Context(), seckill.TicketsKey(s.sale), "7").Val(); has != "O"+id.String() || s.gate().Stock != 5 {
				t.Errorf("the gate knows of user 7 %q, want order %s", has, id)
			}
		})
	}
}

// waiting is how many connections of that name wait for a lock.
func (s *shop) waiting(name string) (n int) {
	s.Helper()
	if err := s.db.QueryRow(s.Context(), `select count(*) from pg_stat_activity
		where datname = current_database() and application_name = $1 and wait_event_type = 'Lock'`, name).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// What a process leaves when it dies is settled by another: tickets it was given, and tickets nobody was given.
func TestTicketsOfTheDead(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.idle = 20 * time.Millisecond
	e := s.start(nil)
	s.ready()
	for user := int64(1); user <= 3; user++ {
		if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, user); err != nil {
			t.Fatal(err)
		}
		switch user {
		case 2: // as if the reserve script had died before it read
			if err := s.rdb.XGroupDestroy(t.Context(), seckill.JournalKey(s.sale), "settle").Err(); err != nil {
				t.Fatal(err)
			}
			if err := s.rdb.XGroupCreate(t.Context(), seckill.JournalKey(s.sale), "settle", "0").Err(); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := s.rdb.XGroupDestroy(t.Context(), seckill.JournalKey(s.sale), "settle").Err(); err != nil {
				t.Fatal(err)
			}
		}
		s.until(6*time.Second, fmt.Sprintf("user %d has an order", user), func() bool {
			st, err := e.Result(t.Context(), s.sale, user)
			return err == nil && st.State == seckill.Ordered
		})
	}
	s.wantRest()
	if g := s.gate(); g.Stock != 2 {
		t.Errorf("%+v, want 2 units", g)
	}
}

// Poison ends in the dead stream; who was in one batch with it has his order.
func TestPoison(t *testing.T) {
	t.Parallel()
	s := newShop(t, 9)
	s.idle = 20 * time.Millisecond
	first := s.start(nil)
	s.ready()
	first.stop()
	for _, user := range []int64{1, 0, 2, -5, 3} {
		if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, user); err != nil {
			t.Fatal(err)
		}
	}
	for _, garbage := range [][]string{{"x", "y"}, {"user", "7", "epoch", "1", "nonce", "\x00"}, {"user", "8", "epoch", "1", "nonce", strings.Repeat("n", 5000)}} {
		if err := s.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: seckill.JournalKey(s.sale), Values: garbage}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	e := s.start(nil)
	s.until(10*time.Second, "nothing waits", func() bool { return s.gate().Waiting == 0 })
	s.wantRest()
	if owners := s.owners(); len(owners) != 3 {
		t.Errorf("owners %v, want users 1, 2, 3", owners)
	}
	dead, err := s.rdb.XRange(t.Context(), seckill.DeadKey(s.sale), "-", "+").Result()
	if err != nil || len(dead) != 5 {
		t.Errorf("%d in the dead stream, %v, want 5: %v", len(dead), err, dead)
	}
	for user, want := range map[int64]string{1: seckill.Ordered, 2: seckill.Ordered, 3: seckill.Ordered, -5: seckill.Invalid} {
		if st, err := e.Result(t.Context(), s.sale, user); err != nil || st.State != want {
			t.Errorf("user %d: %+v, %v, want %s", user, st, err, want)
		}
	}

	// A ticket that Postgres refuses even to refuse doesn't hold up its sale.
	results, stop := e.Watch(s.sale, 9)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	e.Settle(ctx, s.sale, order.Ticket{ID: "1:1-1:\x00", UserID: 9})
	select {
	case st := <-results:
		if st.State != seckill.Invalid {
			t.Errorf("its owner is told %s", st.State)
		}
	default:
		t.Error("its owner is told nothing")
	}
}

// A paused sale's tickets are settled, a closed one's are not.
func TestTicketsOfASaleThatStops(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{goods.Paused: seckill.Ordered, goods.Closed: seckill.Shut} {
		t.Run(state, func(t *testing.T) {
			s := newShop(t, 5)
			s.idle = 20 * time.Millisecond
			first := s.start(nil)
			s.ready()
			first.stop()
			if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1); err != nil {
				t.Fatal(err)
			}
			s.set(state)
			e := s.start(nil)
			if st := s.final(e, 1); st.State != want {
				t.Errorf("%s, want %s", st.State, want)
			}
			s.wantRest()
		})
	}
}

// A state set in Postgres, with its new epoch, reaches the gate.
func TestLatencyUntilTheGateKnowsAState(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1000)
	e := s.start(nil)
	s.ready()
	user := int64(0)
	for _, c := range []struct {
		state string
		want  error
	}{{goods.Paused, goods.ErrPaused}, {goods.Published, nil}, {goods.Closed, goods.ErrEnded}} {
		s.set(c.state)
		s.until(2*time.Second, "the gate is "+c.state, func() bool {
			user++
			_, err := e.Buy(t.Context(), s.sale, user)
			return errors.Is(err, c.want) && (err == nil) == (c.want == nil)
		})
	}
	s.wantRest()
}

// Units that come back are on sale again within a second, and the mark "sold out" does not outlive them.
func TestLatencyUntilUnitsComeBack(t *testing.T) {
	t.Parallel()
	t.Run("cancelled", func(t *testing.T) {
		s := newShop(t, 1)
		e, other := s.start(nil), s.start(nil)
		id := s.buy(e, 1)
		for _, at := range []*process{e, other} {
			if _, err := s.insist(at, 2); !errors.Is(err, goods.ErrSoldOut) || !at.SoldOut(s.sale) {
				t.Fatalf("%v and mark %v, want sold out", err, at.SoldOut(s.sale))
			}
		}
		if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
			t.Fatal(err)
		}
		s.until(time.Second, "the gate has it", func() bool { return s.gate().Stock == 1 })
		s.until(time.Second, "both processes sell it", func() bool { return !e.SoldOut(s.sale) && !other.SoldOut(s.sale) })
		if st, err := e.Buy(t.Context(), s.sale, 1); err != nil || st.Status.OrderID != id {
			t.Errorf("who cancelled buys again: %+v, %v, want his old order", st, err)
		}
		s.buy(other, 2)
		s.wantRest()
	})
	t.Run("run out", func(t *testing.T) {
		s := newShopPaying(t, 2, time.Millisecond)
		e := s.start(nil)
		s.buy(e, 1)
		s.buy(e, 2)
		n := 0
		s.until(2*time.Second, "both orders run out", func() bool {
			m, err := s.orders.Expire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += m
			return n == 2
		})
		s.until(time.Second, "the gate has both", func() bool { return s.gate().Stock == 2 })
		sale, _, err := goods.NewCache(s.sales).Sale(t.Context(), s.sale)
		if err != nil {
			t.Fatal(err)
		}
		s.until(time.Second, "it shows", func() bool { return e.Left(sale) == 2 })
		s.wantRest()
	})
}

// Redis goes away in the middle and keeps what it has. The sale goes on without it, exactly; nobody hears a sold out that
// isn't true; and when Redis is back, it knows who bought meanwhile.
func TestRedisGoesAway(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 60), &wire{}
	e := s.start(func(cfg *seckill.Config, d *seckill.Deps) { d.Redis, cfg.Captcha = s.client(w), "math" })
	s.ready()
	id := s.buy(e, 1)
	if err := s.rdb.HSet(t.Context(), seckill.TicketsKey(s.sale), "2", "Xsold_out").Err(); err != nil { // user 2 lost before, and wins now
		t.Fatal(err)
	}
	w.cut(true)
	// As many as there are units: all of them buy.
	told := s.rush(60, e)
	s.wantSold(60, told)
	if st, err := e.Result(t.Context(), s.sale, 1); err != nil || st.OrderID != id {
		t.Errorf("who bought before: %+v, %v", st, err)
	}
	if st, err := e.Result(t.Context(), s.sale, 70); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("of whom nothing is known: %+v, %v, want busy", st, err)
	}
	if _, _, err := e.Captcha(t.Context(), s.sale, "token"); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("captcha: %v, want busy", err)
	}
	if _, _, err := e.Path(t.Context(), s.sale, 70, "token", "1"); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("address: %v, want busy", err)
	}
	if _, err := s.insist(e, 70); !errors.Is(err, goods.ErrSoldOut) {
		t.Errorf("user 70: %v, want sold out", err)
	}
	w.cut(false)
	s.until(5*time.Second, "the gate is asked again", func() bool {
		if st, err := e.Result(t.Context(), s.sale, 2); err == nil && st.State != seckill.Ordered {
			t.Errorf("user 2 bought while Redis was away, and is told %+v", st)
		}
		st, err := e.Result(t.Context(), s.sale, 71)
		return err == nil && st.State == seckill.None
	})
	for user, id := range s.owners() {
		if st, err := e.Result(t.Context(), s.sale, user); err != nil || st.OrderID != id {
			t.Errorf("user %d has order %s and is told %+v, %v", user, id, st, err)
		}
	}
	s.wantRest()
	s.until(time.Second, "the gate knows 60 users, beside the founding field", func() bool {
		return s.rdb.HLen(t.Context(), seckill.TicketsKey(s.sale)).Val() == 61
	})
}

// A fault of Redis is never a sold out, whichever call meets it.
func TestFaultsReadAsBusy(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 5), &wire{}
	s.idle = 100 * time.Millisecond
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = s.client(w) })
	s.ready()
	for i := range int64(40) {
		w.cut(i%2 == 0)
		if b, err := e.Buy(t.Context(), s.sale, 1); err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("buy: %+v, %v", b, err)
		}
		if st, err := e.Result(t.Context(), s.sale, i+1); err != nil && !errors.Is(err, seckill.ErrBusy) || err == nil && (st.State == seckill.SoldOut || st.State == seckill.Invalid) {
			t.Errorf("result: %+v, %v", st, err)
		}
		if _, _, err := e.Path(t.Context(), s.sale, i+1, "token", ""); err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("address: %v", err)
		}
	}
	w.cut(false)
	s.buy(e, 1)
	s.wantRest()
	if n := s.stock(); n != 4 {
		t.Errorf("%d units left, want 4", n)
	}
}

// While one call tries whether Redis is back, the sale goes on without it.
func TestBuyDuringAProbe(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 5), &wire{}
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = s.client(w) })
	s.ready()
	w.cut(true)
	s.until(5*time.Second, "the breaker is open", func() bool {
		done, ok := e.Probe()
		if ok {
			done(errCut)
		}
		return !ok
	})
	var done func(error)
	s.until(5*time.Second, "the breaker lets us try", func() (ok bool) {
		done, ok = e.Probe()
		return ok
	})
	b, err := e.Buy(t.Context(), s.sale, 1)
	if err != nil || b.Status.State != seckill.Ordered {
		t.Errorf("%+v, %v, want an order", b, err)
	}
	w.cut(false)
	done(nil)
	s.wantRest()
}

// The reply to a reserve call is lost; the client calls again and the buyer notices nothing.
func TestReplyIsLost(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 5), &wire{}
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = s.client(w) })
	s.ready()
	w.mu.Lock()
	w.lose = 1
	w.mu.Unlock()
	if b, err := e.Buy(t.Context(), s.sale, 1); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want a ticket", b, err)
	}
	if w.lose != 0 {
		t.Fatal("no reply was lost")
	}
	s.buy(e, 1)
	s.wantRest()
	if n := s.stock(); n != 4 {
		t.Errorf("%d units left, want 4", n)
	}
}

// Postgres throws the settling out again and again, in the middle of transactions and at their commit. On a quick machine all
// may be sold before anybody was killed; then it is tried again.
func TestPostgresThrowsUsOut(t *testing.T) {
	t.Parallel()
	for range 5 {
		if throwOut(t) > 0 {
			return
		}
	}
	t.Error("none was killed")
}

func throwOut(t *testing.T) (killed int) {
	s := newShop(t, 200)
	a, b := s.start(nil), s.start(nil)
	s.ready()
	var killing errgroup.Group
	sold := make(chan struct{})
	killing.Go(func() error {
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for rounds := 0; rounds < 150; { // from the first kill on: on a busy machine the crowd is late
			select {
			case <-sold:
				return nil
			case <-tick.C:
			}
			var n int
			if err := s.db.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and application_name = 'settle' and state <> 'idle'`).Scan(&n); err != nil {
				return err
			}
			if killed += n; killed > 0 {
				rounds++
			}
		}
		return nil
	})
	told := s.rush(300, a, b)
	close(sold)
	if err := killing.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d connections killed", killed)
	s.wantSold(200, told)
	s.wantRest()
	// A grant whose answer was lost on a busy machine is taken over as well: that batch was never here before.
	if log := s.log.String(); strings.Contains(log, "claimed") && !strings.Contains(log, "doing=reserve") {
		t.Error("a batch was given up, and claimed again later")
	}
	return killed
}

// At the stop what is queued is settled, and whoever comes later is told.
func TestStopSettlesWhatIsQueued(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.ready()
	release := s.hold()
	for user := range int64(30) {
		if b, err := s.insist(e, user+1); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("user %d: %+v, %v", user+1, b, err)
		}
	}
	stopped := make(chan struct{})
	go func() { e.stop(); close(stopped) }()
	s.until(5*time.Second, "nobody is taken in any more", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.Buy(ctx, s.sale, 1)
		return errors.Is(err, seckill.ErrBusy) && ctx.Err() == nil
	})
	select {
	case <-stopped:
		t.Error("stopped with tickets in the queue")
	default:
	}
	release()
	<-stopped
	if n := len(s.owners()); n != 30 {
		t.Errorf("%d orders, want 30", n)
	}
	if g := s.gate(); g.Waiting != 0 {
		t.Errorf("%d wait in the journal", g.Waiting)
	}
	s.wantClean()
}

// Nothing that Run has begun goes on after it, a rebuild that waits for the row included.
func TestNothingRunsAfterRun(t *testing.T) {
	s := newShop(t, 5)
	db, rdb, cache := s.pool("settle"), s.client(nil), goods.NewCache(s.sales)
	s.stock()
	if _, _, err := cache.Sale(t.Context(), s.sale); err != nil {
		t.Fatal(err)
	}
	before := goleak.IgnoreCurrent()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.DB, d.Redis, d.Cache = db, rdb, cache })
	s.buy(e, 1)
	release := s.hold()
	if err := s.rdb.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.until(5*time.Second, "a rebuild waits for the row", func() bool { return s.waiting("settle") > 0 })
	e.stop()
	if n := s.waiting("settle"); n > 0 {
		t.Errorf("%d connections still wait for the row", n)
	}
	release()
	rdb.Close() // an embedded server has a goroutine for each connection
	s.rdb.Close()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(nil)
	s.ready()
	mine, stop := e.Watch(s.sale, 1)
	defer stop()
	others, stopOthers := e.Watch(s.sale, 2)
	defer stopOthers()
	gone, stopGone := e.Watch(s.sale, 1)
	stopGone()
	b, err := s.insist(e, 1)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case st := <-mine:
		if st.State != seckill.Ordered || st.OrderID != s.owners()[1] {
			t.Errorf("%+v after %+v", st, b)
		}
	case <-time.After(sandboxtest.Within(5 * time.Second)):
		t.Error("no word")
	}
	if len(others) != 0 || len(gone) != 0 {
		t.Error("somebody else heard of it")
	}
}

// The sum is right once; a wrong answer uses it up; it is bound to its session and its sale, and lives a minute.
func TestCaptcha(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	now := time.Now()
	other, err := s.sales.Sell(t.Context(), goods.Item{Title: "milk"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	later, err := s.sales.Sell(t.Context(), goods.Item{Title: "salt"}, goods.Terms{Price: 1, Total: 5, StartsAt: now.Add(time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Captcha = "math" })
	draw := func(sale int64, token string) (answer string) {
		t.Helper()
		if png, told, err := e.Captcha(t.Context(), sale, token); err != nil || len(png) == 0 || told != "" {
			t.Fatalf("%d bytes, %v", len(png), err)
		}
		key := seckill.CaptchaKey(sale, token)
		if left := s.rdb.PTTL(t.Context(), key).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("it lives for %v", left)
		}
		return s.rdb.Get(t.Context(), key).Val()
	}
	try := func(what string, sale int64, token, answer string, want error) {
		t.Helper()
		path, _, err := e.Path(t.Context(), sale, 1, token, answer)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if err == nil {
			if user, err := e.CheckPath(sale, token, path); err != nil || user != 1 {
				t.Errorf("%s: the address is of user %d, %v", what, user, err)
			}
		}
	}
	wrong := seckill.ErrWrongCaptcha
	teller := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Captcha, cfg.CaptchaAnswers = "math", true })
	if _, told, err := teller.Captcha(t.Context(), s.sale, "tool"); err != nil || told == "" || told != s.rdb.Get(t.Context(), seckill.CaptchaKey(s.sale, "tool")).Val() {
		t.Errorf("told %q, %v", told, err)
	}
	try("none drawn", s.sale, "a", "1", wrong)
	try("none drawn, none given", s.sale, "a", "", wrong)
	answer := draw(s.sale, "a")
	try("another session", s.sale, "b", answer, wrong)
	try("another sale", other, "a", answer, wrong)
	try("right", s.sale, "a", answer, nil)
	try("right again", s.sale, "a", answer, wrong)
	answer = draw(s.sale, "a")
	try("wrong", s.sale, "a", answer+"0", wrong)
	try("right after wrong", s.sale, "a", answer, wrong)
	answer = draw(s.sale, "a")
	try("nothing", s.sale, "a", "", wrong)
	try("right after nothing", s.sale, "a", answer, wrong)
	old := draw(s.sale, "a")
	answer = draw(s.sale, "a")
	if old != answer {
		try("of an older picture", s.sale, "a", old, wrong)
	}
	// Of a picture and words only the one drawn last counts, and words follow the same rules.
	inWords := func(sale int64, token string) (answer string) {
		t.Helper()
		zh, _, err := e.CaptchaWords(t.Context(), sale, token, true)
		if err != nil || strings.Trim(zh, "零一二三四五六七八九十百千万加减") != "" {
			t.Fatalf("%q, %v", zh, err)
		}
		en, told, err := e.CaptchaWords(t.Context(), sale, token, false)
		if err != nil || told != "" || !strings.Contains(en, " thousand ") {
			t.Fatalf("%q, %q, %v", en, told, err)
		}
		if left := s.rdb.PTTL(t.Context(), seckill.CaptchaKey(sale, token)).Val(); left <= 50*time.Second || left > time.Minute {
			t.Errorf("it lives for %v", left)
		}
		answer, _, _ = strings.Cut(s.rdb.Get(t.Context(), seckill.CaptchaKey(sale, token)).Val(), " ")
		return answer
	}
	old = draw(s.sale, "a")
	if answer = inWords(s.sale, "a"); old != answer {
		try("of a picture before the words", s.sale, "a", old, wrong)
	}
	answer = inWords(s.sale, "a")
	heard := time.Now()
	try("words, another session", s.sale, "b", answer, wrong)
	try("words, another sale", other, "a", answer, wrong)
	try("words, right", s.sale, "a", answer, nil)
	if took := time.Since(heard); took < 1900*time.Millisecond {
		t.Errorf("words are answered after %v, in which nobody has heard them", took)
	}
	try("words, right again", s.sale, "a", answer, wrong)
	answer = inWords(s.sale, "a")
	try("words, wrong", s.sale, "a", answer+"0", wrong)
	try("words, right after wrong", s.sale, "a", answer, wrong)
	// Too early is told before the sum is looked at, so it is not used up.
	answer = draw(later, "a")
	var early goods.NotStartedError
	if _, _, err := e.Path(t.Context(), later, 1, "a", answer); !errors.As(err, &early) {
		t.Errorf("too early: %v", err)
	}
	if s.rdb.Exists(t.Context(), seckill.CaptchaKey(later, "a")).Val() != 1 {
		t.Error("too early used the sum up")
	}
}

// A batch that is too large for Postgres' pace is settled in smaller ones.
func TestABatchThatTakesTooLongIsHalved(t *testing.T) {
	t.Parallel()
	s := newShop(t, 100)
	if _, err := s.db.Exec(t.Context(), `
		create function slowly() returns trigger language plpgsql as $$ begin perform pg_sleep(0.02); return new; end $$;
		create trigger slowly before insert on orders for each row execute function slowly()`); err != nil {
		t.Fatal(err)
	}
	e := s.start(nil)
	s.ready()
	release := s.hold() // until all wait together
	for user := range int64(100) {
		if b, err := s.insist(e, user+1); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("%+v, %v, want queued", b, err)
		}
	}
	release()
	s.until(30*time.Second, "all have an order", func() bool { return len(s.owners()) == 100 })
	s.wantRest()
}

// While all stores are slow, a click without a gate waits for its turn no longer than any answer may take.
func TestLatencyOfWaitingForTheDirectWay(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.ready()
	free := e.TakeDirect()
	defer free()
	began := time.Now()
	errs := e.ServeDirectly(t.Context(), s.sale, 2500*time.Millisecond)
	if took := time.Since(began); !errors.Is(errs[0], seckill.ErrBusy) || took < 300*time.Millisecond || took > sandboxtest.Within(2*time.Second) {
		t.Errorf("%v after %v, want busy after half a second", errs, took)
	}
}
