package seckill_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/address"
)

// A request for an address in the first second after the opening is let through in the second after that.
func TestAnAddressWaitsForItsTurnInTheLot(t *testing.T) {
	t.Parallel()
	s := newShop(t, 1)
	e := s.engine(nil) // it does not run, so its clock is this one
	opening := time.Now()
	sale, err := s.sales.Sell(t.Context(), goods.Item{Title: "milk"}, goods.Terms{Price: 1, Total: 20, StartsAt: opening, EndsAt: opening.Add(time.Hour)})
	if err == nil {
		err = e.Rebuild(t.Context(), sale)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Address(t.Context(), sale, 3, "token", nil); err != nil { // then the sale is in the cache
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	sums := s.sums(e)
	_, unused, err := sums.Draw(t.Context(), sale, 2, "token")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Address(gone, sale, 2, "token", sums.Answer(sale, 2, "token", unused)); !errors.Is(err, seckill.ErrBusy) {
		t.Errorf("a buyer who leaves before the turn: %v, want busy", err)
	}
	_, answer, err := sums.Draw(t.Context(), sale, 1, "token")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Address(t.Context(), sale, 1, "token", sums.Answer(sale, 1, "token", answer)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(opening); took < address.LotOpen { //timing: at least: the clock starts before
		t.Errorf("the address is granted %v after the opening, want at least %v", took, address.LotOpen)
	}
}
