package order_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// books is a provider whose answers a test writes.
type books struct {
	order.Provider // of which the store calls what is below
	name           string
	create         error
	mu             sync.Mutex
	found          map[uuid.UUID]order.Found // without an entry: the error of an outage
	refunded       map[uuid.UUID]int         // calls
	refuse         bool
	refund         func(p order.Payment, captured uuid.UUID) error // in place of the above
}

func (b *books) Name() string { return b.name }

func (b *books) Create(_ context.Context, p order.Payment) (string, error) {
	return "https://pay.example/" + p.ID.String(), b.create
}

func (b *books) Query(_ context.Context, p order.Payment) (order.Found, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.found[p.ID]; ok {
		return f, nil
	}
	return order.Found{}, errors.New("an outage")
}

func (b *books) Refund(_ context.Context, p order.Payment, captured uuid.UUID) error {
	if b.refund != nil {
		return b.refund(p, captured)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refuse {
		return order.RefusedError{Why: "no balance"}
	}
	b.refunded[p.ID]++
	return nil
}

func newBooks(name string) *books {
	return &books{name: name, found: map[uuid.UUID]order.Found{}, refunded: map[uuid.UUID]int{}}
}

func TestStart(t *testing.T) {
	s := newShop(t)
	mine := s.buy(t, s.sell(t, 1), 1)
	provider := newBooks("wechat")
	p, url, err := s.Start(t.Context(), provider, 1, mine)
	if err != nil || url != "https://pay.example/"+p.ID.String() || p.Provider != "wechat" {
		t.Fatalf("%+v, %q, %v", p, url, err)
	}
	provider.create = errors.New("no answer")
	if again, _, err := s.Start(t.Context(), provider, 1, mine); !errors.Is(err, order.ErrProvider) || again.ID != p.ID {
		t.Errorf("an outage: payment %s, %v; want the same payment and ErrProvider", again.ID, err)
	}
	provider.create = order.RefusedError{Why: "not in this country"}
	if _, _, err := s.Start(t.Context(), provider, 1, mine); !errors.Is(err, order.ErrRefused) {
		t.Errorf("a refusal: %v, want ErrRefused", err)
	}
	provider.create = nil
	other, _, err := s.Start(t.Context(), newBooks("alipay"), 1, mine)
	if err != nil || other.ID == p.ID {
		t.Errorf("after a refusal: %s, %v; want another payment", other.ID, err)
	}
	// The shop has the first provider again: the payment at the other one is declined, not shown at a wrong one.
	back, _, err := s.Start(t.Context(), provider, 1, mine)
	if err != nil || back.ID == other.ID || back.Provider != "wechat" {
		t.Errorf("after a change of the provider: %+v, %v", back, err)
	}
	want := []string{"wechat declined not in this country", "alipay declined the shop has another provider now", "wechat open "}
	if got := s.read(t, `select provider || ' ' || status || ' ' || why from payments order by id`); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

// The shop has another provider. It opens no payment there, and declines the one at the former provider all the same.
func TestAFormerProvidersPaymentIsDeclinedThoughNoneIsOpened(t *testing.T) {
	s := newShop(t)
	sale, wechat, alipay := s.sell(t, 2), newBooks("wechat"), newBooks("alipay")
	late, tooOften := s.buy(t, sale, 1), s.buy(t, sale, 2)
	open := func(provider order.Provider, user int64, id uuid.UUID) error {
		_, _, err := s.Start(t.Context(), provider, user, id)
		return err
	}
	expect(t, open(alipay, 1, late), nil)
	s.makeOverdue(t, late)
	expect(t, open(wechat, 1, late), order.ErrWrongStatus)
	alipay.create = order.RefusedError{Why: "no"}
	for range 4 {
		expect(t, open(alipay, 2, tooOften), order.ErrRefused)
	}
	alipay.create = nil
	expect(t, open(alipay, 2, tooOften), nil)
	expect(t, open(wechat, 2, tooOften), order.ErrDeclined)
	former := "declined the shop has another provider now"
	want := []string{former, "declined no", "declined no", "declined no", "declined no", former}
	if got := s.read(t, `select status || ' ' || why from payments order by id`); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	s.checkInvariants(t)
}

// lastMoment is a provider that answers when the time to answer is over. asked is called before.
type lastMoment struct {
	*books
	asked func()
}

func (l lastMoment) Query(ctx context.Context, p order.Payment) (order.Found, error) {
	l.asked()
	<-ctx.Done()
	return l.books.Query(ctx, p)
}

func (l lastMoment) Refund(ctx context.Context, p order.Payment, captured uuid.UUID) error {
	l.asked()
	<-ctx.Done()
	return l.books.Refund(ctx, p, captured)
}

// An answer that comes at the last moment of its call, or of the whole round, is written.
func TestAnAnswerAtTheLastMoment(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 4)
	var all sync.WaitGroup
	user := int64(0)
	for _, what := range []string{"call", "round"} {
		for _, refunds := range []bool{false, true} {
			user++
			round, end := context.WithCancel(t.Context())
			defer end()
			id, provider := s.buy(t, sale, user), lastMoment{newBooks(fmt.Sprintf("%s %t", what, refunds)), end}
			if what == "call" {
				provider.asked = func() {}
			}
			p, _, err := s.Start(t.Context(), provider, user, id)
			if err != nil {
				t.Fatal(err)
			}
			ask := s.AskOpen
			if refunds {
				ask = s.DrainRefunds
				if _, err := s.Capture(t.Context(), order.Captured{Provider: provider.name, OrderID: id, PaymentID: p.ID, Amount: price, Ref: "r"}); err != nil {
					t.Fatal(err)
				}
				expect(t, s.Refund(t.Context(), id), nil)
			}
			provider.found[p.ID] = order.Found{Status: order.FoundCaptured, Ref: "r", Amount: price}
			s.exec(t, `update payments set ask_at = now() where id = $1`, p.ID)
			all.Go(func() {
				if n, err := ask(round, provider); n != 1 || err != nil {
					t.Errorf("at the end of the %s: %d, %v", what, n, err)
				}
			})
		}
	}
	all.Wait()
	if got, want := s.read(t, `select status from payments order by 1`), []string{"captured", "captured", "refunded", "refunded"}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	s.checkInvariants(t)
}

// Equal references of two providers are two captures, and each provider refunds its own.
func TestTwoProvidersDoNotMeet(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 2)
	wechat, alipay := newBooks("wechat"), newBooks("alipay")
	for i, p := range []*books{wechat, alipay} {
		id := s.buy(t, sale, int64(i+1))
		if _, _, err := s.Start(t.Context(), p, int64(i+1), id); err != nil {
			t.Fatal(err)
		}
		if status, err := s.Capture(t.Context(), order.Captured{Provider: p.name, OrderID: id, Amount: price, Ref: "1"}); status != "captured" || err != nil {
			t.Errorf("%s: %q, %v", p.name, status, err)
		}
		if err := s.Refund(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 { // the cashier has no business with them
		if n, err := s.DrainRefunds(t.Context(), refunder); n != 0 || err != nil {
			t.Errorf("the cashier refunded %d, %v", n, err)
		}
	}
	if n, err := s.DrainRefunds(t.Context(), alipay); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got, want := s.read(t, `select provider || ' ' || status from payments order by 1`), []string{"alipay refunded", "wechat refund_due"}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	s.checkInvariants(t)
}

// A payment can be captured after it was declined, and one capture does not take another payment's row.
func TestACaptureNamesItsPayment(t *testing.T) {
	s := newShop(t)
	mine := s.buy(t, s.sell(t, 1), 1)
	provider := newBooks("wechat")
	first, _, err := s.Start(t.Context(), provider, 1, mine)
	if err != nil {
		t.Fatal(err)
	}
	c := order.Captured{Provider: "wechat", OrderID: mine, PaymentID: first.ID, Amount: price, Ref: "r1"}
	stranger, other := c, c
	stranger.Provider, other.OrderID = order.Cashier, uuid.New()
	for _, c := range []order.Captured{stranger, other} {
		if status, err := s.DeclineNoticed(t.Context(), c, "no"); !errors.Is(err, order.ErrNotFound) {
			t.Errorf("a notice of another provider, or about another order: %q, %v; want ErrNotFound", status, err)
		}
	}
	if p, err := s.PaymentOf(t.Context(), 1, first.ID); err != nil || p.Status != "open" {
		t.Errorf("after these the payment is %+v, %v; want it open", p, err)
	}
	for range 2 {
		if status, err := s.DeclineNoticed(t.Context(), c, "no money"); status != "declined" || err != nil {
			t.Errorf("declined: %q, %v", status, err)
		}
	}
	second, _, err := s.Start(t.Context(), provider, 1, mine)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := s.Capture(t.Context(), c); status != "captured" || err != nil {
		t.Errorf("the declined payment is captured: %q, %v", status, err)
	}
	if status, err := s.DeclineNoticed(t.Context(), c, "too late"); status != "captured" || err != nil {
		t.Errorf("a notice that was overtaken: %q, %v", status, err)
	}
	c.PaymentID, c.Ref = second.ID, "r2"
	if status, err := s.Capture(t.Context(), c); status != "refund_due" || err != nil {
		t.Errorf("the second payment: %q, %v", status, err)
	}
	want := []string{first.ID.String() + " captured r1", second.ID.String() + " refund_due r2"}
	if got := s.read(t, `select id || ' ' || status || ' ' || provider_ref from payments order by id`); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}

	// More captures of the same payments: each is a refund of its own, under the payment and the reference that the provider knows.
	elsewhere := uuid.New() // of a shop whose database was restored
	for ref, payment := range map[string]uuid.UUID{"r3": first.ID, "r4": first.ID, "r5": elsewhere} {
		c.PaymentID, c.Ref = payment, ref
		if status, err := s.Capture(t.Context(), c); status != "refund_due" || err != nil {
			t.Errorf("another capture: %q, %v", status, err)
		}
	}
	s.exec(t, `update payments set id = 'ffffffff-ffff-7fff-bfff-ffffffffffff' where provider_ref = 'r3'`) // the newest row, and none that the provider knows
	c.PaymentID, c.Ref = uuid.Nil, "r6"
	if status, err := s.Capture(t.Context(), c); status != "refund_due" || err != nil {
		t.Errorf("a capture that names no payment: %q, %v", status, err)
	}
	if err := s.Refund(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	known, ids := map[string]uuid.UUID{}, map[uuid.UUID]bool{}
	provider.refund = func(p order.Payment, captured uuid.UUID) error {
		provider.mu.Lock()
		defer provider.mu.Unlock()
		known[p.ProviderRef], ids[p.ID] = captured, true
		return nil
	}
	if n, err := s.DrainRefunds(t.Context(), provider); n != 6 || err != nil || len(ids) != 6 {
		t.Errorf("%d refunds with %d ids, %v; want 6", n, len(ids), err)
	}
	if want := map[string]uuid.UUID{"r1": first.ID, "r2": second.ID, "r3": first.ID, "r4": first.ID, "r5": elsewhere, "r6": first.ID}; !cmp.Equal(known, want) {
		t.Error(cmp.Diff(want, known))
	}
	s.checkInvariants(t)
}

func TestAskOpen(t *testing.T) {
	s, user := newShop(t), int64(0)
	for name, c := range map[string]struct {
		found    order.Found
		outage   bool
		late     string // how long ago the payment deadline was, '' before it
		wantPay  string
		wantSold string
	}{
		"a notice was lost":                {found: order.Found{Status: order.FoundCaptured, Ref: "r", Amount: price}, wantPay: "captured ", wantSold: order.Paid},
		"it was lost and is too late":      {found: order.Found{Status: order.FoundCaptured, Ref: "r", Amount: price}, late: "1 second", wantPay: "refund_due ", wantSold: order.Cancelled},
		"declined":                         {found: order.Found{Status: order.FoundDeclined, Why: "no money"}, wantPay: "declined no money", wantSold: order.Pending},
		"the buyer is still there":         {found: order.Found{Status: order.FoundOpen}, wantPay: "open ", wantSold: order.Pending},
		"not there yet":                    {found: order.Found{Status: order.FoundUnknown}, late: "30 seconds", wantPay: "open ", wantSold: order.Cancelled},
		"never there":                      {found: order.Found{Status: order.FoundUnknown}, late: "61 seconds", wantPay: "declined the provider never had it", wantSold: order.Cancelled},
		"an outage":                        {outage: true, wantPay: "open an outage", wantSold: order.Pending},
		"another amount than the order's":  {found: order.Found{Status: order.FoundCaptured, Ref: "r", Amount: 1}, wantPay: "open " + order.ErrWrongAmount.Error(), wantSold: order.Pending},
		"open for long after the order":    {found: order.Found{Status: order.FoundOpen}, late: "23 hours", wantPay: "open ", wantSold: order.Cancelled},
		"open for a day after the order":   {found: order.Found{Status: order.FoundOpen}, late: "25 hours", wantPay: "closed ", wantSold: order.Cancelled},
		"an outage for a day":              {outage: true, late: "25 hours", wantPay: "open an outage tomorrow", wantSold: order.Cancelled},
		"in the last seconds of the order": {found: order.Found{Status: order.FoundOpen}, late: "-11 seconds", wantPay: "open  soon", wantSold: order.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			provider := newBooks("wechat")
			user++
			mine := s.buy(t, s.sell(t, 1), user)
			p, _, err := s.Start(t.Context(), provider, user, mine)
			if err != nil {
				t.Fatal(err)
			}
			if c.found.Ref != "" {
				c.found.Ref = p.ID.String()
			}
			if !c.outage {
				provider.found[p.ID] = c.found
			}
			if n, err := s.AskOpen(t.Context(), provider); n != 0 || err != nil {
				t.Errorf("at once after the start: %d, %v", n, err)
			}
			if c.late != "" {
				s.exec(t, `update orders set expires_at = clock_timestamp() - interval '`+c.late+`' where id = $1`, mine)
				if _, err := s.Expire(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.exec(t, `update payments set ask_at = now() where id = $1`, p.ID)
			if n, _ := s.AskOpen(t.Context(), newBooks("alipay")); n != 0 {
				t.Error("another provider was asked")
			}
			n, err := s.AskOpen(t.Context(), provider)
			if still := strings.HasPrefix(c.wantPay, "open") || strings.HasPrefix(c.wantPay, "closed"); (n == 0) != still {
				t.Errorf("%d payments moved", n)
			}
			if wrong := c.outage || c.found.Amount == 1; (err != nil) != wrong {
				t.Errorf("asking: %v", err)
			}
			got := s.read(t, `
				select status || ' ' || why || case when status <> 'open' then '' when ask_at > asked_at + interval '23 hours' then ' tomorrow'
				       when ask_at < asked_at + interval '3 seconds' then ' soon' else '' end from payments where id = $1`, p.ID)[0]
			if sold := s.status(t, mine); got != c.wantPay || sold != c.wantSold {
				t.Errorf("the payment is %q and the order %s, want %q and %s", got, sold, c.wantPay, c.wantSold)
			}
			if c.wantPay == "closed " { // a capture that comes all the same is returned, once
				paid := order.Captured{Provider: "wechat", OrderID: mine, Amount: price, Ref: "late"}
				for _, named := range []uuid.UUID{uuid.Nil, p.ID} {
					paid.PaymentID = named
					if status, err := s.Capture(t.Context(), paid); status != "refund_due" || err != nil {
						t.Errorf("a capture of the closed payment: %s, %v", status, err)
					}
				}
				if n, err := s.DrainRefunds(t.Context(), provider); n != 1 || err != nil || provider.refunded[p.ID] != 1 || len(s.read(t, `select id from payments where order_id = $1`, mine)) != 1 {
					t.Errorf("%d refunds, %v: %v", n, err, provider.refunded)
				}
			}
			s.exec(t, `update payments set ask_at = null where id = $1`, p.ID) // some seconds later it is due again, and the next case asks
			s.checkInvariants(t)
		})
	}
}

// The staff has a closed payment asked about once more, and money whose notice was lost goes back, once. A notice that it was declined
// is answered with a word that the provider knows.
func TestAClosedPayment(t *testing.T) {
	s, provider := newShop(t), newBooks("wechat")
	p, _, err := s.Start(t.Context(), provider, 1, s.buy(t, s.sell(t, 1), 1))
	if err != nil {
		t.Fatal(err)
	}
	s.exec(t, `update orders set expires_at = clock_timestamp() - interval '25 hours' where id = $1`, p.OrderID)
	if _, err := s.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks := func(found order.Found, want string) {
		t.Helper()
		provider.found[p.ID] = found
		s.exec(t, `update payments set ask_at = now() where id = $1 and status = 'open'`, p.ID)
		if _, err := s.AskOpen(t.Context(), provider); err != nil {
			t.Error(err)
		}
		if got := s.read(t, `select status from payments where order_id = $1`, p.OrderID); !cmp.Equal(got, []string{want}) {
			t.Errorf("the provider found %s: %s, want %s", found.Status, got, want)
		}
	}
	again := func(want error) {
		t.Helper()
		_, _, err := s.AskAgain(t.Context(), p.ID, []string{"wechat"})
		expect(t, err, want)
	}
	asks(order.Found{Status: order.FoundOpen}, "closed")
	again(nil)
	asks(order.Found{Status: order.FoundOpen}, "closed")
	notice := order.Captured{Provider: "wechat", OrderID: p.OrderID, PaymentID: p.ID}
	if status, err := s.DeclineNoticed(t.Context(), notice, "no money"); status != "declined" || err != nil {
		t.Errorf("a notice that it was declined: %q, %v", status, err)
	}
	again(order.ErrWrongStatus)
	s.exec(t, `update payments set status = 'closed', why = '' where id = $1`, p.ID)
	again(nil)
	asks(order.Found{Status: order.FoundCaptured, Ref: "late", Amount: price}, "refund_due")
	if n, err := s.DrainRefunds(t.Context(), provider); n != 1 || err != nil || provider.refunded[p.ID] != 1 {
		t.Errorf("%d refunds, %v: %v", n, err, provider.refunded)
	}
	s.checkInvariants(t)
}

// Every payment is asked about once a round, even if several processes ask and there are more than one claim takes.
func TestManyAskAboutMany(t *testing.T) {
	s := newShop(t)
	sale := s.sell(t, 300)
	users := make([]int64, 250)
	for i := range users {
		users[i] = int64(i + 1)
	}
	provider := newBooks("wechat")
	for i, r := range s.place(t, sale, tickets(users...)...) {
		s.makeOverdue(t, r.OrderID)
		c := order.Captured{Provider: "wechat", OrderID: r.OrderID, Amount: price, Ref: fmt.Sprint(i)}
		if status, err := s.Capture(t.Context(), c); status != "refund_due" || err != nil {
			t.Fatal(status, err)
		}
	}
	provider.refuse = true
	if n, err := s.DrainRefunds(t.Context(), provider); n != 0 || err == nil || !strings.Contains(err.Error(), "250 payments") || !strings.Contains(err.Error(), "no balance") {
		t.Errorf("refused: %d, %v", n, err)
	}
	s.askNow(t)
	provider.refuse = false
	var crowd sync.WaitGroup
	for range 3 {
		crowd.Go(func() {
			for deadline := time.Now().Add(sandboxtest.Hang); s.number(t, `select count(*) from payments where status <> 'refunded'`) > 0; {
				if _, err := s.DrainRefunds(t.Context(), provider); err != nil || time.Now().After(deadline) {
					t.Error("refunds are still due:", err)
					return
				}
			}
		})
	}
	crowd.Wait()
	for id, n := range provider.refunded {
		if n != 1 {
			t.Errorf("payment %s was refunded in %d calls", id, n)
		}
	}
	s.checkInvariants(t)
}
