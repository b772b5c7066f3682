package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/user"
)

func (s *Server) captcha(w http.ResponseWriter, r *http.Request, who user.Session) error {
	sale, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	if err := s.pictures.take(who.UserID); err != nil {
		return err
	}
	png, err := s.Rush.Captcha(r.Context(), sale, s.token(r))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "image/png")
	w.Write(png)
	return nil
}

func (s *Server) path(w http.ResponseWriter, r *http.Request, who user.Session) error {
	sale, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	var in struct {
		Captcha string `json:"captcha"`
	}
	if err := body(w, r, &in, true); err != nil {
		return err
	}
	path, expiry, err := s.Rush.Path(r.Context(), sale, who.UserID, s.token(r), in.Captcha)
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Path      string `json:"path"`
		ExpiresAt string `json:"expires_at"`
	}{path, stamp(expiry)})
}

// buy asks the cheapest question first: until the session, none costs I/O.
func (s *Server) buy(w http.ResponseWriter, r *http.Request) error {
	token := s.token(r)
	if token == "" {
		return errNotLoggedIn
	}
	sale, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	if err := noBody(w, r); err != nil {
		return err
	}
	userID, err := s.Rush.CheckPath(sale, token, chi.URLParam(r, "path"))
	if err != nil {
		return err
	}
	if s.Rush.SoldOut(sale) {
		return goods.ErrSoldOut
	}
	if !s.Rush.Enter() {
		return seckill.ErrBusy
	}
	defer s.Rush.Leave()
	who, err := s.Sessions.Get(r.Context(), token)
	if err != nil {
		return err
	}
	if who.UserID != userID {
		return seckill.ErrBadPath
	}
	if err := s.allow(r, userID); err != nil {
		return err
	}
	b, err := s.Rush.Buy(r.Context(), sale, userID)
	if err != nil {
		return err
	}
	return ok(w, http.StatusAccepted, ticket{Ticket: b.Ticket, status: statusJSON(b.Status)})
}

type ticket struct {
	Ticket string `json:"ticket,omitempty"`
	status
}

type status struct {
	State      string `json:"state"`
	OrderID    string `json:"order_id,omitempty"`
	Ahead      *int   `json:"ahead,omitempty"` // when queued
	NextPollMS int64  `json:"next_poll_ms"`    // 0 when final
}

func statusJSON(s seckill.Status) status {
	out := status{State: s.State, NextPollMS: s.NextPoll.Milliseconds()}
	switch s.State {
	case seckill.Ordered:
		out.OrderID = s.OrderID.String()
	case seckill.Queued:
		out.Ahead = &s.Ahead
	}
	return out
}

func (s *Server) result(w http.ResponseWriter, r *http.Request, who user.Session) error {
	sale, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	st, err := s.Rush.Result(r.Context(), sale, who.UserID)
	if err != nil {
		return err
	}
	return ok(w, 200, statusJSON(st))
}
