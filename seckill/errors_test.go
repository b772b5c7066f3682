package seckill_test

import (
	"errors"
	"testing"
	"time"

	"miaosha/seckill"
)

// A fault of Redis is reported as busy by every call, and never as sold out.
func TestFaultsReadAsBusy(t *testing.T) {
	t.Parallel()
	s := newShop(t, 5)
	rdb, proxy := s.proxied()
	s.reclaimAfter = 100 * time.Millisecond
	e := s.start(func(_ *seckill.Config, d *seckill.Deps) { d.Redis = rdb })
	s.awaitGate()
	for i := range int64(40) {
		if i%2 == 0 {
			proxy.Cut()
		} else {
			s.reconnect(proxy)
		}
		if b, err := e.Buy(t.Context(), s.sale, 1); err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("buy: %+v, %v, want busy", b, err)
		}
		st, err := e.Result(t.Context(), s.sale, i+1)
		if err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("result: %v, want busy", err)
		}
		if err == nil && (st.State == seckill.SoldOut || st.State == seckill.Invalid) {
			t.Errorf("result: a refusal, %+v", st)
		}
		if _, _, err := e.Address(t.Context(), s.sale, i+1, "token", nil); err != nil && !errors.Is(err, seckill.ErrBusy) {
			t.Errorf("address: %v, want busy", err)
		}
	}
	s.reconnect(proxy)
	s.mustBuy(e, 1)
	s.wantConsistent()
	if n := s.stock(); n != 4 {
		t.Errorf("%d units left, want 4", n)
	}
}
