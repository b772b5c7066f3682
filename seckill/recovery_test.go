package seckill_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/sandbox"
	"miaosha/seckill/sandbox/sandboxtest"
)

// What is committed while Redis is away is told to the gate as soon as it answers, long before a claim would.
func TestTheGateIsToldLater(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 10), &wire{}
	s.idle = time.Hour // nobody claims
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = s.client(w) })
	s.ready()
	release := s.hold()
	for user := range int64(5) {
		if b, err := s.insist(e, user+1); err != nil || b.Status.State != seckill.Queued {
			t.Fatalf("%+v, %v, want queued", b, err)
		}
	}
	w.cut(true)
	release()
	s.until(5*time.Second, "the five are sold", func() bool { return s.stock() == 5 })
	if g := s.gate(); g.Waiting != 5 {
		t.Fatalf("%d wait in the journal, want all five: the gate can't know", g.Waiting)
	}
	w.cut(false)
	s.until(2*time.Second, "the gate knows", func() bool { return s.gate().Waiting == 0 })
	for user := range int64(5) {
		if st := s.final(e, user+1); st.State != seckill.Ordered {
			t.Errorf("user %d: %+v", user+1, st)
		}
	}
	s.wantRest()
}

// A ticket whose owners died one after the other is to blame: it gets its no, and the others go on.
func TestATicketThatOutlivesItsOwners(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.idle = 20 * time.Millisecond
	first := s.start(nil)
	s.ready()
	first.stop()
	bad, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1)
	if err != nil {
		t.Fatal(err)
	}
	entry := strings.Split(bad, ":")[1]
	for range seckill.Deliveries - 2 { // with the reserve's own and the claim to come, all that are allowed
		if err := s.rdb.XClaim(t.Context(), &redis.XClaimArgs{Stream: seckill.JournalKey(s.sale), Group: "settle", Consumer: "dead",
			Messages: []string{entry}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 2); err != nil {
		t.Fatal(err)
	}
	second := s.start(nil)
	if st := s.final(second, 2); st.State != seckill.Ordered {
		t.Errorf("the good one is %+v", st)
	}
	if st := s.final(second, 1); st.State != seckill.Ordered {
		t.Errorf("at the last delivery allowed it is %+v, want an order", st)
	}
	s.wantRest()
	second.stop()

	worse, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 3)
	if err != nil {
		t.Fatal(err)
	}
	entry = strings.Split(worse, ":")[1]
	for range seckill.Deliveries - 1 { // one more
		if err := s.rdb.XClaim(t.Context(), &redis.XClaimArgs{Stream: seckill.JournalKey(s.sale), Group: "settle", Consumer: "dead",
			Messages: []string{entry}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	third := s.start(nil)
	if st := s.final(third, 3); st.State != seckill.Invalid {
		t.Errorf("the bad one is %+v, want invalid", st)
	}
	dead := func() int64 { return s.rdb.XLen(t.Context(), seckill.DeadKey(s.sale)).Val() }
	s.until(2*time.Second, "it is buried", func() bool { return dead() > 0 }) // a poll that asks Postgres knows before
	s.wantRest()
	if n := dead(); n != 1 {
		t.Errorf("%d in the dead stream, want 1", n)
	}
}

// Processes that are gone are forgotten by the journal, but not while something is pending under them.
func TestDeadConsumersAreForgotten(t *testing.T) {
	t.Parallel()
	if sandboxtest.Kind() == sandbox.Embedded {
		t.Skip("the embedded Redis, which has one process only, does not say how long a consumer has been silent")
	}
	s := newShop(t, 5)
	e := s.start(nil)
	s.ready()
	e.stop()
	for i, name := range []string{"gone", "gone too", "left something"} {
		ticket, err := seckill.Reserve(t.Context(), s.rdb, name, s.sale, int64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if name != "left something" {
			entry := strings.Split(ticket, ":")[1]
			s.rdb.XAck(t.Context(), seckill.JournalKey(s.sale), "settle", entry)
			s.rdb.XDel(t.Context(), seckill.JournalKey(s.sale), entry)
		}
	}
	names := func() (names []string) {
		all, err := s.rdb.XInfoConsumers(t.Context(), seckill.JournalKey(s.sale), "settle").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			names = append(names, c.Name)
		}
		return names
	}
	if err := seckill.Retire(t.Context(), s.rdb, s.sale, time.Hour); err != nil || len(names()) < 3 {
		t.Errorf("after an hour's silence only: %v, %v", names(), err)
	}
	time.Sleep(2 * time.Millisecond) // Redis measures silence in ms
	if err := seckill.Retire(t.Context(), s.rdb, s.sale, time.Millisecond); err != nil || strings.Join(names(), ",") != "left something" {
		t.Errorf("%v, %v, want who left something alone", names(), err)
	}
	if err := seckill.Retire(t.Context(), s.rdb, s.sale+1, time.Millisecond); err != nil {
		t.Errorf("of a sale without a journal: %v", err)
	}
}

// Who has an order hears of it, though the sale is over, without a gate as with one.
func TestWithoutAGateWhoHasAnOrderHearsOfIt(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	id := s.buy(e, 1)
	s.set(goods.Closed)
	if b, err := e.Buy(t.Context(), s.sale, 1); err != nil || b.Status.OrderID != id {
		t.Errorf("the owner hears %+v, %v, want his order", b.Status, err)
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, goods.ErrEnded) {
		t.Errorf("another hears %+v, %v, want ended", b.Status, err)
	}
}

// Who bought past the gate by a process that died before it told the gate is told so by the next one.
func TestWhoBoughtPastTheGateIsFoundByTheNextProcess(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.start(nil)
	s.ready()
	blind := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = "off" })
	id := s.buy(blind, 1)
	blind.stop()
	next := s.start(nil)
	if st, err := next.Result(t.Context(), s.sale, 1); err != nil || st.OrderID != id {
		t.Errorf("at once: %+v, %v, want his order", st, err)
	}
	s.until(2*time.Second, "the gate knows him", func() bool {
		return s.rdb.HGet(t.Context(), seckill.TicketsKey(s.sale), "1").Val() == "O"+id.String()
	})
	s.wantRest()
}

// What is turned away because something is full is counted.
func TestShedIsCounted(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(func(cfg *seckill.Config, _ *seckill.Deps) { cfg.QMax, cfg.MaxInFlight = 1, 1 })
	s.ready()
	if err := e.Enter(s.sale); err != nil {
		t.Error(err)
	}
	if err := e.Enter(s.sale); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a second one in flight: %v, want busy", err)
	}
	e.Leave()
	release := s.hold()
	s.insist(e, 1)
	if _, err := e.Buy(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("%v, want busy", err)
	}
	if err := e.Enter(s.sale); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("with a full queue: %v, want busy", err)
	}
	release()
	registry := prometheus.NewRegistry()
	registry.MustRegister(e.Collectors()...)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
		# HELP miaosha_shed_total Buy requests told busy because something was full.
		# TYPE miaosha_shed_total counter
		miaosha_shed_total{why="in flight"} 1
		miaosha_shed_total{why="queue"} 2
	`), "miaosha_shed_total"); err != nil {
		t.Error(err)
	}
}

// Redis comes back with what it had a while ago. Who bought since is told of his order all the same, and the gate learns
// of him, and of the units that are gone.
func TestAGateThatIsSetBack(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 10), &wire{}
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = s.client(w) })
	s.ready()
	s.buy(e, 1)
	s.until(time.Second, "the first is settled", func() bool { return s.gate().Waiting == 0 })
	keys := []string{seckill.GateKey(s.sale), seckill.TicketsKey(s.sale)}
	old := map[string]map[string]string{}
	for _, k := range keys {
		old[k] = s.rdb.HGetAll(t.Context(), k).Val()
	}
	for user := range int64(5) {
		s.buy(e, user+2)
	}
	s.until(time.Second, "all are settled", func() bool { return s.gate().Waiting == 0 && s.gate().Stock == 4 })
	time.Sleep(2 * seckill.ReconcileEvery) // a tick has seen it
	w.cut(true)
	s.until(5*time.Second, "the failure is noticed", func() bool {
		_, err := e.Result(t.Context(), s.sale, 99)
		return errors.Is(err, seckill.ErrBusy)
	})
	for _, k := range keys {
		s.rdb.Del(t.Context(), k)
		s.rdb.HSet(t.Context(), k, old[k])
	}
	if g := s.gate(); g.Stock != 9 {
		t.Fatalf("the gate has %d units, want the 9 of then", g.Stock)
	}
	w.cut(false)
	for user := range int64(6) {
		s.until(5*time.Second, "an answer", func() bool {
			st, err := e.Result(t.Context(), s.sale, user+1)
			if err == nil && st.State != seckill.Ordered {
				t.Errorf("user %d has an order and is told %s", user+1, st.State)
			}
			return err == nil
		})
	}
	s.until(2*time.Second, "the gate knows the last buyer", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), seckill.TicketsKey(s.sale), "6").Val(), "O")
	})
	s.wantRest()
}

// A reserve call that was given up and is carried out all the same: the process that asked takes its tickets, long before
// they would be anybody's.
func TestLateTicketsAreAdopted(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.idle = time.Hour
	e := s.start(nil)
	s.ready()
	if _, err := seckill.Reserve(t.Context(), s.rdb, e.Consumer(), s.sale, 1); err != nil {
		t.Fatal(err)
	}
	if poll(2*seckill.ReconcileEvery, func() bool { return s.gate().Waiting == 0 }) {
		t.Error("it was taken though no call went without an answer")
	}
	e.GoWithoutAnswer(s.sale)
	if st := s.final(e, 1); st.State != seckill.Ordered {
		t.Errorf("%+v, want an order", st)
	}
	s.wantRest()
}

// Whoever's ticket has its no stored hears it, though the gate was never told and nothing is left that would tell it.
func TestAStoredNoIsHeardThoughTheGateWasNotTold(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e := s.start(nil)
	s.ready()
	e.stop()
	ticket, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.XDel(t.Context(), seckill.JournalKey(s.sale), strings.Split(ticket, ":")[1]).Err(); err != nil {
		t.Fatal(err)
	}
	for _, stored := range []string{"an older one", ticket} {
		if _, err := s.db.Exec(t.Context(), `insert into ticket_results (ticket, user_id, sale_id, outcome, created_at)
			values ($1, 1, $2, 'invalid', clock_timestamp())`, stored, s.sale); err != nil {
			t.Fatal(err)
		}
		want := seckill.Queued
		if stored == ticket {
			want = seckill.Invalid
		}
		next := s.start(nil)
		if st, err := next.Result(t.Context(), s.sale, 1); err != nil || st.State != want {
			t.Errorf("with the result of %s: %+v, %v, want %s", stored, st, err, want)
		}
		next.stop()
	}
}

// Keys of one sale that somebody has spoiled keep no other from being looked after, nor close the way through the gates.
func TestASpoiledGateHarmsNoOtherSale(t *testing.T) {
	t.Parallel()
	s := newShop(t, 3)
	now := time.Now()
	other, err := s.sales.Sell(t.Context(), goods.Item{Title: "coffee"},
		goods.Terms{Price: 1, Total: 1, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	e := s.start(nil)
	s.ready()
	id := s.buy(e, 1)
	s.rdb.Del(t.Context(), seckill.GateKey(other))
	if err := s.rdb.Set(t.Context(), seckill.GateKey(other), "spoiled", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
		t.Fatal(err)
	}
	s.until(2*time.Second, "the unit is on sale again", func() bool { return s.gate().Stock == 3 })
	for range 4 {
		if _, err := e.Buy(t.Context(), other, 2); !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("at the spoiled gate: %v, want busy", err)
		}
	}
	if b, err := e.Buy(t.Context(), s.sale, 2); err != nil || b.Status.State != seckill.Queued {
		t.Errorf("%+v, %v: the gate was passed by", b, err)
	}
}

// As many may wait for a lane as it serves in 20 ms, at least one batch.
func TestALaneHasRoomForWhatItServesSoon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		took []time.Duration // batches, one after the other
		room int
	}{
		{nil, 4096},
		{slices.Repeat([]time.Duration{time.Millisecond}, 20), 4096},
		{slices.Repeat([]time.Duration{4 * time.Millisecond}, 20), 1280},
		{slices.Repeat([]time.Duration{250 * time.Millisecond}, 20), 256},
		{[]time.Duration{40 * time.Millisecond}, 2112}, // one hiccup halves it
		{append(slices.Repeat([]time.Duration{time.Second}, 20), slices.Repeat([]time.Duration{time.Millisecond}, 20)...), 4095},
	} {
		if got := seckill.LaneRoom(c.took...); got != c.room {
			t.Errorf("after %v: room for %d, want %d", c.took, got, c.room)
		}
	}
}

// Who has waited in a lane for longer than any answer may take is told to come again; the others are served.
func TestWhoWaitedTooLongForALaneIsNotServed(t *testing.T) {
	t.Parallel()
	s := newShop(t, 50)
	e := s.start(nil)
	s.ready()
	errs := e.ServeLate(t.Context(), s.sale, 10*time.Second, 4*time.Second, time.Millisecond)
	if !errors.Is(errs[0], seckill.ErrBusy) || !errors.Is(errs[1], seckill.ErrBusy) || errs[2] != nil {
		t.Errorf("they heard %v", errs)
	}
	if st := s.final(e, 3); st.State != seckill.Ordered {
		t.Errorf("the one in time has %s", st.State)
	}
	if got := s.owners(); len(got) != 1 {
		t.Errorf("%d orders, want the one of who was in time", len(got))
	}
}
