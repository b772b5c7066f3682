package web

import (
	"net/http"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/user"
)

// showAddress answers with the address of the account, null if there is none.
func (s *Server) showAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	a, err := s.Orders.AddressOf(r.Context(), session.UserID)
	if err != nil {
		return err
	}
	if a == (order.Address{}) {
		return ok(w, 200, nil)
	}
	return ok(w, 200, a)
}

func (s *Server) setAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	var a order.Address
	if err := body(w, r, &a, false); err != nil {
		return err
	}
	if err := s.Orders.SetAddress(r.Context(), session.UserID, a); err != nil {
		return err
	}
	return ok(w, 200, a)
}

func (s *Server) eraseAddress(w http.ResponseWriter, r *http.Request, session user.Session) error {
	if err := refuseBody(w, r); err != nil {
		return err
	}
	if err := s.Orders.EraseAddress(r.Context(), session.UserID); err != nil {
		return err
	}
	return ok(w, 200, nil)
}

// setOrderAddress sets the address of an order that is paid and not shipped yet.
func (s *Server) setOrderAddress(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	var a order.Address
	if err := body(w, r, &a, false); err != nil {
		return err
	}
	if err := s.Orders.SetDeliveryAddress(r.Context(), session.UserID, id, a); err != nil {
		return err
	}
	return ok(w, 200, a)
}
