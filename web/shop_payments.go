package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"miaosha/order"
	"miaosha/seckill/payment"
	"miaosha/seckill/purpose"
)

// payments knows the payment providers, and takes their notices.
type payments struct {
	desk      *desk
	now       func() time.Time // the shop's clock
	orders    *order.Store
	sandbox   bool
	cashier   *cashier               // nil: the shop takes no play money
	providers []order.Provider       // that of new payments first
	asked     []string               // the names of those that the shop can ask
	notices   *prometheus.CounterVec // by result
	forged    refusedNotices         // without a right signature
	untimely  refusedNotices         // with one, for another time
}

// refusedNotices are notices of which at most one a second is logged, after the first noticesLogged.
type refusedNotices struct {
	since atomic.Int64 // the last one that was logged
	log   rate.Sometimes
}

const noticesLogged = 20

func newPayments(desk *desk, cfg Config, d Deps, self string) (*payments, error) {
	s := &payments{desk: desk, now: d.Rush.Now, orders: d.Orders, sandbox: d.Sandbox, asked: []string{},
		notices: newNoticeCounter()}
	s.forged.log = rate.Sometimes{First: noticesLogged, Interval: time.Second}
	s.untimely.log = rate.Sometimes{First: noticesLogged, Interval: time.Second}
	return s, s.setProviders(cfg, d, self)
}

func (s *payments) rows() []row {
	provider := audience[openHandler]{"the provider", everyone.door} // whose signature the handler checks
	return []row{route(POST, noticePath, provider,
		late("before all else, instead of that of all requests; only a refused notice takes a token", forgedNotices),
		answerLimit, s.paymentNotice)}
}

// setProviders sets the payment providers, that of new payments first. Each has a name and keys of its own, so that
// the cashier captures and refunds nothing in an outside provider's name.
func (s *payments) setProviders(cfg Config, d Deps, self string) error {
	names, asked, notified := []string{order.Cashier, order.Hand}, false, false
	for _, p := range d.Outside {
		if slices.Contains(names, p.Name()) {
			return fmt.Errorf("two payment providers have the name %s", p.Name())
		}
		if err := p.CheckKeys(d.Secret); err != nil {
			return err
		}
		names, asked, notified = append(names, p.Name()), asked || p.CanBeAsked(), notified || p.Notifies()
	}
	if cfg.Cashier == "sandbox" || cfg.Cashier == "auto" && !asked && (d.Sandbox || !notified) {
		s.cashier = newCashier(self, purpose.CashierNotice.Key(d.Secret), d.Rush.Now, s.desk.log)
		s.providers, s.asked = append(s.providers, s.cashier), append(s.asked, order.Cashier)
	}
	for _, p := range d.Outside {
		s.providers = append(s.providers, p)
		if p.CanBeAsked() {
			s.asked = append(s.asked, p.Name())
		}
	}
	return nil
}

// verifyNotice returns the provider that has signed a notice. errForbidden, with the reason: order.ErrTime if one
// has signed it for another time.
func (s *payments) verifyNotice(r *http.Request, raw []byte) (order.Provider, error) {
	reason := order.ErrSignature
	for _, p := range s.providers {
		err := p.Verify(r.Header, raw, s.now(), time.Now())
		if err == nil {
			return p, nil
		}
		if errors.Is(err, order.ErrTime) {
			reason = err
		}
	}
	return nil, errors.Join(errForbidden, reason)
}

// recordedAs returns the name under which what a provider reports is recorded. Only in the sandbox, where all money is
// play money, one that the shop cannot ask reports payments at the cashier.
func (s *payments) recordedAs(p order.Provider) string {
	if s.sandbox && !slices.Contains(s.asked, p.Name()) {
		return order.Cashier
	}
	return p.Name()
}

// paymentNotice takes a payment provider's notice. Each refused one is logged, if it is signed for now. Others
// can be sent, or sent again, without end by strangers: the first ones are logged, and then at most one a
// second, with their count. Those signed for another time are counted apart, so that forged ones do not hide a
// provider whose clock is wrong.
func (s *payments) paymentNotice(w http.ResponseWriter, r *http.Request) error {
	raw, err := rawBody(w, r, maxBody)
	var provider order.Provider
	if err == nil {
		provider, err = s.verifyNotice(r, raw)
	}
	if err != nil {
		refused, result := &s.forged, noticeForged
		if errors.Is(err, order.ErrTime) {
			refused, result = &s.untimely, noticeUntimely
		}
		s.notices.WithLabelValues(result).Inc()
		refused.since.Add(1)
		refused.log.Do(func() {
			s.desk.log.Warn("a payment notice is refused", "from", s.desk.clientIP(r), "err", err, "since_last_line",
				refused.since.Swap(0))
		})
		return err
	}
	var in payment.Notice
	status, err := s.takeNotice(r.Context(), provider, raw, &in)
	if err != nil {
		result := noticeRefused
		if isUnavailable(err) {
			result = noticeFailed
		}
		s.notices.WithLabelValues(result).Inc()
		s.desk.log.Warn("a payment notice is refused", "from", s.desk.clientIP(r), "provider",
			s.recordedAs(provider), "order", in.OrderID, "amount", in.Amount, "ref", in.Ref, "err", err)
		return err
	}
	s.notices.WithLabelValues(status).Inc()
	return ok(w, 200, struct {
		// captured; refund_due, if the notice came too late or is a second capture; declined
		Status string `json:"status"`
	}{status})
}

// takeNotice reads a notice of p, which is verified, into in, for the log too, and records it. It returns the payment's
// status. A provider that adds a field to its notices goes on being understood.
func (s *payments) takeNotice(
	ctx context.Context, p order.Provider, raw []byte, in *payment.Notice,
) (status string, err error) {
	body, err := p.Read(raw)
	if err != nil {
		return "", errors.Join(errBadRequest, err)
	}
	if err := decodeKnown(body, in, "payment_id", "order_id", "amount", "provider_ref", "declined",
		"status"); err != nil {
		return "", err
	}
	c, err := readNotice(*in)
	if err != nil {
		return "", err
	}
	c.Provider = s.recordedAs(p)
	if in.Declined != "" {
		return s.orders.DeclineNoticed(ctx, c, in.Declined)
	}
	return s.orders.Capture(ctx, c)
}

// successes are the words by which providers call a capture. A notice needs none; one with another word is no capture.
var successes = []string{"captured", "success", "succeeded", "successful", "paid", "completed", "ok"}

// readNotice returns a notice's fields, or a fieldError for each wrong one. Only a capture has a reference, and only
// it may leave the payment out.
func readNotice(n payment.Notice) (c order.Captured, err error) {
	var wrong []error
	if word, isText := n.Status.(string); isText && n.Declined == "" &&
		!slices.Contains(successes, strings.ToLower(word)) {
		wrong = append(wrong, fieldError{"status", "value"})
	}
	if c.OrderID, err = uuid.Parse(n.OrderID); err != nil {
		wrong = append(wrong, fieldError{field: "order_id"})
	}
	if n.PaymentID != "" || n.Declined != "" {
		if c.PaymentID, err = uuid.Parse(n.PaymentID); err != nil {
			wrong = append(wrong, fieldError{field: "payment_id"})
		}
	}
	if n.Amount < 0 {
		wrong = append(wrong, fieldError{"amount", "value"})
	}
	switch {
	case n.Declined != "" && n.Ref != "":
		wrong = append(wrong, fieldError{"declined", "value"})
	case n.Declined == "" && n.Ref == "":
		wrong = append(wrong, fieldError{"provider_ref", "required"})
	case len(n.Ref) > payment.MaxRef:
		wrong = append(wrong, fieldError{"provider_ref", "1 to 128 bytes"})
	}
	c.Amount, c.Ref = n.Amount, n.Ref
	return c, errors.Join(wrong...)
}
