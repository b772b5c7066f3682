package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/user"
)

// captcha draws a sum: a PNG, or with ?kind=words {"question": "..."} in the caller's language, for who can't see one. Words
// have a bucket of their own, which fills slowly: a program that asks for them gets far fewer than it would of pictures,
// and a person one whenever he needs it. Only the sum that was asked for last can be answered, whatever its kind.
func (s *Server) captcha(w http.ResponseWriter, r *http.Request, who user.Session) error {
	sale, err := number(r, goods.ErrNoSale)
	if err != nil {
		return err
	}
	switch kind := r.URL.Query().Get("kind"); kind {
	case "", "picture":
		return s.captchaPicture(w, r, sale, who.UserID)
	case "words":
		return s.captchaWords(w, r, sale, who.UserID)
	default:
		return fmt.Errorf("%w: captcha of kind %q", errBadRequest, kind)
	}
}

func (s *Server) captchaPicture(w http.ResponseWriter, r *http.Request, sale, userID int64) error {
	if err := s.pictures.take(userID); err != nil {
		return err
	}
	png, told, err := s.Rush.Captcha(r.Context(), sale, s.token(r))
	if err != nil {
		return err
	}
	tellAnswer(w, told)
	w.Header().Set("Content-Type", "image/png")
	w.Write(png)
	return nil
}

func (s *Server) captchaWords(w http.ResponseWriter, r *http.Request, sale, userID int64) error {
	if err := s.words.take(userID); err != nil {
		return err
	}
	question, told, err := s.Rush.CaptchaWords(r.Context(), sale, s.token(r), chinese(r))
	if err != nil {
		return err
	}
	tellAnswer(w, told)
	return ok(w, 200, struct {
		Question string `json:"question"`
	}{question})
}

// tellAnswer tells a load tool the answer, where that is allowed.
func tellAnswer(w http.ResponseWriter, told string) {
	if told != "" {
		w.Header().Set("X-Captcha-Answer", told)
	}
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
