package seckill_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

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
	e := s.start(nil)
	s.awaitGate()
	e.stop()
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
	if b, err := s.retryBuy(e, 1); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want queued", b, err)
	}
	sandboxtest.Until(t, 5*time.Second, "the gate has the order", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), gate.TicketsKey(s.sale), "1").Val(), "O")
	})
	id := s.owners()[1]
	time.Sleep(50 * time.Millisecond) // the process receives the reply to its ack
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
	sandboxtest.Until(t, 2*time.Second, "the gate has the unit", func() bool { return s.gateState().Stock == 1 })
	if _, err := seckill.Reserve(t.Context(), s.rdb, "other", s.sale, 2); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	if st, err := e.Result(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("%+v, %v, want busy", st, err)
	}
}
