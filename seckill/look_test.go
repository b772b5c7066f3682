package seckill_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill"
)

// The gate is not told of an order yet. Who has heard of it goes on hearing of it when Postgres is away next.
func TestAnOrderOnceToldIsNeverQueued(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	s.idle = time.Hour // nobody claims
	looks := s.pool("looks")
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) {
		d.Orders = order.New(looks, order.Config{PayWithin: time.Hour})
	})
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
	if again, err := e.Result(t.Context(), s.sale, 1); err != nil || again != told {
		t.Errorf("later %+v, %v, want %+v", again, err, told)
	}
}
