package order_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// capture fails the test unless the capture returns the status want.
func (s testShop) capture(t *testing.T, id uuid.UUID, ref, want string) {
	t.Helper()
	if got, err := s.Capture(t.Context(), captured(id, price, ref)); got != want || err != nil {
		t.Errorf("capture %q: %q, %v; want %s", ref, got, err, want)
	}
}

// captured is a capture by the cashier that does not name its payment.
func captured(id uuid.UUID, amount int64, ref string) order.Captured {
	return order.Captured{Provider: order.Cashier, OrderID: id, Amount: amount, Ref: ref}
}

// testProvider is a cashier whose refunds are a function.
type testProvider func(context.Context, order.Payment) error

func (p testProvider) Name() string                                          { return order.Cashier }
func (p testProvider) Create(context.Context, order.Payment) (string, error) { return "", nil }
func (p testProvider) Query(context.Context, order.Payment) (order.Found, error) {
	return order.Found{Status: order.FoundUnknown}, nil
}
func (p testProvider) Verify(map[string][]string, []byte, ...time.Time) error {
	return order.ErrSignature
}
func (p testProvider) Read(body []byte) ([]byte, error) { return body, nil }
func (p testProvider) Refund(ctx context.Context, pay order.Payment, _ uuid.UUID) error {
	return p(ctx, pay)
}

// refunder makes each refund.
var refunder = testProvider(func(context.Context, order.Payment) error { return nil })

// askNow makes the next try of every payment due.
func (s testShop) askNow(t *testing.T) {
	t.Helper()
	s.exec(t, `update payments set ask_at = now()`)
}

// payments returns the references and statuses of an order's payments, oldest first.
func (s testShop) payments(t *testing.T, id uuid.UUID) []string {
	t.Helper()
	return s.read(t, `select coalesce(provider_ref, '') || ' ' || status from payments where order_id = $1 order by id`, id)
}

func TestOpenPaymentReusesTheOpenOne(t *testing.T) {
	s := newShop(t)
	mine := s.buy(t, s.sell(t, 1), 1)
	first, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine)
	if err != nil || first.ID == uuid.Nil {
		t.Fatalf("got %+v, %v; want a payment", first, err)
	}
	if diff := cmp.Diff(order.Payment{ID: first.ID, OrderID: mine, Amount: price, Status: "open", Provider: order.Cashier,
		PayUntil: first.PayUntil, CreatedAt: first.CreatedAt, UpdatedAt: first.CreatedAt}, first); diff != "" {
		t.Fatal(diff)
	}
	var crowd sync.WaitGroup
	for range 10 {
		crowd.Go(func() {
			if again, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); err != nil || again != first {
				t.Errorf("again: %+v, %v; want %+v", again, err, first)
			}
		})
	}
	crowd.Wait()
	if err := s.Decline(t.Context(), first, "no"); err != nil {
		t.Fatal(err)
	}
	if err := s.Decline(t.Context(), first, "no"); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a second decline: %v, want ErrWrongStatus", err)
	}
	if second, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); err != nil || second.ID == first.ID {
		t.Errorf("after the decline: %+v, %v; want a new payment", second, err)
	}
	got, err := s.PaymentOf(t.Context(), 1, first.ID)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(order.Payment{ID: first.ID, OrderID: mine, Amount: price, Status: "declined", Provider: order.Cashier,
		PayUntil: first.PayUntil, CreatedAt: first.CreatedAt, UpdatedAt: got.UpdatedAt}, got); diff != "" {
		t.Errorf("the first payment: %s", diff)
	}
	for _, test := range []struct {
		user int64
		id   uuid.UUID
	}{{2, first.ID}, {1, uuid.New()}} {
		if _, err := s.PaymentOf(t.Context(), test.user, test.id); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("payment %s for user %d: %v, want ErrNotFound", test.id, test.user, err)
		}
	}
}

func TestConcurrentCallsOpenOnePayment(t *testing.T) {
	s := newShop(t)
	mine := s.buy(t, s.sell(t, 1), 1)
	var mu sync.Mutex
	ids := map[uuid.UUID]bool{}
	var crowd sync.WaitGroup
	for range 16 {
		crowd.Go(func() {
			p, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[p.ID] = true
		})
	}
	crowd.Wait()
	if n := s.number(t, `select count(*) from payments`); n != 1 || len(ids) != 1 {
		t.Errorf("%d payments and %d different ids, want one", n, len(ids))
	}
}

// However often and in whatever order a buyer opens and declines payments, an order has at most five.
func TestAnOrderHasAFewPayments(t *testing.T) {
	s := newShop(t)
	const races = 10 // one alone often makes five payments without the lock too
	sale := s.sell(t, 2+races)
	mine, paid := s.buy(t, sale, 1), s.buy(t, sale, 2)
	var last order.Payment
	for i := range 7 {
		p, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine)
		switch {
		case i < 5 && err != nil:
			t.Fatalf("payment %d: %v", i+1, err)
		case i < 5:
			last = p
			if i == 4 {
				if again, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); err != nil || again != p {
					t.Errorf("the fifth again: %+v, %v; want %+v", again, err, p)
				}
			}
			if err := s.Decline(t.Context(), p, "no"); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, order.ErrDeclined):
			t.Errorf("payment %d: %+v, %v; want ErrDeclined", i+1, p, err)
		}
	}
	s.capture(t, mine, "r", "captured") // the provider's notice counts all the same
	if _, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a paid order: %v, want ErrWrongStatus", err)
	}
	if err := s.Decline(t.Context(), last, "no"); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("a second decline: %v, want ErrWrongStatus", err)
	}

	for user := int64(3); user < 3+races; user++ {
		raced := s.buy(t, sale, user)
		var crowd sync.WaitGroup
		for range 8 {
			crowd.Go(func() {
				for range 6 {
					p, err := s.OpenPayment(t.Context(), order.Cashier, user, raced)
					if err == nil {
						err = s.Decline(t.Context(), p, "no")
					}
					if err != nil && !errors.Is(err, order.ErrDeclined) && !errors.Is(err, order.ErrWrongStatus) {
						t.Error(err)
					}
				}
			})
		}
		crowd.Wait()
		if n := len(s.payments(t, raced)); n != 5 {
			t.Errorf("eight callers at once made %d payments, want 5", n)
		}
	}
	if _, err := s.OpenPayment(t.Context(), order.Cashier, 2, paid); err != nil {
		t.Errorf("another order: %v", err)
	}
	s.checkInvariants(t)
}

func TestOnlyAPendingOrderInTimeCanBePaid(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 10)
	pending, late, paid, cancelled := s.buy(t, sale, 1), s.buy(t, sale, 2), s.buy(t, sale, 3), s.buy(t, sale, 4)
	s.makeOverdue(t, late)
	s.capture(t, paid, "r", "captured")
	if err := s.Cancel(t.Context(), 4, cancelled); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		user int64
		id   uuid.UUID
		want error
	}{
		{"pending", 1, pending, nil},
		{"too late", 2, late, order.ErrWrongStatus},
		{"paid", 3, paid, order.ErrWrongStatus},
		{"cancelled", 4, cancelled, order.ErrWrongStatus},
		{"another user's", 2, pending, order.ErrNotFound},
		{"another user's, paid", 2, paid, order.ErrNotFound},
		{"missing", 1, uuid.New(), order.ErrNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := s.OpenPayment(t.Context(), order.Cashier, test.user, test.id); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if n := s.number(t, `select count(*) from payments where status = 'open'`); n != 1 {
		t.Errorf("%d payments are open, want 1", n)
	}
}

func TestACaptureInTimePaysTheOrder(t *testing.T) {
	for _, opened := range []bool{true, false} {
		t.Run(fmt.Sprintf("opened before %v", opened), func(t *testing.T) {
			s := newShop(t)
			sale := s.sell(t, 2)
			mine := s.buy(t, sale, 1)
			if opened {
				if _, err := s.OpenPayment(t.Context(), order.Cashier, 1, mine); err != nil {
					t.Fatal(err)
				}
			}
			s.capture(t, mine, "r1", "captured")
			o, err := s.ByID(t.Context(), 1, mine)
			if err != nil || o.Status != order.Paid {
				t.Errorf("the order is %+v, %v; want paid", o, err)
			}
			if o.PaidAt == nil || time.Since(*o.PaidAt) > sandboxtest.Hang {
				t.Errorf("paid at %v, want now", o.PaidAt)
			}
			before := s.snapshot(t)
			s.capture(t, mine, "r1", "captured")
			if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
				t.Errorf("a second capture with the same reference changed rows: %s", diff)
			}
			s.capture(t, mine, "r2", "refund_due")
			if diff := cmp.Diff([]string{"r1 captured", "r2 refund_due"}, s.payments(t, mine)); diff != "" {
				t.Error(diff)
			}
			if left := s.stock(t, sale); left != 1 {
				t.Errorf("%d units are left, want 1", left)
			}
			s.checkInvariants(t)
		})
	}
}

func TestALateCaptureIsRefunded(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	late, cancelled, expired := s.buy(t, sale, 1), s.buy(t, sale, 2), s.buy(t, sale, 3)
	for user, id := range map[int64]uuid.UUID{1: late, 2: cancelled, 3: expired} {
		if _, err := s.OpenPayment(t.Context(), order.Cashier, user, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cancel(t.Context(), 2, cancelled); err != nil {
		t.Fatal(err)
	}
	s.makeOverdue(t, expired)
	if n, err := s.Expire(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.makeOverdue(t, late) // and not yet swept
	for i, id := range []uuid.UUID{late, cancelled, expired} {
		was := s.status(t, id)
		s.capture(t, id, "r"+strconv.Itoa(i), "refund_due")
		if got := s.status(t, id); got != was {
			t.Errorf("order %d went from %s to %s, want no change", i, was, got)
		}
	}
	var mu sync.Mutex
	due := map[string]bool{}
	n, err := s.DrainRefunds(t.Context(), testProvider(func(_ context.Context, p order.Payment) error {
		if p.Amount != price || p.Status != "refund_due" {
			t.Errorf("refund was called with %+v", p)
		}
		mu.Lock()
		defer mu.Unlock()
		due[p.ProviderRef] = true
		return nil
	}))
	if n != 3 || err != nil {
		t.Errorf("%d payments were refunded, %v; want 3", n, err)
	}
	if diff := cmp.Diff(map[string]bool{"r0": true, "r1": true, "r2": true}, due); diff != "" {
		t.Error(diff)
	}
	for i, id := range []uuid.UUID{late, cancelled, expired} {
		s.capture(t, id, "r"+strconv.Itoa(i), "refunded") // the same capture again
	}
	n, err = s.DrainRefunds(t.Context(), testProvider(func(_ context.Context, p order.Payment) error {
		t.Errorf("a second refund of %+v", p)
		return nil
	}))
	if n != 0 || err != nil {
		t.Errorf("%d more payments were refunded, %v; want none", n, err)
	}
	s.checkInvariants(t)
}

// A round ends while the provider is silent. The payments that it never came to have lost no try.
func TestASlowProviderCostsNoTries(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 40)
	for user := int64(1); user <= 40; user++ {
		id := s.buy(t, sale, user)
		s.makeOverdue(t, id)
		s.capture(t, id, fmt.Sprintf("r%d", user), "refund_due")
	}
	round, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	s.DrainRefunds(round, testProvider(func(ctx context.Context, _ order.Payment) error { // its error is that of the round
		if asked.Add(1) == 8 {
			cancel()
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	if got := s.read(t, `select 'tried' from payments where tries > 0`); len(got) > 16 {
		t.Errorf("%d payments have lost a try, and the provider was asked about %d", len(got), asked.Load())
	}
}

func TestARefundThatFailsIsTriedAgainAndDoesNotStopOthers(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	for user := int64(1); user <= 3; user++ {
		id := s.buy(t, sale, user)
		s.makeOverdue(t, id)
		s.capture(t, id, fmt.Sprintf("r%d", user), "refund_due")
	}
	broken := errors.New("the provider refuses")
	refund := func(_ context.Context, p order.Payment) error {
		if p.ProviderRef == "r1" { // the oldest
			return broken
		}
		return nil
	}
	for _, want := range []int{2, 0} {
		if n, err := s.DrainRefunds(t.Context(), testProvider(refund)); n != want || !errors.Is(err, broken) {
			t.Errorf("%d payments were refunded, %v; want %d and the provider's error", n, err, want)
		}
		if n, err := s.DrainRefunds(t.Context(), testProvider(refund)); n != 0 || err != nil {
			t.Errorf("before the next try is due: %d, %v", n, err)
		}
		if got, want := s.read(t, `select why from payments where status = 'refund_due'`), []string{broken.Error()}; !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		s.askNow(t)
	}
	broken = nil
	if n, err := s.DrainRefunds(t.Context(), testProvider(refund)); n != 1 || err != nil {
		t.Errorf("at last %d payments were refunded, %v; want 1", n, err)
	}
}

func TestARefusedCaptureChangesNothing(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 5)
	mine, other := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.capture(t, other, "other's", "captured")
	before := s.snapshot(t)
	for _, test := range []struct {
		name   string
		id     uuid.UUID
		amount int64
		ref    string
		want   error
	}{
		{"too little", mine, price - 1, "r", order.ErrWrongAmount},
		{"too much", mine, price + 1, "r", order.ErrWrongAmount},
		{"nothing", mine, 0, "r", order.ErrWrongAmount},
		{"the reference of another order", mine, price, "other's", order.ErrReusedRef},
		{"no such order", uuid.New(), price, "r", order.ErrNotFound},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := s.Capture(t.Context(), captured(test.id, test.amount, test.ref)); got != "" || !errors.Is(err, test.want) {
				t.Errorf("got %q, %v; want %v", got, err, test.want)
			}
			if diff := cmp.Diff(before, s.snapshot(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The provider sends one notice many times at once. Every call returns the same status, and one row
// is written.
func TestConcurrentNoticesOfOneCaptureAgree(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 100)
	for i, test := range []struct {
		name         string
		open, late   bool
		want, status string
	}{
		{"in time", true, false, "captured", order.Paid},
		{"in time, no payment opened", false, false, "captured", order.Paid},
		{"late", true, true, "refund_due", order.Pending},
		{"late, no payment opened", false, true, "refund_due", order.Pending},
	} {
		t.Run(test.name, func(t *testing.T) {
			for round := range 5 {
				user := int64(1 + 10*i + round)
				id := s.buy(t, sale, user)
				if test.open {
					if _, err := s.OpenPayment(t.Context(), order.Cashier, user, id); err != nil {
						t.Fatal(err)
					}
				}
				if test.late {
					s.makeOverdue(t, id)
				}
				var notices sync.WaitGroup
				for range 8 {
					notices.Go(func() { s.capture(t, id, fmt.Sprint("r", user), test.want) })
				}
				notices.Wait()
				if diff := cmp.Diff([]string{fmt.Sprint("r", user, " ", test.want)}, s.payments(t, id)); diff != "" {
					t.Error(diff)
				}
				if got := s.status(t, id); got != test.status {
					t.Errorf("the order is %s, want %s", got, test.status)
				}
			}
		})
	}
	s.checkInvariants(t)
}

// Of many captures of one order at once, one pays and all others are refunded.
func TestOneOfManyCapturesPays(t *testing.T) {
	s := newShop(t)
	id := s.buy(t, s.sell(t, 1), 1)
	if _, err := s.OpenPayment(t.Context(), order.Cashier, 1, id); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	got := map[string]int{}
	var crowd sync.WaitGroup
	for i := range 12 {
		crowd.Go(func() {
			status, err := s.Capture(t.Context(), captured(id, price, "r"+strconv.Itoa(i)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	crowd.Wait()
	if diff := cmp.Diff(map[string]int{"captured": 1, "refund_due": 11}, got); diff != "" {
		t.Error(diff)
	}
	if n := s.number(t, `select count(*) from payments`); n != 12 {
		t.Errorf("%d payments were recorded, want 12", n)
	}
	s.checkInvariants(t)
}

func TestPayCancelAndExpiryRaceForAHundredOrders(t *testing.T) {
	s := newShop(t)
	const n = 100
	sale := s.sell(t, n)
	users := make([]int64, n)
	for i := range users {
		users[i] = int64(1 + i)
	}
	results := s.place(t, sale, tickets(users...)...)
	s.exec(t, `update orders set expires_at = clock_timestamp() + random() * interval '400 ms'`)
	seed := uint64(rand.Int64())
	t.Logf("seed %d", seed)
	statuses := make([]string, n) // what Capture returned
	var crowd, sweepers sync.WaitGroup
	for part := range 10 {
		crowd.Go(func() { // buyers
			dice := rand.New(rand.NewPCG(seed, uint64(part)))
			for i := part; i < n; i += 10 {
				if dice.IntN(3) == 0 {
					continue // never pays
				}
				if _, err := s.OpenPayment(t.Context(), order.Cashier, results[i].UserID, results[i].OrderID); err != nil && !errors.Is(err, order.ErrWrongStatus) {
					t.Error(err)
				}
				status, err := s.Capture(t.Context(), captured(results[i].OrderID, price, fmt.Sprint("r", i)))
				if err != nil {
					t.Error(err)
				}
				statuses[i] = status
			}
		})
		crowd.Go(func() { // buyers who cancel
			dice := rand.New(rand.NewPCG(seed, uint64(100+part)))
			for i := part; i < n; i += 10 {
				if dice.IntN(3) == 0 {
					if err := s.Cancel(t.Context(), results[i].UserID, results[i].OrderID); err != nil && !errors.Is(err, order.ErrWrongStatus) {
						t.Error(err)
					}
				}
			}
		})
	}
	deadline := time.Now().Add(sandboxtest.Hang)
	for range 5 {
		sweepers.Go(func() {
			for s.number(t, `select count(*) from orders where status = 'pending'`) > 0 {
				if _, err := s.Expire(t.Context()); err != nil || time.Now().After(deadline) {
					t.Errorf("orders are still pending: %v", err)
					return
				}
			}
		})
	}
	crowd.Wait()
	sweepers.Wait()
	if _, err := s.DrainRefunds(t.Context(), refunder); err != nil {
		t.Error(err)
	}
	s.checkInvariants(t)
	for i, r := range results {
		want := order.Cancelled
		if statuses[i] == "captured" {
			want = order.Paid
		}
		if got := s.status(t, r.OrderID); got != want {
			t.Errorf("order %d is %s, but Capture returned %q", i, got, statuses[i])
		}
		if statuses[i] != "refund_due" {
			continue
		}
		if diff := cmp.Diff([]string{fmt.Sprintf("r%d refunded", i)}, s.payments(t, r.OrderID)); diff != "" {
			t.Errorf("payments of order %d, which was too late: %s", i, diff)
		}
	}
	t.Logf("%v", s.read(t, `select status, count(*) from orders group by 1 order by 1`))
}

// Random moves of one order are compared with a small model.
func TestTheMovesOfAnOrderFollowAModel(t *testing.T) {
	s := newShop(t)
	user := int64(0)
	sale := s.sell(t, 100_000)
	taken := 0
	rapid.Check(t, func(r *rapid.T) {
		user++
		id := s.buy(t, sale, user)
		taken++
		status, late, open := order.Pending, false, false
		refs := map[string]string{} // reference -> status of its payment
		payable := func() bool { return status == order.Pending && !late }
		cancel := func() {
			err, want := s.Cancel(t.Context(), user, id), error(order.ErrWrongStatus)
			if status == order.Pending {
				status, want = order.Cancelled, nil
				taken--
			}
			if !errors.Is(err, want) {
				r.Fatalf("cancel: %v, want %v", err, want)
			}
		}
		moves := map[string]func(*rapid.T){
			"open": func(r *rapid.T) {
				_, err := s.OpenPayment(t.Context(), order.Cashier, user, id)
				want := error(order.ErrWrongStatus)
				if payable() {
					want, open = nil, true
				}
				if !errors.Is(err, want) {
					r.Fatalf("open: %v, want %v", err, want)
				}
			},
			"capture": func(r *rapid.T) {
				ref := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "ref")
				want, known := refs[ref]
				if !known {
					want = "refund_due"
					if payable() {
						want, status = "captured", order.Paid
					}
					refs[ref], open = want, false
				}
				if got, err := s.Capture(t.Context(), captured(id, price, fmt.Sprint(ref, user))); got != want || err != nil {
					r.Fatalf("capture %s: %q, %v; want %s", ref, got, err, want)
				}
			},
			"cancel": func(*rapid.T) { cancel() },
			"time passes": func(*rapid.T) {
				s.makeOverdue(t, id)
				late = true
			},
			"sweep": func(r *rapid.T) {
				n, err := s.Expire(t.Context())
				want := 0
				if status == order.Pending && late {
					want, status = 1, order.Cancelled
					taken--
				}
				if n != want || err != nil {
					r.Fatalf("%d expired, %v; want %d", n, err, want)
				}
			},
			"refund": func(r *rapid.T) {
				want := 0
				for ref, st := range refs {
					if st == "refund_due" {
						refs[ref] = "refunded"
						want++
					}
				}
				n, err := s.DrainRefunds(t.Context(), refunder)
				if n != want || err != nil {
					r.Fatalf("%d payments were refunded, %v; want %d", n, err, want)
				}
			},
			"place again": func(r *rapid.T) {
				ticket := order.Ticket{ID: fmt.Sprintf("t%d-%d", sale, user), UserID: user}
				got, err := s.settle(t.Context(), sale, ticket)
				want := []order.Result{{Ticket: ticket.ID, UserID: user, Outcome: order.Ordered, OrderID: id}}
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					r.Fatalf("placed again: %v %s", err, diff)
				}
			},
			"": func(r *rapid.T) {
				if got := s.status(t, id); got != status {
					r.Fatalf("the order is %s, want %s", got, status)
				}
				if left := s.stock(t, sale); left != 100_000-taken {
					r.Fatalf("%d units are left, want %d", left, 100_000-taken)
				}
				want := map[string]int{}
				for _, st := range refs {
					want[st]++
				}
				if open {
					want["open"]++
				}
				got := map[string]int{}
				for _, st := range s.read(t, `select status from payments where order_id = $1`, id) {
					got[st]++
				}
				if diff := cmp.Diff(want, got); diff != "" {
					r.Fatalf("payments: %s", diff)
				}
			},
		}
		r.Repeat(moves)
		// The sweep of the next round must not find this order.
		if status == order.Pending {
			cancel()
		}
		moves["refund"](r)
	})
	s.checkInvariants(t)
}

// A refund of a paid order returns its unit and its money, once.
func TestRefundReturnsUnitAndMoney(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 3)
	paid, pending := s.buy(t, sale, 1), s.buy(t, sale, 2)
	s.capture(t, paid, "r", "captured")
	if err := s.Refund(t.Context(), uuid.New()); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("an unknown order: %v, want ErrNotFound", err)
	}
	if err := s.Refund(t.Context(), pending); !errors.Is(err, order.ErrWrongStatus) {
		t.Errorf("an order that is not paid: %v, want ErrWrongStatus", err)
	}
	var done atomic.Int64
	var crowd sync.WaitGroup
	for range 5 {
		crowd.Go(func() {
			if err := s.Refund(t.Context(), paid); err == nil {
				done.Add(1)
			} else if !errors.Is(err, order.ErrWrongStatus) {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	if done.Load() != 1 {
		t.Errorf("%d refunds succeeded, want 1", done.Load())
	}
	if left, status := s.stock(t, sale), s.status(t, paid); left != 2 || status != order.Refunded {
		t.Errorf("%d units are left and the order is %s, want 2 and refunded", left, status)
	}
	n, err := s.DrainRefunds(t.Context(), testProvider(func(_ context.Context, p order.Payment) error {
		want := order.Payment{ID: p.ID, OrderID: paid, Amount: price, Status: "refund_due", Provider: order.Cashier, ProviderRef: "r",
			PayUntil: p.PayUntil, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Error(diff)
		}
		return nil
	}))
	if n != 1 || err != nil {
		t.Errorf("%d payments were refunded, %v; want 1", n, err)
	}
	s.checkInvariants(t)
}
