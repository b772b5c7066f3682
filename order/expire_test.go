package order_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The reconciler is told of the units that come back, and of no order that stays as it is.
func TestUnitsThatComeBackAreToldOf(t *testing.T) {
	s := newShop(t)
	told := map[int64]int{}
	s.OnUnitsReturned(func(sale int64) { told[sale]++ })
	sale := s.sell(t, 3)
	cancelled, refunded, overdue := s.buy(t, sale, 1), s.buy(t, sale, 2), s.buy(t, sale, 3)
	s.capture(t, refunded, "r", "captured")
	s.makeOverdue(t, overdue)
	for range 2 { // the second time all of them have ended
		s.Cancel(t.Context(), 1, cancelled)
		s.Refund(t.Context(), refunded)
		s.Expire(t.Context())
	}
	if left := s.stock(t, sale); told[sale] != 3 || len(told) != 1 || left != 3 {
		t.Errorf("told %v times by sale, and %d units came back; want 3 of this one, and 3", told, left)
	}
}

func TestCancelPutsTheUnitBack(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	mine := s.buy(t, sale, 1)
	if err := s.Cancel(t.Context(), 2, mine); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("another user's order: %v, want ErrNotFound", err)
	}
	if err := s.Cancel(t.Context(), 1, uuid.New()); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("an unknown order: %v, want ErrNotFound", err)
	}
	if status, left := s.status(t, mine), s.stock(t, sale); status != order.Pending || left != 2 {
		t.Errorf("after refusals the order is %s and %d units are left, want pending and 2", status, left)
	}
	if err := s.Cancel(t.Context(), 1, mine); err != nil {
		t.Fatal(err)
	}
	before := s.snapshot(t)
	if err := s.Cancel(t.Context(), 1, mine); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a second time: %v, want ErrWrongStatus", err)
	}
	if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
		t.Errorf("the second time changed rows: %s", diff)
	}
	if o, err := s.ByID(t.Context(), 1, mine); err != nil || o.CancelledAt == nil || !o.CancelledAt.Before(o.ExpiresAt) {
		t.Errorf("an order that its buyer cancelled: %+v, %v", o, err)
	}
	if status, left := s.status(t, mine), s.stock(t, sale); status != order.Cancelled || left != 3 {
		t.Errorf("the order is %s and %d units are left, want cancelled and 3", status, left)
	}
	paid := s.buy(t, sale, 2)
	s.capture(t, paid, "r", "captured")
	if err := s.Cancel(t.Context(), 2, paid); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a paid order: %v, want ErrWrongStatus", err)
	}
	if left := s.stock(t, sale); left != 2 {
		t.Errorf("%d units are left, want 2", left)
	}
	s.checkInvariants(t)
}

func TestConcurrentCancelsPutTheUnitBackOnce(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	mine := s.buy(t, sale, 1)
	var done atomic.Int64
	var crowd sync.WaitGroup
	for range 10 {
		crowd.Go(func() {
			switch err := s.Cancel(t.Context(), 1, mine); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, order.ErrWrongStatus):
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	if left := s.stock(t, sale); done.Load() != 1 || left != 3 {
		t.Errorf("%d cancels succeeded, %d units are left; want 1 and 3", done.Load(), left)
	}
	s.checkInvariants(t)
}

// An order that is not pending is refused without its sale's lock, so repeated cancels delay no other
// purchase and take no connection for long.
func TestCancelOfADecidedOrderTakesNoLock(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	cancelled, paid := s.buy(t, sale, 1), s.buy(t, sale, 2)
	if err := s.Cancel(t.Context(), 1, cancelled); err != nil {
		t.Fatal(err)
	}
	s.capture(t, paid, "r", "captured")
	tx := s.lockSale(t, sale)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), sandboxtest.Hang) // no test waits for it
	defer cancel()
	for user, id := range map[int64]uuid.UUID{1: cancelled, 2: paid} {
		if err := s.Cancel(ctx, user, id); !errors.Is(err, order.ErrWrongStatus) {
			t.Errorf("cancel while another transaction has the sale: %v, want ErrWrongStatus", err)
		}
	}
	if err := s.Refund(ctx, cancelled); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("refund while another transaction has the sale: %v, want ErrWrongStatus", err)
	}
}

// The look at the status is only a hint: the update under the lock decides.
func TestCancelOfAnOrderThatIsPaidMeanwhile(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	mine := s.buy(t, sale, 1)
	tx := s.lockSale(t, sale)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	cancelled := make(chan error, 1)
	go func() {
		err := goods.ErrLocked
		for errors.Is(err, goods.ErrLocked) { // on a busy machine
			err = order.New(s.db, order.Config{}).Cancel(t.Context(), 1, mine)
		}
		cancelled <- err
	}()
	sandboxtest.Until(t, "the cancel waits for the sale's row", func() bool {
		var waiting bool
		if err := s.db.QueryRow(t.Context(), `
			select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting
	})
	s.capture(t, mine, "r", "captured")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("cancel: %v, want ErrWrongStatus", err)
	}
	if status, left := s.status(t, mine), s.stock(t, sale); status != order.Paid || left != 2 {
		t.Errorf("the order is %s and %d units are left, want paid and 2", status, left)
	}
	s.checkInvariants(t)
}

// lockSale returns a transaction that has the sale's lock.
func (s testShop) lockSale(t *testing.T, sale int64) pgx.Tx {
	t.Helper()
	tx, err := s.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := goods.Lock(t.Context(), tx, sale); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestExpireCancelsOnlyOverdueOrders(t *testing.T) {
	s := newShop(t)
	a, b := s.sell(t, 10), s.sell(t, 10)
	late, lateToo, lateThere := s.buy(t, a, 1), s.buy(t, a, 2), s.buy(t, b, 1)
	inTime := s.buy(t, a, 3)
	paid, cancelled := s.buy(t, a, 4), s.buy(t, a, 5)
	s.capture(t, paid, "r", "captured")
	if err := s.Cancel(t.Context(), 5, cancelled); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Expire(t.Context()); n != 0 || err != nil {
		t.Errorf("nothing is overdue: %d expired, %v; want none", n, err)
	}
	for _, id := range []uuid.UUID{late, lateToo, lateThere, paid, cancelled} {
		s.makeOverdue(t, id)
	}
	if n, err := s.Expire(t.Context()); n != 3 || err != nil {
		t.Errorf("%d expired, %v; want 3", n, err)
	}
	if n, err := s.Expire(t.Context()); n != 0 || err != nil {
		t.Errorf("a second time: %d expired, %v; want none", n, err)
	}
	for id, want := range map[uuid.UUID]string{late: order.Cancelled, lateToo: order.Cancelled, lateThere: order.Cancelled,
		inTime: order.Pending, paid: order.Paid, cancelled: order.Cancelled} {
		if got := s.status(t, id); got != want {
			t.Errorf("order %s is %s, want %s", id, got, want)
		}
	}
	if o, err := s.ByID(t.Context(), 1, late); err != nil || o.CancelledAt == nil || o.CancelledAt.Before(o.ExpiresAt) {
		t.Errorf("an order whose time to pay ran out: %+v, %v", o, err)
	}
	if left, leftThere := s.stock(t, a), s.stock(t, b); left != 8 || leftThere != 10 {
		t.Errorf("%d and %d units are left, want 8 and 10", left, leftThere)
	}
	s.checkInvariants(t)
}

func TestFiveSweepersPutEachUnitBackOnce(t *testing.T) {
	s := newShop(t)
	var sales []int64
	for _, n := range []int{700, 150, 150} { // the first has more than fit into one transaction
		sale := s.sell(t, n)
		users := make([]int64, n)
		for i := range users {
			users[i] = int64(1 + i)
		}
		batch := tickets(users...)
		for i := range batch {
			batch[i].ID += "-" + string(rune('a'+len(sales)))
		}
		s.place(t, sale, batch...)
		sales = append(sales, sale)
	}
	s.exec(t, `update orders set expires_at = clock_timestamp() where user_id <= 650 and (sale_id = $1 or user_id <= 100)`, sales[0])
	var total atomic.Int64
	var sweepers sync.WaitGroup
	for range 5 {
		sweepers.Go(func() {
			for {
				n, err := s.Expire(t.Context())
				if err != nil {
					t.Error(err)
				}
				if total.Add(int64(n)); n == 0 || err != nil {
					return
				}
			}
		})
	}
	sweepers.Wait()
	if total.Load() != 850 {
		t.Errorf("%d expired, want 850", total.Load())
	}
	for i, want := range []int{650, 100, 100} {
		if left := s.stock(t, sales[i]); left != want {
			t.Errorf("%d units of sale %d are left, want %d", left, sales[i], want)
		}
	}
	s.checkInvariants(t)
}

// The units of one sale cannot be put back; those of the other sales still come back.
func TestASaleThatFailsDoesNotStopTheOthers(t *testing.T) {
	s := newShop(t)
	broken, alsoBroken := s.sell(t, 3), s.sell(t, 3)
	stuck, orphan := s.buy(t, broken, 1), s.buy(t, alsoBroken, 1)
	good := s.sell(t, 3)
	fine := s.buy(t, good, 1)
	for _, id := range []uuid.UUID{stuck, orphan, fine} {
		s.makeOverdue(t, id)
	}
	s.exec(t, `update sales set stock = total where id = $1`, broken)
	s.exec(t, `delete from sales where id = $1`, alsoBroken)
	n, err := s.Expire(t.Context())
	if n != 1 {
		t.Errorf("%d expired, want 1", n)
	}
	if !errors.Is(err, goods.ErrNoSale) || refusedBy(err) != "stock_within_total" {
		t.Errorf("got %v, want both faults", err)
	}
	if got, left := s.status(t, fine), s.stock(t, good); got != order.Cancelled || left != 3 {
		t.Errorf("the good sale's order is %s and %d units are left, want cancelled and 3", got, left)
	}
	if got := s.status(t, stuck); got != order.Pending {
		t.Errorf("the order of the sale that fails is %s, want pending", got)
	}
}

// Sweep runs Expire and DrainRefunds until its context ends.
func TestSweepRunsBothAndStops(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	late, tooLate := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.makeOverdue(t, late)
	s.makeOverdue(t, tooLate)
	s.capture(t, tooLate, "too late", "refund_due")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var refunds atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- s.Sweep(ctx, []order.Provider{testProvider(func(context.Context, order.Payment) error {
			refunds.Add(1)
			return nil
		})}, func(err error) { t.Error(err) })
	}()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Collectors()...)
	var miscounted error // the sweep counts after its commit: it must not be stopped in between
	if !sandboxtest.Poll(func() bool {
		miscounted = testutil.GatherAndCompare(registry, strings.NewReader(`
			# HELP miaosha_orders_expired_total Pending orders that this process cancelled because they were not paid in time.
			# TYPE miaosha_orders_expired_total counter
			miaosha_orders_expired_total 2
			# HELP miaosha_payments_refunded_total Payments that this process has given back.
			# TYPE miaosha_payments_refunded_total counter
			miaosha_payments_refunded_total 1
		`), "miaosha_orders_expired_total", "miaosha_payments_refunded_total")
		return miscounted == nil
	}) {
		t.Errorf("after a minute of sweeping: %v", miscounted)
	}
	stop()
	if err := <-ended; err != nil || refunds.Load() != 1 {
		t.Errorf("%d refunds, %v; want 1", refunds.Load(), err)
	}
	if n := s.number(t, `select (select count(*) from orders where status = 'cancelled') + (select count(*) from payments where status = 'refunded')`); n != 3 {
		t.Errorf("%d orders cancelled and payments refunded, want 3", n)
	}
	s.checkInvariants(t)
}
