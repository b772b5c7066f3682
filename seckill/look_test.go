package seckill_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
)

// The gate is not told of an order yet. Who has heard of it goes on hearing of it when Postgres is away next, whichever
// process he asks.
func TestAnOrderOnceToldIsNeverQueued(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.idle = time.Hour // nobody claims
	looks := s.pool("looks")
	start := func() *process {
		return s.start(func(_ *seckill.Config, d *seckill.Deps) {
			d.Orders = order.New(looks, order.Config{PayWithin: time.Hour})
		})
	}
	e, other := start(), start()
	s.ready()
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
	told, err := e.Result(t.Context(), s.sale, 1)
	if err != nil || told.State != seckill.Ordered {
		t.Fatalf("%+v, %v, want an order", told, err)
	}
	looks.Close()
	for _, at := range []*process{e, other} {
		if again, err := at.Result(t.Context(), s.sale, 1); err != nil || again != told {
			t.Errorf("later %+v, %v, want %+v", again, err, told)
		}
	}
}

// Who has an order hears of it though neither store answers: that can't change any more.
func TestAnOrderIsToldWithoutAsking(t *testing.T) {
	t.Parallel()
	s, w := newShop(t, 5), &wire{}
	db := s.pool("web")
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) {
		d.Redis, d.Orders = s.client(w), order.New(db, order.Config{PayWithin: time.Hour})
	})
	s.ready()
	if b, err := s.insist(e, 1); err != nil || b.Status.State != seckill.Queued {
		t.Fatalf("%+v, %v, want queued", b, err)
	}
	s.until(5*time.Second, "the gate knows of the order", func() bool {
		return strings.HasPrefix(s.rdb.HGet(t.Context(), seckill.TicketsKey(s.sale), "1").Val(), "O")
	})
	id := s.owners()[1]
	time.Sleep(50 * time.Millisecond) // the process hears that the gate has heard
	w.cut(true)
	db.Close()
	if st, err := e.Result(t.Context(), s.sale, 1); err != nil || st.State != seckill.Ordered || st.OrderID != id {
		t.Errorf("the owner of %s is told %+v, %v", id, st, err)
	}
	if st, err := e.Result(t.Context(), s.sale, 2); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("of whom nothing is known: %+v, %v, want busy", st, err)
	}
}
