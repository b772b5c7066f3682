package web

import (
	"net/http"
	"strconv"

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
	png, told, err := s.Rush.Captcha(r.Context(), sale, s.token(r))
	if err != nil {
		return err
	}
	if told != "" {
		w.Header().Set("X-Captcha-Answer", told)
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
	if err := s.Rush.Enter(sale); err != nil {
		return err
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
	return okStatus(w, http.StatusAccepted, b.Ticket, b.Status)
}

// appendStatus writes {"ticket":"...","state":"...","order_id":"...","ahead":0,"next_poll_ms":0}: without a ticket where
// there is none, the order's id when ordered, ahead when queued, and next_poll_ms 0 when final.
func appendStatus(b []byte, ticket string, s seckill.Status) []byte {
	b = append(b, '{')
	if ticket != "" {
		b = append(strconv.AppendQuote(append(b, `"ticket":`...), ticket), ',') // tickets and states are plain ASCII
	}
	b = strconv.AppendQuote(append(b, `"state":`...), s.State)
	switch s.State {
	case seckill.Ordered:
		b = strconv.AppendQuote(append(b, `,"order_id":`...), s.OrderID.String())
	case seckill.Queued:
		b = strconv.AppendInt(append(b, `,"ahead":`...), int64(s.Ahead), 10)
	}
	b = strconv.AppendInt(append(b, `,"next_poll_ms":`...), s.NextPoll.Milliseconds(), 10)
	return append(b, '}')
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
	return okStatus(w, 200, "", st)
}
