package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/user"
)

// orderJSON is an order as its owner sees it. The price is in fen.
type orderJSON struct {
	ID        string `json:"id"`
	SaleID    int64  `json:"sale_id"`
	Title     string `json:"title"`
	Price     int64  `json:"price"`
	Status    string `json:"status"` // pending, paid, cancelled, refunded
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
	PaidAt    string `json:"paid_at,omitempty"`
}

func newOrderJSON(o order.Order) orderJSON {
	out := orderJSON{ID: o.ID.String(), SaleID: o.SaleID, Title: o.Title, Price: o.Price, Status: o.Status,
		CreatedAt: formatTime(o.CreatedAt), ExpiresAt: formatTime(o.ExpiresAt)}
	if o.PaidAt != nil {
		out.PaidAt = formatTime(*o.PaidAt)
	}
	return out
}

func (s *Server) listOrders(w http.ResponseWriter, r *http.Request, session user.Session) error {
	list, err := s.Orders.OfUser(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	out := make([]orderJSON, 0, len(list))
	for _, o := range list {
		out = append(out, newOrderJSON(o))
	}
	return ok(w, 200, out)
}

func (s *Server) showOrder(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	o, err := s.Orders.ByID(r.Context(), session.UserID, id)
	if err != nil {
		return err
	}
	return ok(w, 200, newOrderJSON(o))
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	if err := s.Orders.Cancel(r.Context(), session.UserID, id); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

func (s *Server) pay(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	p, err := s.Orders.OpenPayment(r.Context(), order.Cashier, session.UserID, id)
	if err != nil {
		return err
	}
	out := struct {
		PaymentID string `json:"payment_id"`
		PayURL    string `json:"pay_url,omitempty"`
	}{PaymentID: p.ID.String()}
	if s.cashier != nil {
		out.PayURL = "/pay.html?payment=" + p.ID.String() + "&order=" + p.OrderID.String()
	}
	return ok(w, 200, out)
}

// paymentNotice takes the payment provider's notice of a capture. Each refused one is logged, if it is
// signed for now. Others can be sent, or sent again, without end by strangers: the first ones are logged,
// and then at most one a second, with their count. Those signed for another time are counted apart, so
// that forged ones do not hide a provider whose clock is wrong.
func (s *Server) paymentNotice(w http.ResponseWriter, r *http.Request) error {
	raw, err := rawBody(w, r)
	if err == nil {
		err = verifyNotice(s.notifyKey, r.Header.Get("X-Timestamp"), r.Header.Get("X-Signature"), raw, s.Rush.Now(), time.Now())
	}
	if err != nil {
		refused := &s.forged
		if errors.Is(err, errNoticeTime) {
			refused = &s.untimely
		}
		refused.since.Add(1)
		refused.log.Do(func() {
			s.Log.Warn("a payment notice is refused", "from", s.clientIP(r), "err", err, "since_last_line", refused.since.Swap(0))
		})
		return err
	}
	var in notice
	status, err := s.capture(r.Context(), raw, &in)
	if err != nil {
		s.Log.Warn("a payment notice is refused", "from", s.clientIP(r), "order", in.OrderID, "amount", in.Amount, "ref", in.ProviderRef, "err", err)
		return err
	}
	return ok(w, 200, struct {
		Status string `json:"status"` // captured; or refund_due, if the notice came too late or is a second capture
	}{status})
}

// capture reads a verified notice into in, for the log too, and captures its payment.
func (s *Server) capture(ctx context.Context, raw []byte, in *notice) (status string, err error) {
	if err := decode(raw, in); err != nil {
		return "", err
	}
	id, err := in.validate()
	if err != nil {
		return "", err
	}
	return s.Orders.Capture(ctx, order.Captured{Provider: order.Cashier, OrderID: id, Amount: in.Amount, Ref: in.ProviderRef})
}

// useCashier confirms or declines a payment at the sandbox cashier.
func (s *Server) useCashier(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	var in struct {
		Action string `json:"action"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	p, err := s.Orders.PaymentOf(r.Context(), session.UserID, id)
	if err != nil {
		return err
	}
	switch in.Action {
	case "confirm":
		raw, err := s.cashier.confirm(r.Context(), p)
		if err != nil {
			return err
		}
		return ok(w, 200, json.RawMessage(raw))
	case "decline":
		if err := s.Orders.Decline(r.Context(), order.Cashier, id, ""); err != nil {
			return err
		}
		return ok(w, 200, struct {
			Status string `json:"status"`
		}{"declined"})
	}
	return fieldError{field: "action"}
}
