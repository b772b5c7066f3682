package web

import (
	"net/http"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/admin"
	"miaosha/seckill/typed"
	"miaosha/user"
)

// adminTicket answers with the timeline of a ticket, which may be given by its order's id or number.
func (s *Server) adminTicket(w http.ResponseWriter, r *http.Request, _ admin.By) error {
	ticket, err := pathText(r, "ticket")
	if key := typed.Key(ticket); key != "" {
		ticket = key
	}
	if err != nil || !admin.IsTicket(ticket) {
		return fieldError{field: "ticket"}
	}
	return s.timeline(w, r, ticket)
}

// orderTicket is adminTicket for the buyer of an order, in the sandbox alone: the timeline shows how the shop works inside.
func (s *Server) orderTicket(w http.ResponseWriter, r *http.Request, session user.Session, id uuid.UUID) error {
	if !s.Sandbox {
		return order.ErrNotFound
	}
	if _, err := s.Orders.ByID(r.Context(), session.UserID, id); err != nil {
		return err
	}
	return s.timeline(w, r, id.String())
}

func (s *Server) timeline(w http.ResponseWriter, r *http.Request, ticket string) error {
	t, err := s.Tickets.Timeline(r.Context(), ticket)
	if err != nil {
		return err
	}
	code := map[string][]sourceFunc{}
	for _, step := range t.Steps {
		code[step.Name] = s.sources[step.Name]
	}
	return ok(w, 200, struct {
		admin.Timeline
		Code map[string][]sourceFunc `json:"code"` // by the name of a step
	}{t, code})
}
