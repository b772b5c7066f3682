package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill"
	"miaosha/user"
)

// buyerOrders are the orders of the user who asks: their payments, their tickets, and where they are sent.
type buyerOrders struct {
	desk          *desk
	orders        *order.Store
	payments      *payments
	timelines     *timelines
	rush          *seckill.Engine      // for its clock
	postgresAhead func() time.Duration // of this process's clock; nil: not at all
	shopName      string
	sandbox       bool
}

func (s *buyerOrders) rows() []row {
	rows := []row{
		route(GET, "/api/orders", anyUser, first(own, reads, ownNetwork), answerLimit, s.listOrders),
		route(GET, "/api/orders/{id}", owners, first(own, reads, ownNetwork), answerLimit, s.showOrder),
		route(GET, "/api/orders/{id}/ticket", owners, first(own, reads, ownNetwork), answerLimit, s.orderTicket),
		route(POST, "/api/orders/{id}/pay", owners, first(own, pays, ownNetwork).then("at most 5 payments of an order"),
			answerLimit, s.pay),
		route(POST, "/api/orders/{id}/cancel", owners, first(own, pays, ownNetwork), answerLimit, s.cancel),
		route(POST, "/api/orders/{id}/address", owners, first(own, pays, ownNetwork), answerLimit, s.setOrderAddress),
	}
	if s.payments.cashier != nil {
		rows = append(rows, route(POST, "/api/cashier/{id}", owners, first(own, pays, ownNetwork),
			answerLimit, s.useCashier))
	}
	return rows
}

// orderJSON is an order as its owner sees it. The price is in fen.
type orderJSON struct {
	ID        string        `json:"id"`
	Number    string        `json:"number"` // the short form of the id
	SaleID    int64         `json:"sale_id"`
	Title     string        `json:"title"`
	Image     string        `json:"image"`
	Price     int64         `json:"price"`
	Status    string        `json:"status"` // pending, paid, cancelled, refunded
	CreatedAt string        `json:"created_at"`
	ExpiresAt string        `json:"expires_at"`
	PaidAt    string        `json:"paid_at,omitempty"`
	Cancelled string        `json:"cancelled_at,omitempty"`
	Seller    string        `json:"seller,omitempty"` // the shop's name, if it has one
	Payments  []paymentJSON `json:"payments"`         // oldest first

	Delivery *order.Delivery `json:"delivery,omitempty"` // of one order that was paid; not in the list
}

// paymentJSON is a payment as the order's owner sees it. The amount is in fen.
type paymentJSON struct {
	ID        string `json:"id"`
	Amount    int64  `json:"amount"`
	Status    string `json:"status"` // open, declined, closed, captured, refund_due, refunded
	CreatedAt string `json:"created_at"`
	UpdatedAt string `json:"updated_at"`
}

// clocksApart is how far the clocks of Postgres and of the shop may be apart before a page has to know it.
const clocksApart = 2 * time.Second

// shopTime returns a time of Postgres by the shop's clock, which is that of Redis: pages count by it, and judge by it
// when the time to pay is over. Postgres alone decides that.
func (s *buyerOrders) shopTime(t time.Time) time.Time {
	if s.postgresAhead == nil {
		return t
	}
	apart := time.Until(s.rush.Now()) - s.postgresAhead()
	if apart.Abs() < clocksApart {
		return t
	}
	return t.Add(apart.Round(time.Second)) // the same time in every answer
}

// ordersJSON returns a user's orders with their payments, in the language of the request.
func (s *buyerOrders) ordersJSON(r *http.Request, userID int64, orders ...order.Order) ([]orderJSON, error) {
	out, ids, at := make([]orderJSON, len(orders)), make([]uuid.UUID, len(orders)), make(map[uuid.UUID]int, len(orders))
	for i, o := range orders {
		ids[i], at[o.ID] = o.ID, i
		out[i] = orderJSON{ID: o.ID.String(), Number: order.Number(o.ID), SaleID: o.SaleID, Title: o.Title,
			Image: s.desk.assets.url(o.Image), Price: o.Price, Status: o.Status,
			CreatedAt: formatTime(s.shopTime(o.CreatedAt)), ExpiresAt: formatTime(s.shopTime(o.ExpiresAt)),
			Seller: s.shopName, Payments: []paymentJSON{}}
		if o.TitleEN != "" && !chinese(r) {
			out[i].Title = o.TitleEN
		}
		if o.PaidAt != nil {
			out[i].PaidAt = formatTime(s.shopTime(*o.PaidAt))
		}
		if o.CancelledAt != nil {
			out[i].Cancelled = formatTime(s.shopTime(*o.CancelledAt))
		}
	}
	payments, err := s.orders.Payments(r.Context(), userID, ids...)
	for _, p := range payments {
		of := &out[at[p.OrderID]]
		of.Payments = append(of.Payments, paymentJSON{ID: p.ID.String(), Amount: p.Amount, Status: p.Status,
			CreatedAt: formatTime(s.shopTime(p.CreatedAt)), UpdatedAt: formatTime(s.shopTime(p.UpdatedAt))})
	}
	return out, err
}

func (s *buyerOrders) listOrders(w http.ResponseWriter, r *http.Request, session user.Session) error {
	list, err := s.orders.OfUser(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	out, err := s.ordersJSON(r, session.UserID, list...)
	if err != nil {
		return err
	}
	return ok(w, 200, out)
}

func (s *buyerOrders) showOrder(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	o, err := s.orders.ByID(r.Context(), session.UserID, id)
	if err != nil {
		return err
	}
	list, err := s.ordersJSON(r, session.UserID, o)
	if err != nil {
		return err
	}
	out := list[0]
	if o.PaidAt != nil {
		d, err := s.orders.DeliveryOf(r.Context(), session.UserID, id)
		if err != nil {
			return err
		}
		out.Delivery = &d
	}
	return ok(w, 200, out)
}

func (s *buyerOrders) cancel(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	if err := s.orders.Cancel(r.Context(), session.UserID, id); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

func (s *buyerOrders) pay(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	p, url, err := s.orders.Start(r.Context(), s.payments.providers[0], session.UserID, id)
	if errors.Is(err, order.ErrProvider) {
		s.desk.faults.Do(func() { s.desk.log.Error("the payment provider does not answer", "err", err) })
	}
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		PaymentID string `json:"payment_id"`
		PayURL    string `json:"pay_url,omitempty"`
	}{p.ID.String(), url})
}

// useCashier confirms or declines a payment at the sandbox cashier.
func (s *buyerOrders) useCashier(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	var in struct {
		Action string `json:"action"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	p, err := s.orders.PaymentOf(r.Context(), session.UserID, id)
	if err != nil {
		return err
	}
	if p.Provider != order.Cashier {
		return order.ErrNotFound
	}
	switch in.Action {
	case "confirm":
		p.PayUntil = s.shopTime(p.PayUntil)
		raw, err := s.payments.cashier.confirm(r.Context(), p)
		if err != nil {
			return err
		}
		return ok(w, 200, json.RawMessage(raw))
	case "decline":
		if err := s.orders.Decline(r.Context(), p, "the buyer declined it"); err != nil {
			return err
		}
		return ok(w, 200, struct {
			Status string `json:"status"`
		}{"declined"})
	}
	return fieldError{"action", "value"}
}

// orderTicket is adminTicket for the buyer of an order, in the sandbox alone: the timeline shows how the shop works
// inside.
func (s *buyerOrders) orderTicket(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if !s.sandbox {
		return order.ErrNotFound
	}
	if _, err := s.orders.ByID(r.Context(), session.UserID, id); err != nil {
		return err
	}
	return s.timelines.answer(w, r, id.String())
}

// setOrderAddress sets the address of an order that is paid and not shipped yet.
func (s *buyerOrders) setOrderAddress(
	w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID,
) error {
	a, err := readAddress(w, r)
	if err != nil {
		return err
	}
	if err := s.orders.SetDeliveryAddress(r.Context(), session.UserID, id, a); err != nil {
		return err
	}
	return ok(w, 200, a)
}
