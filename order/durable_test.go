package order_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// What a user is told of orders and payments must be on the standby: every call that tells waits for it, though its rows are
// visible here.
func TestWhatIsToldWaitsForTheStandby(t *testing.T) {
	d := sandboxtest.DurablePostgres(t)
	db, err := pgxpool.New(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := testShop{order.New(db, order.Config{PayWithin: time.Hour}), db}
	sale := s.sell(t, 10)
	pending, paid, cancelled := s.buy(t, sale, 1), s.buy(t, sale, 2), s.buy(t, sale, 3)
	payment, err := s.OpenPayment(t.Context(), order.Cashier, 1, pending)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Capture(t.Context(), captured(paid, price, "ref")); err != nil {
		t.Fatal(err)
	}
	if err := s.Cancel(t.Context(), 3, cancelled); err != nil {
		t.Fatal(err)
	}
	returned := s.buy(t, sale, 4)
	if _, err := s.Capture(t.Context(), captured(returned, price, "ref 4")); err != nil {
		t.Fatal(err)
	}
	if err := s.Refund(t.Context(), returned); err != nil {
		t.Fatal(err)
	}
	d.LoseStandby(t)
	for what, tell := range map[string]func(context.Context) error{
		"the orders of a user":   func(ctx context.Context) error { _, err := s.OfUser(ctx, 1); return err },
		"an order":               func(ctx context.Context) error { _, err := s.ByID(ctx, 1, pending); return err },
		"a payment":              func(ctx context.Context) error { _, err := s.PaymentOf(ctx, 1, payment.ID); return err },
		"a payment opened again": func(ctx context.Context) error { _, err := s.OpenPayment(ctx, order.Cashier, 1, pending); return err },
		"why there is no payment": func(ctx context.Context) error {
			_, err := s.OpenPayment(ctx, order.Cashier, 1, uuid.New())
			return err
		},
		"a capture reported again":         func(ctx context.Context) error { _, err := s.Capture(ctx, captured(paid, price, "ref")); return err },
		"an order cancelled again":         func(ctx context.Context) error { return s.Cancel(ctx, 3, cancelled) },
		"an order that cannot be refunded": func(ctx context.Context) error { return s.Refund(ctx, cancelled) },
		"money paid back": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			_, err := s.DrainRefunds(ctx, testProvider(func(context.Context, order.Payment) error {
				cancel() // what is written after it waits, too
				return errors.New("the provider is away")
			}))
			return err
		},
		"outcomes": func(ctx context.Context) error {
			_, err := s.Outcomes(ctx, []order.Buyer{{SaleID: sale, UserID: 1}, {SaleID: sale, UserID: 2}})
			return err
		},
		"owners":      func(ctx context.Context) error { _, err := s.Owners(ctx, sale, "", 0, 10); return err },
		"some owners": func(ctx context.Context) error { _, err := s.OwnersAmong(ctx, sale, []int64{1}); return err },
		"tickets settled again": func(ctx context.Context) error {
			_, err := s.settle(ctx, sale, order.Ticket{ID: "again", UserID: 1})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*sandboxtest.Hang) //timing: twice the guard, so that what waits for the standby is seen first
			defer cancel()
			told := make(chan error, 1)
			go func() { told <- tell(ctx) }()
			if !sandboxtest.Poll(func() bool { return d.WaitsForStandby(t) || len(told) > 0 }) {
				t.Error("it neither waits nor returns")
			}
			if len(told) > 0 {
				t.Errorf("it returned %v, and the standby may not have it", <-told)
				return
			}
			sandboxtest.Until(t, "the call ends", func() bool { // it may wait more than once
				d.CancelWaits(t)
				return len(told) > 0
			})
		})
	}
}
