package seckill_test

import (
	"testing"
	"time"

	"miaosha/seckill"
	"miaosha/seckill/sandbox/sandboxtest"
)

// A result is published to the subscribers of its user and to no others.
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
	select {
	case st := <-mine:
		if st.State != seckill.Ordered || st.OrderID != s.owners()[1] {
			t.Errorf("%+v after %+v, want the order", st, b)
		}
	case <-time.After(sandboxtest.Hang):
		t.Error("no result")
	}
	if len(other) != 0 || len(gone) != 0 {
		t.Error("another subscriber received the result, or one that had stopped")
	}
}
