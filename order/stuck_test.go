package order_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/sandbox/sandboxtest"
)

// phone is a provider whose calls a test answers, in any order, however late.
type phone struct {
	*books
	calls chan chan error
}

func newPhone() phone {
	p := phone{newBooks("wechat"), make(chan chan error, 10)}
	p.refund = func(order.Payment, uuid.UUID) error {
		answer := make(chan error)
		p.calls <- answer
		return <-answer
	}
	return p
}

// rings returns a call that the shop makes now, in a process of its own: a function that answers it, waits until
// the shop has heard, and returns what the shop reports.
func (p phone) rings(t *testing.T, s testShop) (answer func(error) error) {
	t.Helper()
	process := order.New(s.db, order.Config{})
	s.askNow(t)
	heard := make(chan error, 1)
	go func() {
		_, err := process.DrainRefunds(t.Context(), p)
		heard <- err
	}()
	select {
	case call := <-p.calls:
		return func(err error) error {
			call <- err
			return <-heard
		}
	case <-time.After(sandboxtest.Hang):
		t.Fatal("the provider is not asked")
		return nil
	}
}

var noBalance = order.RefusedError{Why: "no balance"}

// Money goes back once: from the provider, or by hand, and by hand only when no call can return it any more.
func TestARefundIsMadeOnce(t *testing.T) {
	s := newShop(t)
	asked := []string{"wechat"}
	var user int64
	for name, run := range map[string]func(t *testing.T, p phone, byHand func() error, again func() error, is func(string)){
		"no balance, and the staff closes it": func(t *testing.T, p phone, byHand, again func() error, is func(string)) {
			p.rings(t, s)(noBalance)
			is("refund_due no balance refused")
			if n, err := s.DrainRefunds(t.Context(), newBooks("wechat")); n != 0 || err != nil {
				t.Errorf("it is asked for once more: %d, %v", n, err)
			}
			expect(t, byHand(), nil)
			is("refunded  asked")
			expect(t, byHand(), order.ErrWrongStatus)
			expect(t, again(), order.ErrWrongStatus)
		},
		"no balance, and then there is": func(t *testing.T, p phone, byHand, again func() error, is func(string)) {
			p.rings(t, s)(noBalance)
			expect(t, again(), nil)
			is("refund_due no balance asked")
			expect(t, byHand(), order.ErrMayRefund)
			p.rings(t, s)(nil)
			is("refunded  asked")
			expect(t, byHand(), order.ErrWrongStatus)
		},
		"the staff closes it while the provider is silent": func(t *testing.T, p phone, byHand, again func() error, is func(string)) {
			answer := p.rings(t, s)
			expect(t, byHand(), order.ErrMayRefund)
			// The call is out for as long as this test runs.
			s.exec(t, `update payments set asked_at = now() + interval '1 hour' where id = $1`, s.lastPayment(t))
			expect(t, again(), nil)
			if n, err := s.DrainRefunds(t.Context(), newBooks("wechat")); n != 0 || err != nil {
				t.Errorf("it is asked for while a call is out: %d, %v", n, err)
			}
			answer(nil)
			is("refunded  asked")
		},
		"no answer is no refusal": func(t *testing.T, p phone, byHand, _ func() error, is func(string)) {
			p.rings(t, s)(errors.New("an outage"))
			is("refund_due an outage asked")
			expect(t, byHand(), order.ErrMayRefund)
		},
		"an old no after a newer yes": func(t *testing.T, p phone, byHand, _ func() error, is func(string)) {
			old, newer := p.rings(t, s), p.rings(t, s)
			newer(nil)
			old(noBalance)
			is("refunded  asked")
			expect(t, byHand(), order.ErrWrongStatus)
		},
		"an old no while a newer call is out": func(t *testing.T, p phone, byHand, _ func() error, is func(string)) {
			old, newer := p.rings(t, s), p.rings(t, s)
			old(noBalance)
			is("refund_due  asked")
			expect(t, byHand(), order.ErrMayRefund)
			newer(noBalance)
			is("refund_due no balance refused")
			expect(t, byHand(), nil)
		},
		"an old no after the staff had it asked again": func(t *testing.T, p phone, byHand, again func() error, is func(string)) {
			old, newer := p.rings(t, s), p.rings(t, s)
			newer(noBalance)
			expect(t, again(), nil)
			last := p.rings(t, s)
			old(order.RefusedError{Why: "old"})
			is("refund_due no balance asked")
			expect(t, byHand(), order.ErrMayRefund)
			last(nil)
			is("refunded  asked")
		},
		"an old yes after a newer no": func(t *testing.T, p phone, byHand, _ func() error, is func(string)) {
			old, newer := p.rings(t, s), p.rings(t, s)
			newer(noBalance)
			old(nil)
			is("refunded  asked")
			expect(t, byHand(), order.ErrWrongStatus)
		},
		"an old yes after the staff closed it": func(t *testing.T, p phone, byHand, _ func() error, is func(string)) {
			old, newer := p.rings(t, s), p.rings(t, s)
			newer(noBalance)
			expect(t, byHand(), nil)
			if err := old(nil); err == nil || !strings.Contains(err.Error(), s.lastPayment(t).String()) || !strings.Contains(err.Error(), "returned twice") {
				t.Errorf("the shop reports %v, want the payment, and that its money may have been returned twice", err)
			}
			is("refunded  asked")
		},
		"four close it and four have it asked again": func(t *testing.T, p phone, byHand, again func() error, _ func(string)) {
			p.rings(t, s)(noBalance)
			errs := make([]error, 8)
			var crowd sync.WaitGroup
			for i := range errs {
				crowd.Go(func() {
					if i%2 == 0 {
						errs[i] = byHand()
					} else {
						errs[i] = again()
					}
				})
			}
			crowd.Wait()
			p.refund = func(order.Payment, uuid.UUID) error { return nil }
			s.askNow(t)
			n, err := s.DrainRefunds(t.Context(), p)
			byHands := 0
			for i := 0; i < len(errs); i += 2 {
				if errs[i] == nil {
					byHands++
				} else if !errors.Is(errs[i], order.ErrMayRefund) && !errors.Is(errs[i], order.ErrWrongStatus) {
					t.Error(errs[i])
				}
			}
			if n+byHands != 1 || err != nil {
				t.Errorf("returned %d times by the provider and %d times by hand, %v", n, byHands, err)
			}
		},
		"the provider is gone": func(t *testing.T, p phone, _, _ func() error, is func(string)) {
			p.rings(t, s)(errors.New("an outage"))
			former := func() error { return s.ReturnByHand(t.Context(), s.lastPayment(t), nil, "bank 1") }
			expect(t, former(), order.ErrMayRefund) // a call of a moment ago
			s.exec(t, `update payments set asked_at = asked_at - interval '1 minute' where id = $1`, s.lastPayment(t))
			expect(t, former(), nil)
		},
		"the provider was never asked and is gone": func(t *testing.T, _ phone, _, _ func() error, _ func(string)) {
			expect(t, s.ReturnByHand(t.Context(), s.lastPayment(t), nil, "bank 1"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			user++
			id := s.buy(t, s.sell(t, 1), user)
			s.makeOverdue(t, id)
			if _, err := s.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Capture(t.Context(), order.Captured{Provider: "wechat", OrderID: id, Amount: price, Ref: name}); err != nil {
				t.Fatal(err)
			}
			payment := s.lastPayment(t)
			byHand := func() error { return s.ReturnByHand(t.Context(), payment, asked, "bank 1") }
			again := func() error { _, _, err := s.AskAgain(t.Context(), payment, asked); return err }
			expect(t, byHand(), order.ErrMayRefund) // it is due
			run(t, newPhone(), byHand, again, func(want string) {
				t.Helper()
				got := s.read(t, `select status || ' ' || why || case when ask_at is null and status = 'refund_due' then ' refused' else ' asked' end from payments where id = $1`, payment)[0]
				if got != want {
					t.Errorf("the payment is %q, want %q", got, want)
				}
			})
			if s.read(t, `select status from payments where id = $1`, payment)[0] != "refunded" { // the next case asks for its own
				s.exec(t, `update payments set status = 'refunded' where id = $1`, payment)
			}
			s.checkInvariants(t)
		})
	}
}

// lastPayment returns the newest payment.
func (s testShop) lastPayment(t *testing.T) uuid.UUID {
	t.Helper()
	return uuid.MustParse(s.read(t, `select id::text from payments order by id desc limit 1`)[0])
}

func expect(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}
