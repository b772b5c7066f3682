package order_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
)

// Money that is confirmed by hand pays an order in time and goes back otherwise. An open payment stays as it is.
func TestConfirmByHand(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	mine, late := s.buy(t, sale, 1), s.buy(t, sale, 2)
	if _, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); err != nil {
		t.Fatal(err)
	}
	s.makeOverdue(t, late)
	for _, c := range []struct {
		id        uuid.UUID
		ref, want string
		refusal   error
	}{
		{mine, "bank 1", "captured", nil},
		{late, "bank 1", "", order.ErrReusedRef},
		{late, "bank 2", "refund_due", nil},
		{mine, "bank 3", "refund_due", nil}, // a second time
		{uuid.New(), "bank 4", "", order.ErrNotFound},
		{mine, " ", "", order.InvalidError{Field: "reference", Reason: "required"}},
	} {
		if got, err := s.ConfirmByHand(t.Context(), c.id, c.ref); got != c.want || !errors.Is(err, c.refusal) {
			t.Errorf("%q: %q, %v; want %q, %v", c.ref, got, err, c.want, c.refusal)
		}
	}
	for id, want := range map[uuid.UUID][]string{mine: {" open", "bank 1 captured", "bank 3 refund_due"}, late: {"bank 2 refund_due"}} {
		if diff := cmp.Diff(want, s.payments(t, id)); diff != "" {
			t.Error(diff)
		}
	}
	if status := s.status(t, late); status != order.Pending {
		t.Errorf("the late order is %s, want pending", status)
	}
	s.checkInvariants(t)
}
