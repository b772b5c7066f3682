package admin

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
)

// The staff finds the payments that wait, has a provider asked again, and returns by hand what no provider of the shop can return.
func TestStuckPayments(t *testing.T) {
	s := newOrderShop(t, 5)
	asked := []string{order.Cashier, "wechat"}
	pays := func(i int, provider string) uuid.UUID {
		p, err := s.orders.OpenPayment(t.Context(), provider, int64(i+1), s.ids[i])
		if err != nil {
			t.Fatal(err)
		}
		return p.ID
	}
	refunded := func(i int, provider string) (id uuid.UUID) {
		id = pays(i, provider)
		if _, err := s.orders.Capture(t.Context(), order.Captured{Provider: provider, OrderID: s.ids[i], PaymentID: id, Amount: 9900, Ref: fmt.Sprint("r", i)}); err != nil {
			t.Fatal(err)
		}
		if err := s.orders.Refund(t.Context(), s.ids[i]); err != nil {
			t.Fatal(err)
		}
		return id
	}
	wechat, former := refunded(0, "wechat"), refunded(1, "former")
	open, young := pays(2, "wechat"), pays(3, "wechat")
	if _, err := s.Confirm(t.Context(), keeper, s.ids[4], "bank 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Refund(t.Context(), keeper, s.ids[4]); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`update orders set expires_at = now() - interval '11 minutes' where user_id = 3`,
		`update orders set expires_at = now() - interval '9 minutes' where user_id = 4`,
		`update payments set created_at = created_at - interval '2 hours' where status = 'open' and provider = 'wechat'`,
		`update payments set tries = 7, why = 'no balance', ask_at = case when provider <> 'wechat' then now() + interval '1 hour' end where status = 'refund_due'`,
	} {
		if _, err := s.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.orders.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := func(status string) (got []string) {
		payments, _, err := s.StuckPayments(t.Context(), whole, PaymentFilter{Status: status}, asked)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range payments {
			soon := p.AskAt != nil && p.AskAt.Before(time.Now().Add(time.Second))
			got = append(got, fmt.Sprint(p.Provider, " ", p.Status, " ", p.Tries, " ", p.Why, " refused ", p.Refused, " by hand ", p.ByHand, " soon ", soon))
		}
		return got
	}
	due := []string{"wechat refund_due 7 no balance refused true by hand false soon false",
		"former refund_due 7 no balance refused false by hand true soon false", "hand refund_due 7 no balance refused false by hand true soon false"}
	late := "wechat open 0  refused false by hand false soon false"
	for status, want := range map[string][]string{"": {late, due[0], due[1], due[2]}, "open": {late}, "refund_due": due} {
		if got := list(status); !cmp.Equal(got, want) {
			t.Errorf("%q: %s", status, cmp.Diff(want, got))
		}
	}

	var invalid order.InvalidError
	if err := s.ReturnByHand(t.Context(), keeper, former, asked, " "); !errors.As(err, &invalid) || invalid.Field != "note" {
		t.Errorf("without a note: %v", err)
	}
	expect(t, s.AskAgain(t.Context(), keeper, wechat, asked)) // it is refused no more
	for what, c := range map[string]struct{ err, want error }{
		"asking a provider that is not here":    {s.AskAgain(t.Context(), keeper, former, asked), order.ErrWrongStatus},
		"asking for an unknown payment":         {s.AskAgain(t.Context(), keeper, uuid.New(), asked), order.ErrNotFound},
		"returning what the provider returns":   {s.ReturnByHand(t.Context(), keeper, wechat, asked, "bank 2"), order.ErrMayRefund},
		"returning what is open":                {s.ReturnByHand(t.Context(), keeper, young, nil, "bank 2"), order.ErrWrongStatus},
		"returning an unknown payment":          {s.ReturnByHand(t.Context(), keeper, uuid.New(), asked, "bank 2"), order.ErrNotFound},
		"asking for a refund that is due":       {s.AskAgain(t.Context(), keeper, wechat, asked), nil},
		"asking about an open payment":          {s.AskAgain(t.Context(), keeper, open, asked), nil},
		"asking about one that is open in time": {s.AskAgain(t.Context(), keeper, young, asked), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
	var second atomic.Int64
	together(4, func(int) {
		if err := s.ReturnByHand(t.Context(), keeper, former, asked, "bank 2"); errors.Is(err, order.ErrWrongStatus) {
			second.Add(1)
		} else if err != nil {
			t.Error(err)
		}
	})
	if n := second.Load(); n != 3 {
		t.Errorf("%d of 4 were too late, want 3", n)
	}
	want := []string{"wechat open 0  refused false by hand false soon true", "wechat refund_due 7 no balance refused false by hand false soon true", due[2]}
	if got := list(""); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	s.check(t, "at the end", map[string]int{"refunded": 3, "cancelled": 2, "money refund_due": 2, "money refunded": 1, "money open": 2,
		"order.confirm": 1, "order.refund": 1, "payment.retry": 4, "payment.returned": 1})
	notes := map[string]int{}
	money, err := s.MoneyOf(t.Context(), whole, s.ids)
	for _, of := range money {
		for _, p := range of {
			notes[p.Note]++
		}
	}
	if err != nil || !cmp.Equal(notes, map[string]int{"": 2, "bank 2": 1}) {
		t.Errorf("the notes of money that went back: %v, %v", notes, err)
	}
	var note string
	err = s.db.QueryRow(t.Context(), `select concat(before, ' ', after) from admin_log where action = 'order.confirm'`).Scan(&note)
	if want := `{"status": "pending"} {"status": "paid", "payment": "captured", "reference": "bank 1"}`; note != want || err != nil {
		t.Errorf("the log of a payment by hand has %q, %v; want %q", note, err, want)
	}
	err = s.db.QueryRow(t.Context(), `select concat(subject, ' ', before, ' ', after) from admin_log where action = 'payment.returned'`).Scan(&note)
	if want := fmt.Sprintf(`payment %s {"status": "refund_due"} {"note": "bank 2", "status": "refunded"}`, former); note != want || err != nil {
		t.Errorf("the log has %q, %v; want %q", note, err, want)
	}
}

func TestStuckPaymentsArePaged(t *testing.T) {
	s := newOrderShop(t, 1)
	const n = 2*paymentPage + 1
	if _, err := s.db.Exec(t.Context(), `
		insert into payments (id, order_id, amount, status, provider_ref)
		select gen_random_uuid(), $1, 9900, 'refund_due', k from generate_series(1, $2::int) k`, s.ids[0], n); err != nil {
		t.Fatal(err)
	}
	seen := map[uuid.UUID]bool{}
	pages := 0
	for f := (PaymentFilter{}); pages == 0 || f.Cursor != uuid.Nil; pages++ {
		page, next, err := s.StuckPayments(t.Context(), whole, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range page {
			seen[p.ID] = true
		}
		f.Cursor = next
	}
	if pages != 3 || len(seen) != n {
		t.Errorf("%d pages with %d payments, want 3 with %d", pages, len(seen), n)
	}
}
