package order_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
)

var home = order.Address{Name: "李雷", Phone: "13811112222", Address: "北京市海淀区中关村大街 1 号"}

// delivery returns the delivery of a user's order without its time.
func (s testShop) delivery(t *testing.T, user int64, id uuid.UUID) string {
	t.Helper()
	d, err := s.DeliveryOf(t.Context(), user, id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Name, " ", d.Carrier, " ", d.Tracking, " ", d.ShippedAt != nil)
}

func TestAddressesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		a    order.Address
		want []string
	}{
		"a good one":  {home, nil},
		"from abroad": {order.Address{Name: "A", Phone: "+4930123456", Address: "B"}, nil},
		"nothing":     {order.Address{}, []string{"name required", "address required", "phone required"}},
		"blanks":      {order.Address{Name: " ", Phone: "12", Address: "\u3000"}, []string{"name required", "address required", "phone digits"}},
		"too long":    {order.Address{Name: strings.Repeat("长", 51), Phone: strings.Repeat("1", 16), Address: strings.Repeat("长", 201)}, []string{"name length", "address length", "phone digits"}},
		"long":        {order.Address{Name: strings.Repeat("长", 50), Phone: strings.Repeat("1", 15), Address: strings.Repeat("长", 200)}, nil},
		"a landline":  {order.Address{Name: "A", Phone: "010-12345678-123", Address: "B"}, nil},
		"a service":   {order.Address{Name: "A", Phone: "400-810-1234", Address: "B"}, nil},
		"a private":   {order.Address{Name: "A", Phone: "18412345678-1234", Address: "B"}, nil},
		"no number":   {order.Address{Name: "A", Phone: "2026-11-26", Address: "B"}, []string{"phone digits"}},
		"joined":      {order.Address{Name: "می\u200cخواهم", Phone: "110", Address: "👨\u200d👩\u200d👧 家"}, nil},
		"other lines": {order.Address{Name: "a\nb", Phone: "138-1111", Address: "a\u202eb"}, []string{"name form", "address form", "phone digits"}},
	} {
		var got []string
		if err := c.a.Validate(); err != nil {
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				var invalid order.InvalidError
				if errors.As(e, &invalid) {
					got = append(got, invalid.Field+" "+invalid.Reason)
				}
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// An order copies the address when it is paid. Until it is shipped its owner can change the copy, and then it stays as it is.
func TestAPaidOrderKeepsItsAddress(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	early, mine := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.capture(t, early, "r1", "captured")
	if err := s.SetAddress(t.Context(), 2, home); err != nil {
		t.Fatal(err)
	}
	if err := s.SetDeliveryAddress(t.Context(), 2, mine, home); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("the address of a pending order: %v", err)
	}
	s.capture(t, mine, "r2", "captured")
	moved := home
	moved.Name = "韩梅梅"
	if err := s.SetAddress(t.Context(), 2, moved); err != nil {
		t.Fatal(err)
	}
	if a, err := s.AddressOf(t.Context(), 2); a != moved || err != nil {
		t.Errorf("the account has %v, %v", a, err)
	}
	for id, want := range map[uuid.UUID]string{early: "   false", mine: "李雷   false"} {
		user := int64(2)
		if id == early {
			user = 1
		}
		if got := s.delivery(t, user, id); got != want {
			t.Errorf("the order's delivery is %q, want %q", got, want)
		}
	}
	if got := s.delivery(t, 1, mine); got != "   false" {
		t.Errorf("another user reads %q", got)
	}
	for _, c := range []struct {
		user int64
		id   uuid.UUID
		want error
	}{{1, early, nil}, {2, mine, nil}, {1, mine, order.ErrNotFound}, {1, uuid.New(), order.ErrNotFound}} {
		if err := s.SetDeliveryAddress(t.Context(), c.user, c.id, moved); !errors.Is(err, c.want) {
			t.Errorf("user %d sets the address of %s: %v, want %v", c.user, c.id, err, c.want)
		}
	}
	for range 2 { // the second call corrects the first
		if _, err := s.Ship(t.Context(), mine, "顺丰", "SF1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetDeliveryAddress(t.Context(), 2, mine, home); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("the address of a shipped order: %v", err)
	}
	if got := s.delivery(t, 2, mine); got != "韩梅梅 顺丰 SF1 true" {
		t.Errorf("the order's delivery is %q", got)
	}
}

func TestOnlyAPaidOrderIsShipped(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	pending, paid := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.capture(t, paid, "r", "captured")
	for id, want := range map[uuid.UUID]error{pending: order.ErrWrongStatus, uuid.New(): order.ErrNotFound, paid: nil} {
		if _, err := s.Ship(t.Context(), id, "SF", "SF1"); !errors.Is(err, want) {
			t.Errorf("ship %s: %v, want %v", id, err, want)
		}
	}
	was, err := s.Ship(t.Context(), paid, "ZTO", "Z2")
	if err != nil || was.Carrier != "SF" || was.Tracking != "SF1" {
		t.Errorf("it was %v, %v", was, err)
	}
	if _, err := s.Ship(t.Context(), paid, "", strings.Repeat("1", 51)); !errors.As(err, new(order.InvalidError)) {
		t.Errorf("no carrier: %v", err)
	}
	if got := s.delivery(t, 2, paid); got != " ZTO Z2 true" {
		t.Errorf("without an address: %q", got)
	}
}

// An erased address stays only where a parcel still has to go.
func TestAnErasedAddressIsGone(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 9)
	if err := s.SetAddress(t.Context(), 1, home); err != nil {
		t.Fatal(err)
	}
	shipped := s.buy(t, sale, 1)
	other := s.sell(t, 9)
	refunded, third := s.buy(t, other, 1), s.sell(t, 9)
	unshipped := s.buy(t, third, 1)
	for i, id := range []uuid.UUID{shipped, refunded, unshipped} {
		s.capture(t, id, fmt.Sprint("r", i), "captured")
	}
	if _, err := s.Ship(t.Context(), shipped, "SF", "SF1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Refund(t.Context(), refunded); err != nil {
		t.Fatal(err)
	}
	if err := s.EraseAddress(t.Context(), 2); err != nil { // another user's
		t.Fatal(err)
	}
	if got := s.delivery(t, 1, shipped); got != "李雷 SF SF1 true" {
		t.Fatalf("before: %q", got)
	}
	if err := s.EraseAddress(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uuid.UUID]string{shipped: " SF SF1 true", refunded: "   false", unshipped: "李雷   false"} {
		if got := s.delivery(t, 1, id); got != want {
			t.Errorf("the order's delivery is %q, want %q", got, want)
		}
	}
	if a, err := s.AddressOf(t.Context(), 1); a != (order.Address{}) || err != nil {
		t.Errorf("the account has %v, %v", a, err)
	}
}
