package order_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

func TestExtendMovesTheEndOfAPendingOrderAlone(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	pending, paid, late := s.buy(t, sale, 1), s.buy(t, sale, 2), s.buy(t, sale, 3)
	s.capture(t, paid, "r", "captured")
	s.makeOverdue(t, late)
	before, err := s.ByID(t.Context(), 1, pending)
	if err != nil {
		t.Fatal(err)
	}
	end, err := s.Extend(t.Context(), pending, 10*time.Minute)
	if want := before.ExpiresAt.Add(10 * time.Minute); err != nil || !end.Equal(want) {
		t.Errorf("it ends at %v, %v; want %v", end, err, want)
	}
	for id, want := range map[uuid.UUID]error{paid: order.ErrWrongStatus, late: order.ErrWrongStatus, uuid.New(): order.ErrNotFound} {
		if _, err := s.Extend(t.Context(), id, time.Minute); !errors.Is(err, want) {
			t.Errorf("extend %s: %v, want %v", id, err, want)
		}
	}
	s.checkInvariants(t)
}

// The sweeper lists an order as overdue while a transaction that has extended it is not committed yet. It waits for that, and does not
// cancel the order.
func TestExtendRacesTheSweeper(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	extended, late := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.makeOverdue(t, late)
	var err error
	for left := 300 * time.Millisecond; left < sandboxtest.Hang; left *= 2 { // a slow machine extends it too late
		s.exec(t, `update orders set expires_at = clock_timestamp() + $2 where id = $1`, extended, left)
		if err = s.extendAndSweep(t, extended); !errors.Is(err, order.ErrWrongStatus) {
			break
		}
	}
	if err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		t.Fatal(err)
	}
	if a, b := s.status(t, extended), s.status(t, late); a != order.Pending || b != order.Cancelled {
		t.Errorf("the extended order is %s and the other one %s, want pending and cancelled", a, b)
	}
	s.checkInvariants(t)
}

// extendAndSweep extends an order, and expires orders while that is not committed and the former end has passed.
func (s testShop) extendAndSweep(t *testing.T, extended uuid.UUID) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
		if _, err := order.New(tx, order.Config{}).Extend(t.Context(), extended, time.Hour); err != nil {
			return err
		}
		swept := make(chan error, 1)
		defer func() {
			if err := <-swept; err != nil {
				t.Error(err)
			}
		}()
		defer tx.Commit(t.Context()) // before the wait for the sweeper
		sandboxtest.Until(t, "the former end has passed", func() bool {
			return s.number(t, `select count(*) from orders where id = $1 and expires_at <= clock_timestamp()`, extended) == 1
		})
		go func() {
			var err error
			sandboxtest.Poll(func() bool { // on a busy machine it misses the lock: one that has not comes again
				var expired int
				expired, err = order.New(s.db, order.Config{}).Expire(t.Context())
				return expired > 0 || err != nil
			})
			swept <- err
		}()
		sandboxtest.Until(t, "the sweeper waits", func() bool {
			return s.number(t, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 1
		})
		return nil
	})
}
