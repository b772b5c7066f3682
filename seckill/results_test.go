package seckill_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A refusal that is stored in Postgres is read from there, although its ack is lost and no journal entry is left to repeat
// it.
func TestStoredRefusalIsReadWithoutItsAck(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.stoppedWithGate()
	ticket, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.rdb.XDel(t.Context(), gate.JournalKey(s.sale), strings.Split(ticket, ":")[1]).Err(); err != nil {
		t.Fatal(err)
	}
	for _, stored := range []string{"an older ticket", ticket} {
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
			t.Errorf("with a stored result of %s: %+v, %v, want %s", stored, st, err, want)
		}
		next.stop()
	}
}

// An order is committed and not yet acknowledged. A buyer who was told of it once is told of it again when Postgres is
// away, by every process.
func TestReportedOrderIsNeverQueuedAgain(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.reclaimAfter = time.Hour // no process claims
	reads := s.pool("reads")
	start := func() *process {
		return s.start(func(_ *seckill.Config, d *seckill.Deps) {
			d.Orders = order.New(reads, order.Config{PayWithin: time.Hour})
		})
	}
	e, other := start(), start()
	s.awaitGate()
	ticket, err := seckill.Reserve(t.Context(), s.rdb, "dead", s.sale, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		l, err := goods.Lock(t.Context(), tx, s.sale)
		if err == nil {
			_, err = s.orders.Place(t.Context(), tx, l, []order.Ticket{{ID: ticket, UserID: 1}})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	first, err := e.Result(t.Context(), s.sale, 1)
	if err != nil || first.State != seckill.Ordered {
		t.Fatalf("%+v, %v, want an order", first, err)
	}
	reads.Close()
	for _, at := range []*process{e, other} {
		if again, err := at.Result(t.Context(), s.sale, 1); err != nil || again != first {
			t.Errorf("later: %+v, %v, want %+v", again, err, first)
		}
	}
}

// A process that knows of an order tells its owner without any store: an order does not change any more.
func TestKnownOrderNeedsNoStore(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	rdb, proxy := s.proxied()
	db := s.pool("web")
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) {
		d.Redis, d.Orders = rdb, order.New(db, order.Config{PayWithin: time.Hour})
	})
	s.awaitGate()
	if _, err := s.retryBuy(e, 1); err != nil { // queued; or ordered at once, where the process was not sure of its gate
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the gate has the order", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "1").Val(), "O")
	})
	id := s.owners()[1]
	sandboxtest.Until(t, "the process has received the reply to its ack", func() bool { return e.Knows(s.sale, 1) })
	proxy.Cut()
	db.Close()
	st, err := e.Result(t.Context(), s.sale, 1)
	if err != nil {
		t.Errorf("the owner of %s: %v", id, err)
	}
	if diff := cmp.Diff(seckill.Status{State: seckill.Ordered, OrderID: id}, st); diff != "" {
		t.Errorf("the owner's status (-want +got):\n%s", diff)
	}
	if st, err := e.Result(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a user without an order: %+v, %v, want busy", st, err)
	}
}

// A buyer was refused, and has a newer ticket in another process's queue. While Redis is away, this process knows of the
// refusal only, and does not tell it.
func TestOldRefusalIsNotToldWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	rdb, proxy := s.proxied()
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	id := s.mustBuy(e, 1)
	e.Settle(t.Context(), s.sale, order.Ticket{ID: "1:1-1:older", UserID: 2})
	if st, err := e.Result(t.Context(), s.sale, 2); err != nil || st.State != seckill.SoldOut {
		t.Fatalf("%+v, %v, want sold out", st, err)
	}
	if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the gate has the unit", func() bool { return s.gateState().Stock == 1 })
	if _, err := seckill.Reserve(t.Context(), s.rdb, "other", s.sale, 2); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if st, err := e.Result(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("%+v, %v, want busy", st, err)
	}
}

// A buyer who clicks again is not among those who are ahead, at no process.
func TestSecondClickIsNotAheadOfItself(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	e, other := s.start(nil), s.start(nil)
	s.awaitGate()
	s.lockSale() // nothing is settled
	for user, ahead := range []int{0, 1} {
		user := int64(user + 1)
		for i, at := range []*process{e, e, other} {
			b, err := s.retryBuy(at, user)
			if err != nil || b.Status.State != seckill.Queued || b.Status.Ahead != ahead {
				t.Errorf("click %d of user %d: %+v, %v, want %d ahead", i+1, user, b.Status, err, ahead)
			}
		}
	}
}

// storeCalls notes the calls of a Redis client and of a Postgres pool.
type storeCalls struct {
	redis    []string // a pipeline each: its commands with their numbers
	postgres int
}

func (c *storeCalls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *storeCalls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.redis = append(c.redis, cmd.Name()+" alone")
		return next(ctx, cmd)
	}
}

func (c *storeCalls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n := map[string]int{}
		for _, cmd := range cmds {
			n[cmd.Name()]++
		}
		c.redis = append(c.redis, fmt.Sprint(n))
		return next(ctx, cmds)
	}
}

func (c *storeCalls) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.postgres++
	return ctx
}

func (c *storeCalls) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Queries for many sales are answered by one pipeline and one query: one pipeline more for the tickets of other processes, and one
// that tells all gates of the orders that they do not know. A gate that cannot be read is an error of its own buyers.
func TestResultsOfManySalesInOneCallToEachStore(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	calls := &storeCalls{}
	rdb, cfg := s.client(s.redis), s.pool("reads").Config()
	cfg.ConnConfig.Tracer = calls
	reads, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	e := s.engine(func(_ *seckill.Config, d *seckill.Deps) {
		d.Redis, d.Orders = rdb, order.New(reads, order.Config{PayWithin: time.Hour})
	})
	const known, committed, queued, refused, stranger = 1, 2, 3, 4, 5
	var asked []order.Buyer
	want, orders := map[order.Buyer]seckill.Status{}, map[order.Buyer]uuid.UUID{}
	var broken int64 // the last sale
	for range 20 {
		sale := s.sell(5)
		broken = sale
		place := func(user int64, ticket string) {
			if err := pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
				l, err := goods.Lock(t.Context(), tx, sale)
				if err != nil {
					return err
				}
				results, err := s.orders.Place(t.Context(), tx, l, []order.Ticket{{ID: ticket, UserID: user}})
				orders[order.Buyer{SaleID: sale, UserID: user}] = results[0].OrderID
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		place(known, fmt.Sprint("known ", sale))
		if err := e.Rebuild(t.Context(), sale); err != nil {
			t.Fatal(err)
		}
		for _, user := range []int64{committed, queued, refused} {
			ticket, err := seckill.Reserve(t.Context(), s.rdb, "other", sale, user)
			if err != nil {
				t.Fatal(err)
			}
			switch user {
			case committed:
				place(user, ticket)
			case refused:
				if _, err := s.db.Exec(t.Context(), `insert into ticket_results (ticket, user_id, sale_id, outcome) values ($1, $2, $3, 'invalid')`,
					ticket, user, sale); err != nil {
					t.Fatal(err)
				}
			}
		}
		for user, status := range map[int64]seckill.Status{known: {State: seckill.Ordered}, committed: {State: seckill.Ordered}, refused: {State: seckill.Invalid},
			queued: {State: seckill.Queued, Ahead: 2}, stranger: {State: seckill.None}} {
			b := order.Buyer{SaleID: sale, UserID: user}
			status.OrderID = orders[b]
			asked, want[b] = append(asked, b), status
		}
	}
	if err := s.rdb.Set(t.Context(), gate.TicketsKey(broken), "of another program", 0).Err(); err != nil {
		t.Fatal(err)
	}
	rdb.AddHook(calls)
	calls.postgres = 0
	statuses, errs := e.ReadResults(t.Context(), asked...)
	for b, want := range want {
		switch got, err := statuses[b], errs[b]; {
		case b.SaleID == broken && want.State != seckill.Ordered: // Redis may have a newer ticket than Postgres knows
			if !errors.Is(err, seckill.ErrBusy) {
				t.Errorf("%+v of the sale that cannot be read: %+v, %v; want busy", b, got, err)
			}
		default:
			want.NextPoll = got.NextPoll
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%+v: %v (-want +got):\n%s", b, err, diff)
			}
		}
	}
	if diff := cmp.Diff([]string{"map[hmget:20]", "map[hmget:19 xlen:19]", "map[eval:19]"}, calls.redis); diff != "" {
		t.Errorf("calls of Redis (-want +got):\n%s", diff)
	}
	if calls.postgres != 1 {
		t.Errorf("%d queries to Postgres, want 1", calls.postgres)
	}
	for _, b := range asked {
		if value := s.rdb.HGet(t.Context(), gate.TicketsKey(b.SaleID), fmt.Sprint(b.UserID)).Val(); b.UserID == committed && b.SaleID != broken && value != "O"+orders[b].String() {
			t.Errorf("the gate of sale %d has %q of user %d, want order %s", b.SaleID, value, b.UserID, orders[b])
		}
	}
}

// All event streams of a process may look at once, at news or at a tick: none is refused, and has to wait for the next tick.
func TestRoomForTheQueriesOfAllStreams(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.engine(nil) // nothing is read
	ctx, cancel := context.WithCancel(t.Context())
	const streams = 10_000 // as many as package web has places
	var ended atomic.Int64
	var all sync.WaitGroup
	for user := range int64(streams) {
		all.Go(func() {
			e.Result(ctx, s.sale, user+1)
			ended.Add(1)
		})
	}
	sandboxtest.Until(t, "all wait, or have been refused", func() bool { return e.ResultsWaiting()+int(ended.Load()) == streams })
	if n := ended.Load(); n > 0 {
		t.Errorf("%d of %d queries were refused", n, streams)
	}
	cancel()
	all.Wait()
}

// A user without a ticket reads that the sale is sold out for as long as it is, also at a process that has refused no click. It is
// no final state: when the unit is back, the user may buy.
func TestResultOfASoldOutSale(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"redis", "off"} {
		t.Run("gate "+mode, func(t *testing.T) {
			t.Parallel()
			s := newShop(t, 1)
			gate := func(cfg *seckill.Config, _ *seckill.Deps) { cfg.Gate = mode }
			e, other := s.start(gate), s.start(gate)
			if st, err := other.Result(t.Context(), s.sale, 2); err != nil || st.State != seckill.None {
				t.Errorf("with a unit left: %+v, %v, want none", st, err)
			}
			id := s.mustBuy(e, 1)
			if mode == "redis" { // without a gate, a refusal is the result of a ticket
				if _, err := s.retryBuy(e, 2); !errors.Is(err, goods.ErrSoldOut) {
					t.Fatalf("%v, want sold out", err)
				}
			}
			awaitState := func(want string) (st seckill.Status) {
				t.Helper()
				sandboxtest.Until(t, "user 2 reads "+want, func() bool {
					var err error
					st, err = other.Result(t.Context(), s.sale, 2)
					return err == nil && st.State == want
				})
				return st
			}
			if st := awaitState(seckill.SoldOut); st.Final() || !st.NoTicket() || st.NextPoll == 0 {
				t.Errorf("%+v, want a state that is not final", st)
			}
			if st, err := other.Result(t.Context(), s.sale, 1); err != nil || st.OrderID != id {
				t.Errorf("the owner: %+v, %v, want order %s", st, err, id)
			}
			if err := s.orders.Cancel(t.Context(), 1, id); err != nil {
				t.Fatal(err)
			}
			awaitState(seckill.None)
			s.mustBuy(other, 2)
		})
	}
}

// What a process knew before an outage is no reason to say "sold out" after it: a unit may have come back meanwhile.
func TestOldStockIsNotSoldOut(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	states := s.pool("states")
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Sales = goods.New(states) })
	s.awaitGate()
	s.mustBuy(e, 1)
	sandboxtest.Until(t, "the process knows that no unit is left", func() bool {
		st, err := e.Result(t.Context(), s.sale, 2)
		return err == nil && st.State == seckill.SoldOut
	})
	states.Close() // reconcile reads no stock any more
	sandboxtest.Until(t, "what it knew is too old", func() bool {
		st, err := e.Result(t.Context(), s.sale, 2)
		return err == nil && st.State == seckill.None
	})
}
