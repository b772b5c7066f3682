package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/goods"
	"miaosha/order"
	"miaosha/seckill/audit"
)

// orderShop is a shop with n orders of an open sale. User k has the k-th.
type orderShop struct {
	*Store
	db     *pgxpool.Pool
	orders *order.Store
	sale   int64
	ids    []uuid.UUID
}

func newOrderShop(t *testing.T, n int) orderShop {
	t.Helper()
	s, db, _ := newShop(t)
	shop := orderShop{Store: s, db: db, orders: order.New(db, s.orders), ids: make([]uuid.UUID, n)}
	now := time.Now()
	var err error
	shop.sale, err = goods.New(db).Sell(t.Context(), goods.Item{Title: "kettle"},
		goods.Terms{Price: 9900, Total: n + 5, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		sale, err := goods.Lock(t.Context(), tx, shop.sale)
		if err != nil {
			return err
		}
		var tickets []order.Ticket
		for i := range n {
			tickets = append(tickets, order.Ticket{ID: fmt.Sprint("t", i+1), UserID: int64(i + 1)})
		}
		results, err := shop.orders.Place(t.Context(), tx, sale, tickets)
		for _, r := range results {
			shop.ids[r.UserID-1] = r.OrderID
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return shop
}

// pay captures the money for the first n orders.
func (s orderShop) pay(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		if status, err := s.orders.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: s.ids[i], Amount: 9900, Ref: fmt.Sprint("r", i)}); err != nil || status != "captured" {
			t.Fatal(status, err)
		}
	}
}

// check compares the number of orders of each status, and of lines of each action in the log; and audits.
func (s orderShop) check(t *testing.T, what string, want map[string]int) {
	t.Helper()
	rows, _ := s.db.Query(t.Context(), `
		select status, count(*)::int from orders group by 1
		union all select action, count(*)::int from admin_log group by 1
		union all select 'money ' || status, count(*)::int from payments group by 1`)
	got := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { got[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	if found, err := audit.Postgres(t.Context(), s.db); err != nil || len(found) > 0 {
		t.Errorf("%s: the audit finds %v, %v", what, found, err)
	}
}

// together runs do for each number below n at once.
func together(n int, do func(i int)) {
	var crowd sync.WaitGroup
	for i := range n {
		crowd.Go(func() { do(i) })
	}
	crowd.Wait()
}

// expect reports an error that is none of these.
func expect(t *testing.T, err error, allowed ...error) {
	t.Helper()
	if err != nil && !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
		t.Error(err)
	}
}

func TestTwoAdministratorsRefundOnce(t *testing.T) {
	s := newOrderShop(t, 6)
	s.pay(t, 5)
	told := 0
	s.unitsReturned = func(sale int64) {
		if told++; sale != s.sale {
			t.Errorf("units of sale %d came back, want %d", sale, s.sale)
		}
	}
	done := s.RefundAll(t.Context(), keeper, []uuid.UUID{s.ids[0], uuid.New(), s.ids[5], s.ids[0], s.ids[1]})
	var errs []error
	for _, d := range done {
		errs = append(errs, d.Err)
	}
	want := []error{nil, order.ErrNotFound, order.ErrWrongStatus, order.ErrWrongStatus, nil}
	if !slices.EqualFunc(errs, want, errors.Is) || told != 2 {
		t.Errorf("%v, units returned %d times; want %v, twice", errs, told, want)
	}
	s.unitsReturned = func(int64) {}
	together(12, func(i int) { expect(t, s.Refund(t.Context(), keeper, s.ids[i%4]), order.ErrWrongStatus) })
	s.check(t, "refunds", map[string]int{order.Refunded: 4, order.Paid: 1, order.Pending: 1, "order.refund": 4, "money captured": 1, "money refund_due": 4})
}

// Whoever comes first wins: the buyer who cancels or pays, or the staff that cancels or refunds. The log has a line for each action
// of the staff that was done, and no other.
func TestTheStaffRacesTheBuyer(t *testing.T) {
	const n = 12
	s := newOrderShop(t, n)
	var cancelled, refunded sync.Map
	together(4*n, func(i int) {
		id, user := s.ids[i%n], int64(i%n+1)
		switch i / n {
		case 0:
			expect(t, s.orders.Cancel(t.Context(), user, id), order.ErrWrongStatus)
		case 1:
			_, err := s.orders.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: id, Amount: 9900, Ref: fmt.Sprint("r", i)})
			expect(t, err)
		case 2:
			if err := s.Cancel(t.Context(), keeper, id); err == nil {
				cancelled.Store(id, true)
			} else {
				expect(t, err, order.ErrWrongStatus)
			}
		case 3:
			for range 3 {
				if err := s.Refund(t.Context(), keeper, id); err == nil {
					refunded.Store(id, true)
				} else {
					expect(t, err, order.ErrWrongStatus)
				}
			}
		}
	})
	for action, done := range map[string]*sync.Map{"order.cancel": &cancelled, "order.refund": &refunded} {
		var subjects, want []string
		rows, _ := s.db.Query(t.Context(), `select subject from admin_log where action = $1 order by 1`, action)
		subjects, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		done.Range(func(id, _ any) bool { want = append(want, subjectOf(id.(uuid.UUID))); return true })
		slices.Sort(want)
		if !slices.Equal(subjects, want) {
			t.Errorf("%s: the log has %v, done was %v", action, subjects, want)
		}
	}
	if found, err := audit.Postgres(t.Context(), s.db); err != nil || len(found) > 0 {
		t.Errorf("the audit finds %v, %v", found, err)
	}
}

func TestExtendAndShipAreLogged(t *testing.T) {
	s := newOrderShop(t, 2)
	s.pay(t, 1)
	if err := s.Extend(t.Context(), keeper, s.ids[1], 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	expect(t, s.Extend(t.Context(), keeper, s.ids[0], time.Minute), order.ErrWrongStatus)
	for _, tracking := range []string{"SF1", "SF2"} {
		if err := s.Ship(t.Context(), keeper, s.ids[0], "SF", tracking); err != nil {
			t.Fatal(err)
		}
	}
	log, _, err := s.Log(t.Context(), whole, LogFilter{})
	if err != nil || len(log) != 3 {
		t.Fatal(log, err)
	}
	if got := string(log[0].Before) + string(log[0].After); got != `{"carrier": "SF", "tracking": "SF1"}{"carrier": "SF", "tracking": "SF2"}` {
		t.Error(got)
	}
	var end struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	was := end
	if err := errors.Join(json.Unmarshal(log[2].Before, &was), json.Unmarshal(log[2].After, &end)); err != nil || end.ExpiresAt.Sub(was.ExpiresAt) != 10*time.Minute {
		t.Errorf("%s, %s: %v", log[2].Before, log[2].After, err)
	}
	s.check(t, "in the end", map[string]int{order.Pending: 1, order.Paid: 1, "order.extend": 1, "order.ship": 2, "money captured": 1})
}

func TestOrderFileHasAllOfAnOrder(t *testing.T) {
	s := newOrderShop(t, 1)
	id := s.ids[0]
	if err := s.orders.SetAddress(t.Context(), 1, order.Address{Name: "n", Phone: "13811112222", Address: "a"}); err != nil {
		t.Fatal(err)
	}
	s.pay(t, 1)
	if err := s.Ship(t.Context(), keeper, id, "SF", "SF1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Refund(t.Context(), keeper, id); err != nil {
		t.Fatal(err)
	}
	f, err := s.OrderFile(t.Context(), whole, id)
	if err != nil {
		t.Fatal(err)
	}
	var moves []string
	for _, m := range f.History {
		moves = append(moves, m.From+" "+m.To)
	}
	got := fmt.Sprint(moves, f.Payments[0].Status, f.Payments[0].ProviderRef, f.Told[0].Ticket, f.Told[0].Outcome, f.Address.Address, f.Tracking, f.SaleState, f.Ticket)
	if want := "[new pending pending paid paid refunded]refund_duer0t1orderedaSF1publishedt1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	money, err := s.MoneyOf(t.Context(), whole, []uuid.UUID{id, uuid.New()})
	if err != nil || len(money) != 1 || len(money[id]) != 1 || money[id][0].ProviderRef != "r0" || money[id][0].Amount != 9900 || money[id][0].Status != "refund_due" {
		t.Errorf("the money of the order: %v, %v", money, err)
	}
	if _, err := s.OrderFile(t.Context(), whole, uuid.New()); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("a missing order: %v", err)
	}
}

// A payment by hand and the cashier's capture: one pays the order, the money of the other is due back. A reference is used once.
func TestConfirmByHandRacesTheCashier(t *testing.T) {
	const n = 6
	s := newOrderShop(t, n+1)
	together(2*n, func(i int) {
		id := s.ids[i%n]
		if i < n {
			_, err := s.orders.Capture(t.Context(), order.Captured{Provider: order.Cashier, OrderID: id, Amount: 9900, Ref: fmt.Sprint("r", i)})
			expect(t, err)
			return
		}
		_, err := s.Confirm(t.Context(), keeper, id, fmt.Sprint("bank ", i))
		expect(t, err)
	})
	if _, err := s.Confirm(t.Context(), keeper, s.ids[n], fmt.Sprint("bank ", n)); !errors.Is(err, order.ErrReusedRef) {
		t.Errorf("a reference again: %v", err)
	}
	if _, err := s.Confirm(t.Context(), keeper, uuid.New(), "x"); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("a missing order: %v", err)
	}
	s.check(t, "in the end", map[string]int{order.Paid: n, order.Pending: 1, "order.confirm": n, "money captured": n, "money refund_due": n})
}
