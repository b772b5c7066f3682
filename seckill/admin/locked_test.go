package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// As many of the staff as the bound allows, and more, act on a locked sale. Few of them wait for the lock at the same time, and all
// are told that the sale is locked. Whoever repeats with a key what was done before hears so.
func TestTheStaffActsOnALockedSale(t *testing.T) {
	s := newOrderShop(t, 8)
	s.pay(t, 6)
	cfg := s.db.Config()
	cfg.MaxConns = 12
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	own := New(db, order.Config{PayWithin: time.Hour}, nil)
	refunded, paused := withKey("refund"), withKey("pause")
	expect(t, own.Refund(t.Context(), refunded, s.ids[0]))
	_, err = own.Pause(t.Context(), paused, s.sale)
	expect(t, err)
	tx, err := s.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `select from sales where id = $1 for no key update`, s.sale)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	for what, act := range map[string]func() error{
		"refund": func() error { return own.Refund(t.Context(), keeper, s.ids[1]) },
		"cancel": func() error { return own.Cancel(t.Context(), keeper, s.ids[7]) },
		"extend": func() error { return own.Extend(t.Context(), keeper, s.ids[7], time.Minute) },
		"resume": func() error { _, err := own.Resume(t.Context(), keeper, s.sale); return err },
	} {
		ended := make(chan error, 8)
		for range cap(ended) {
			go func() { ended <- act() }()
		}
		left := cap(ended)
		sandboxtest.Until(t, "all are told", func() bool {
			if n := count(t, s.db, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`); n > 4 {
				t.Errorf("%s: %d connections wait for one sale, want at most 4", what, n)
			}
			for ; len(ended) > 0; left-- {
				if err := <-ended; !errors.Is(err, goods.ErrLocked) {
					t.Errorf("%s: %v, want ErrLocked", what, err)
				}
			}
			return left == 0
		})
	}
	expect(t, own.Refund(t.Context(), refunded, s.ids[0]))
	_, err = own.Pause(t.Context(), paused, s.sale)
	expect(t, err)
}

// The orders of a locked sale come after others: those are refunded, and the answer ends before the locked ones. It is never empty.
func TestRefundAllStopsAtALockedSale(t *testing.T) {
	s := newOrderShop(t, 2)
	s.pay(t, 2)
	tx, err := s.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `select from sales where id = $1 for no key update`, s.sale)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	missing := uuid.New()
	if done := s.RefundAll(t.Context(), keeper, []uuid.UUID{missing, s.ids[0], s.ids[1]}); len(done) != 1 || done[0].Order != missing {
		t.Errorf("%v, want what became of the first", done)
	}
	if done := s.RefundAll(t.Context(), keeper, s.ids); len(done) != 1 || !errors.Is(done[0].Err, goods.ErrLocked) {
		t.Errorf("%v, want that the first is locked", done)
	}
}
