package web

import (
	"encoding/json"
	"net/http"
	"time"

	"miaosha/order"
	"miaosha/user"
)

// orderJSON is an order as its owner sees it. Price in fen.
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

func shownOrder(o order.Order) orderJSON {
	out := orderJSON{ID: o.ID.String(), SaleID: o.SaleID, Title: o.Title, Price: o.Price, Status: o.Status,
		CreatedAt: stamp(o.CreatedAt), ExpiresAt: stamp(o.ExpiresAt)}
	if o.PaidAt != nil {
		out.PaidAt = stamp(*o.PaidAt)
	}
	return out
}

func (s *Server) listOrders(w http.ResponseWriter, r *http.Request, who user.Session) error {
	list, err := s.Orders.OfUser(r.Context(), who.UserID)
	if err != nil {
		return err
	}
	out := make([]orderJSON, 0, len(list))
	for _, o := range list {
		out = append(out, shownOrder(o))
	}
	return ok(w, 200, out)
}

func (s *Server) showOrder(w http.ResponseWriter, r *http.Request, who user.Session) error {
	id, err := uid(r, order.ErrNotFound)
	if err != nil {
		return err
	}
	o, err := s.Orders.ByID(r.Context(), who.UserID, id)
	if err != nil {
		return err
	}
	return ok(w, 200, shownOrder(o))
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request, who user.Session) error {
	id, err := uid(r, order.ErrNotFound)
	if err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	if err := s.Orders.Cancel(r.Context(), who.UserID, id); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

func (s *Server) pay(w http.ResponseWriter, r *http.Request, who user.Session) error {
	id, err := uid(r, order.ErrNotFound)
	if err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	p, err := s.Orders.OpenPayment(r.Context(), who.UserID, id)
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

// paid is where the payment provider tells of a capture. What is refused is written down in the log.
func (s *Server) paid(w http.ResponseWriter, r *http.Request) error {
	var in notice
	var state string
	raw, err := rawBody(w, r)
	if err == nil {
		state, err = s.capture(r, raw, &in)
	}
	if err != nil {
		s.Log.Warn("a payment notice is refused", "from", s.addrOf(r), "order", in.OrderID, "amount", in.Amount, "ref", in.ProviderRef, "err", err)
		return err
	}
	return ok(w, 200, struct {
		Status string `json:"status"` // captured, or refund_due when it came too late or twice
	}{state})
}

// capture does what a notice says and leaves in what it has read of it. The signature is checked before a byte of the body
// is read as anything else.
func (s *Server) capture(r *http.Request, raw []byte, in *notice) (status string, err error) {
	if err := verifyNotice(s.notify, r.Header.Get("X-Timestamp"), r.Header.Get("X-Signature"), raw, s.Rush.Now(), time.Now()); err != nil {
		return "", err
	}
	if err := decode(raw, in); err != nil {
		return "", err
	}
	id, err := in.validate()
	if err != nil {
		return "", err
	}
	return s.Orders.Capture(r.Context(), id, in.Amount, in.ProviderRef)
}

// cash is the sandbox cashier's button.
func (s *Server) cash(w http.ResponseWriter, r *http.Request, who user.Session) error {
	id, err := uid(r, order.ErrNotFound)
	if err != nil {
		return err
	}
	var in struct {
		Action string `json:"action"`
	}
	if err := body(w, r, &in, false); err != nil {
		return err
	}
	p, err := s.Orders.PaymentOf(r.Context(), who.UserID, id)
	if err != nil {
		return err
	}
	switch in.Action {
	case "confirm":
		if p.Status == "declined" {
			return order.ErrWrongStatus
		}
		raw, err := s.cashier.confirm(r.Context(), p)
		if err != nil {
			return err
		}
		return ok(w, 200, json.RawMessage(raw))
	case "decline":
		if err := s.Orders.Decline(r.Context(), id); err != nil {
			return err
		}
		return ok(w, 200, struct {
			Status string `json:"status"`
		}{"declined"})
	}
	return fieldError{field: "action"}
}
