package web

import (
	"net/http"

	"github.com/google/uuid"

	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
)

// paymentsOffice is where the staff sees to payments that are stuck.
type paymentsOffice struct {
	admin    *admin.Store
	payments *payments
}

func (s *paymentsOffice) rows() []row {
	keyed := keyedAdmins(s.admin)
	return []row{
		route(GET, "/api/admin/payments", theStaff, first(searches), answerLimit, s.adminPayments),
		route(POST, "/api/admin/payments/{id}/retry", keyed, first(staff), answerLimit, s.retryPayment),
		route(POST, "/api/admin/payments/{id}/returned", keyed, first(staff), answerLimit, s.returnPayment),
	}
}

// adminPayments answers with a page of the payments that are stuck.
func (s *paymentsOffice) adminPayments(w http.ResponseWriter, r *http.Request, by admin.By) error {
	q := query{values: r.URL.Query()}
	f := admin.PaymentFilter{Status: q.oneOf("status", admin.StuckStatuses...), Cursor: q.uuid("cursor")}
	if err := q.err(); err != nil {
		return err
	}
	payments, next, err := s.admin.StuckPayments(r.Context(), by, f, s.payments.asked)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Payments []admin.StuckPayment `json:"payments"`
		Next     uuid.UUID            `json:"next,omitzero"` // the cursor of the next page
	}{payments, next})
}

// retryPayment has the provider asked again at once.
func (s *paymentsOffice) retryPayment(w http.ResponseWriter, r *http.Request, by admin.By) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	id, err := orderID(r)
	if err != nil {
		return err
	}
	if err := s.admin.AskAgain(r.Context(), by, id, s.payments.asked); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// returnPayment notes that the staff has returned the money of a payment that no provider refunds.
func (s *paymentsOffice) returnPayment(w http.ResponseWriter, r *http.Request, by admin.By) error {
	var in struct {
		Note string `json:"note"`
	}
	id, err := orderID(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if err := s.admin.ReturnByHand(r.Context(), by, id, s.payments.asked, typed.Line(in.Note)); err != nil {
		return err
	}
	return ok(w, 200, nil)
}
