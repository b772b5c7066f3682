package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

func (s *ordersOffice) actionRows() []row {
	keyed := keyedAdmins(s.admin)
	return []row{
		route(POST, "/api/admin/orders/{id}/refund", keyed, first(staff),
			answerLimit, s.changeOrder((*admin.Store).Refund)),
		route(POST, "/api/admin/orders/{id}/confirm", keyed, first(staff), answerLimit, s.confirmOrder),
		route(POST, "/api/admin/orders/{id}/cancel", keyed, first(staff),
			answerLimit, s.changeOrder((*admin.Store).Cancel)),
		route(POST, "/api/admin/orders/{id}/extend", keyed, first(staff), answerLimit, s.extendOrder),
		route(POST, "/api/admin/orders/{id}/ship", keyed, first(staff), answerLimit, s.shipOrder),
		route(POST, "/api/admin/refunds", keyed, first(searches), answerLimit, s.refundOrders),
	}
}

// changeOrder makes a handler of a change that needs nothing but the order.
func (s *ordersOffice) changeOrder(change func(*admin.Store, context.Context, admin.By, uuid.UUID) error) adminHandler {
	return func(w http.ResponseWriter, r *http.Request, by admin.By) error {
		if err := refuseBody(w, r); err != nil {
			return err
		}
		id, err := orderID(r)
		if err != nil {
			return err
		}
		if err := change(s.admin, r.Context(), by, id); err != nil {
			return err
		}
		return ok(w, 200, nil)
	}
}

func (s *ordersOffice) extendOrder(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Minutes number `json:"minutes"`
	}
	id, err := orderID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if in.Minutes < 1 || in.Minutes > maxExtension {
		return fieldError{"minutes", "range"}
	}
	if err := s.admin.Extend(r.Context(), by, id, time.Duration(in.Minutes)*time.Minute); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// confirmOrder takes a payment that the staff has seen by itself.
func (s *ordersOffice) confirmOrder(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Reference string `json:"reference"`
	}
	id, err := orderID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	status, err := s.admin.Confirm(r.Context(), by, id, typed.Reference(in.Reference))
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Status string `json:"status"` // captured or refund_due
	}{status})
}

func (s *ordersOffice) shipOrder(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Carrier  string `json:"carrier"`
		Tracking string `json:"tracking"`
	}
	id, err := orderID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	var f inputs
	if f.reads("tracking", "form", &in.Tracking, typed.Tracking); f.err() != nil {
		return f.err()
	}
	if err := s.admin.Ship(r.Context(), by, id, typed.Line(in.Carrier), in.Tracking); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// maxRefunds is the number of orders that one request refunds: as many ids as a body has room for.
const maxRefunds = 100

// refunds is what the staff wants refunded: orders, or the paid ones of a sale behind the cursor.
type refunds struct {
	Orders []string `json:"orders"`
	Sale   number   `json:"sale"`
	Cursor string   `json:"cursor"`
}

// read returns the orders, or a filter that finds them.
func (in refunds) read() (ids []uuid.UUID, f admin.OrderFilter, err error) {
	switch {
	case (len(in.Orders) == 0) == (in.Sale == 0):
		return nil, f, fieldError{"orders", "required"}
	case in.Sale < 0:
		return nil, f, fieldError{"sale", "form"}
	case len(in.Orders) > maxRefunds:
		return nil, f, fieldError{"orders", fmt.Sprintf("1 to %d", maxRefunds)}
	}
	f = admin.OrderFilter{Sale: int64(in.Sale), Status: order.Paid}
	if in.Cursor != "" {
		if f.Cursor, err = uuid.Parse(in.Cursor); err != nil {
			return nil, f, fieldError{"cursor", "form"}
		}
	}
	for _, text := range in.Orders {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, f, fieldError{"orders", "form"}
		}
		ids = append(ids, id)
	}
	return ids, f, nil
}

// refundOrders refunds orders one after the other, and answers what became of each. It stops after two seconds: the
// next request sends the orders that are not in the answer, or the cursor of the sale's next ones. A repetition answers
// those of the first, too, and refunds no more than the first could.
func (s *ordersOffice) refundOrders(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in refunds
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	ids, f, err := in.read()
	if err != nil {
		return err
	}
	before, err := s.admin.RefundedBefore(r.Context(), by)
	if err != nil {
		return err
	}
	more := uuid.Nil
	if room := maxRefunds - len(before); f.Sale != 0 && room < 1 {
		more = before[len(before)-1]
	} else if f.Sale != 0 {
		var found []admin.Order
		if found, more, err = s.admin.Orders(r.Context(), by, f, room); err != nil {
			return err
		}
		for _, o := range found {
			ids = append(ids, o.ID)
		}
	}
	ids = slices.DeleteFunc(ids, func(id uuid.UUID) bool { return slices.Contains(before, id) })
	type result struct {
		Order uuid.UUID `json:"order"`
		Code  string    `json:"code"` // ok, or that of the refusal
		Msg   string    `json:"msg,omitempty"`
	}
	out := struct {
		Orders []result `json:"orders"`
		Next   string   `json:"next,omitempty"`
	}{Orders: []result{}}
	for _, id := range before {
		out.Orders = append(out.Orders, result{Order: id, Code: "ok"})
	}
	for _, done := range s.admin.RefundAll(r.Context(), by, ids) {
		is := result{Order: done.Order, Code: "ok"}
		if done.Err != nil {
			is.Code, is.Msg = partOfAnswer(r, done.Err, s.desk.log)
		}
		out.Orders = append(out.Orders, is)
	}
	if n := len(out.Orders); f.Sale != 0 && n > 0 && (n < len(before)+len(ids) || more != uuid.Nil) {
		out.Next = out.Orders[n-1].Order.String()
	}
	return ok(w, 200, out)
}
