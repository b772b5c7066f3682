package seckill_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"miaosha/order"
	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// Streams of many sales hear of their results, whichever they are, and read them together.
func TestWatchInManySales(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	const sales, buyers, units = 30, 10, 4
	e := s.start(nil)
	var streams sync.WaitGroup
	for range sales {
		sale := s.sell(units)
		var tickets []order.Ticket
		for user := int64(1); user <= buyers; user++ {
			tickets = append(tickets, order.Ticket{ID: fmt.Sprintf("%d of %d", user, sale), UserID: user})
			news, stop := e.Watch(sale, user)
			streams.Go(func() {
				defer stop()
				select {
				case <-news:
				case <-time.After(sandboxtest.Hang):
					t.Errorf("user %d of sale %d: no news", user, sale)
					return
				}
				want, st := seckill.Ordered, seckill.Status{}
				if user > units {
					want = seckill.SoldOut
				}
				if !sandboxtest.Poll(func() (known bool) {
					var err error
					st, err = e.Result(t.Context(), sale, user)
					return err == nil
				}) || st.State != want || !st.Final() {
					t.Errorf("user %d of sale %d: %+v, want %s", user, sale, st, want)
				}
			})
		}
		streams.Go(func() { e.Settle(t.Context(), sale, tickets...) })
	}
	streams.Wait()
}

// News of a result is for the subscribers of its user and for no others. A ticket that is settled again, after its user has bought
// with another one, tells them of the order.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.start(nil)
	s.awaitGate()
	mine, stop := e.Watch(s.sale, 1)
	defer stop()
	other, stopOther := e.Watch(s.sale, 2)
	defer stopOther()
	gone, stopGone := e.Watch(s.sale, 1)
	stopGone()
	b, err := s.retryBuy(e, 1)
	if err != nil {
		t.Fatal(err)
	}
	hears := func(what string) {
		t.Helper()
		select {
		case <-mine:
			if st, err := e.Result(t.Context(), s.sale, 1); err != nil || st.State != seckill.Ordered || st.OrderID != s.owners()[1] {
				t.Errorf("%s: %+v, %v after %+v, want the order", what, st, err, b)
			}
		case <-time.After(sandboxtest.Hang):
			t.Errorf("%s: no news", what)
		}
	}
	hears("bought")
	older := order.Ticket{ID: "an older one", UserID: 1}
	if _, err := s.db.Exec(t.Context(), `insert into ticket_results (ticket, user_id, sale_id, outcome) values ($1, 1, $2, 'sold_out')`, older.ID, s.sale); err != nil {
		t.Fatal(err)
	}
	e.Settle(t.Context(), s.sale, older)
	hears("an older one is settled again")
	if len(other) != 0 || len(gone) != 0 {
		t.Error("another subscriber received the result, or one that had stopped")
	}
}
