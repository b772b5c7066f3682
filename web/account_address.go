package web

import (
	"net/http"

	"miaosha/order"
	"miaosha/seckill/typed"
	"miaosha/user"
)

func (s *accounts) addressRows() []row {
	return []row{
		route(GET, "/api/account/address", anyUser, first(own, reads, ownNetwork), answerLimit, s.showAddress),
		route(POST, "/api/account/address", anyUser, first(own, pays, ownNetwork), answerLimit, s.setAddress),
		route(POST, "/api/account/address/erase", anyUser, first(own, pays, ownNetwork), answerLimit, s.eraseAddress),
	}
}

// showAddress answers with the address of the account, null if there is none.
func (s *accounts) showAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	a, err := s.orders.AddressOf(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	if a == (order.Address{}) {
		return ok(w, 200, nil)
	}
	return ok(w, 200, a)
}

// readAddress reads an address.
func readAddress(w http.ResponseWriter, r *http.Request) (a order.Address, err error) {
	if err := readBody(w, r, &a, false); err != nil {
		return a, err
	}
	var f inputs
	f.reads("phone", "digits", &a.Phone, typed.Contact)
	a.Name, a.Address = typed.Line(a.Name), typed.Line(a.Address)
	f.also(a.Validate())
	return a, f.err()
}

func (s *accounts) setAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	a, err := readAddress(w, r)
	if err != nil {
		return err
	}
	if err := s.orders.SetAddress(r.Context(), session.UserID, a); err != nil {
		return err
	}
	return ok(w, 200, a)
}

func (s *accounts) eraseAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	if err := s.orders.EraseAddress(r.Context(), session.UserID); err != nil {
		return err
	}
	return ok(w, 200, nil)
}
