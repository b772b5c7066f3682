package order_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// lockSales returns a transaction that has the locks of sales.
func (s testShop) lockSales(t *testing.T, sales ...int64) pgx.Tx {
	t.Helper()
	tx, err := s.db.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `select from sales where id = any($1) for no key update`, sales)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// withPool returns the shop on a pool of the size that the shop has for payments.
func (s testShop) withPool(t *testing.T) testShop {
	t.Helper()
	cfg := s.db.Config()
	cfg.MaxConns = 8
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return testShop{order.New(db, order.Config{PayWithin: time.Hour}), s.db}
}

// Four of twenty sales are locked. The orders of the others expire in the same round, and those of the four when the lock is gone.
func TestLockedSalesDoNotStopTheSweeper(t *testing.T) {
	s := newShop(t)
	var sales []int64
	for user := range int64(20) {
		sales = append(sales, s.sell(t, 3))
		s.makeOverdue(t, s.buy(t, sales[user], 1+user))
	}
	tx := s.lockSales(t, sales[:4]...)
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang)
	defer cancel()
	if n, err := s.Expire(ctx); n != 16 || err != nil {
		t.Errorf("%d expired, %v; want 16", n, err)
	}
	if _, err := s.Expire(ctx); err == nil || strings.Count(err.Error(), "lock sale ") != 4 {
		t.Errorf("%v, want that four sales stay locked", err)
	}
	sandboxtest.Until(t, "they are tried again, and named no more", func() bool {
		ended := make(chan error, 1)
		go func() { _, err := s.Expire(ctx); ended <- err }()
		tried := false
		for len(ended) == 0 {
			tried = tried || s.number(t, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) > 0
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return tried
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := 16
	sandboxtest.Until(t, "all have expired", func() bool {
		n, err := s.Expire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		total += n
		return total == 20
	})
	s.checkInvariants(t)
}

// As many callers as the pool has connections want to change orders of one locked sale. Few of them wait for the lock at the same
// time, all are told that the sale is locked, and an order of another sale is paid meanwhile.
func TestALockedSaleLeavesTheConnections(t *testing.T) {
	for name, do := range map[string]func(s testShop, user int64, id uuid.UUID) error{
		"cancel": func(s testShop, user int64, id uuid.UUID) error { return s.Cancel(t.Context(), user, id) },
		"refund": func(s testShop, _ int64, id uuid.UUID) error { return s.Refund(t.Context(), id) },
		"extend": func(s testShop, _ int64, id uuid.UUID) error {
			_, err := s.Extend(t.Context(), id, time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t).withPool(t)
			sale := s.sell(t, 20)
			orders := map[int64]uuid.UUID{}
			for user := int64(1); user <= 8; user++ {
				orders[user] = s.buy(t, sale, user)
				if name == "refund" {
					s.capture(t, orders[user], fmt.Sprint("r", user), "captured")
				}
			}
			other := s.buy(t, s.sell(t, 3), 9)
			tx := s.lockSales(t, sale)
			ended := make(chan error, len(orders))
			for user, id := range orders {
				go func() { ended <- do(s, user, id) }()
			}
			s.capture(t, other, "other", "captured")
			left := len(orders)
			sandboxtest.Until(t, "all are told", func() bool {
				if n := s.number(t, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`); n > 4 {
					t.Errorf("%d connections wait for one sale, want at most 4", n)
				}
				for ; len(ended) > 0; left-- {
					if err := <-ended; !errors.Is(err, goods.ErrLocked) {
						t.Errorf("%v, want ErrLocked", err)
					}
				}
				return left == 0
			})
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for user, id := range orders {
				sandboxtest.Until(t, name, func() bool {
					err := do(s, user, id)
					if err != nil && !errors.Is(err, goods.ErrLocked) {
						t.Fatal(err)
					}
					return err == nil
				})
			}
			s.checkInvariants(t)
		})
	}
}

// A transaction has an order's row for long, a payment for example: the sweeper leaves this order, and no other of the sale.
func TestALockedOrderDoesNotStopItsSale(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	locked, other := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.makeOverdue(t, locked)
	s.makeOverdue(t, other)
	tx, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `select from orders where id = $1 for no key update`, locked); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context()); n != 1 || err != nil {
		t.Errorf("%d expired, %v; want the other one", n, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context()); n != 1 || err != nil {
		t.Errorf("%d expired, %v; want the one that was locked", n, err)
	}
	s.checkInvariants(t)
}
