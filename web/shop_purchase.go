package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/captcha"
	"miaosha/seckill/live"
	"miaosha/user"
)

// buying and the two kinds of sums are the rules that the handlers themselves keep. Buy checks first what costs
// nothing, so its limits stand last.
var (
	buying = late(
		"after the address, the sold-out mark, the bound on buys in flight and the session; before the lane", rush,
		rushNetwork).ofBuyers()
	saleDraws = draws{late(afterSession, pictures).ofBuyers(), late(afterSession, words).ofBuyers()}
)

// purchases is the way from a sum to a ticket and its result.
type purchases struct {
	desk      *desk
	rush      *seckill.Engine
	cache     *goods.Cache
	sums      *captcha.Sums
	counts    *live.Counts
	streams   *streamPlaces
	buyLimits ruleBuckets
}

func (s *purchases) rows() []row {
	itself := audience[openHandler]{"user", everyone.door} // buy asks for the session late
	return []row{
		route(GET, "/api/sales/{id}/captcha", buyers, saleDraws.rule(), answerLimit, s.captcha),
		route(POST, "/api/sales/{id}/path", s.counted(live.Address), first(rush, rushNetwork).ofBuyers(),
			answerLimit, s.address),
		route(POST, "/api/sales/{id}/buy/{path}", itself, buying, ownTime, s.countBuy),
		route(getAndHead, "/api/sales/{id}/result", buyers, first(rush, rushNetwork), ownTime, s.result),
	}
}

// captcha answers with a new sum: a PNG, or with ?kind=words {"question": "..."} in the client's
// language, for users who cannot see a picture. Words have a bucket of their own, which fills slowly:
// enough for a person, and far too slow for a program. Only the newest sum can be answered, whatever
// its kind.
func (s *purchases) captcha(w http.ResponseWriter, r *http.Request, session user.Session, sale int64) error {
	switch kind := r.URL.Query().Get("kind"); kind {
	case "", "picture":
		return s.captchaPicture(w, r, sale, session.UserID)
	case "words":
		return s.captchaWords(w, r, sale, session.UserID)
	default:
		return fmt.Errorf("%w: captcha of kind %q", errBadRequest, kind)
	}
}

func (s *purchases) captchaPicture(w http.ResponseWriter, r *http.Request, sale, userID int64) error {
	if err := s.desk.allow(s.desk.limits.of(saleDraws.picture), r, userID); err != nil {
		return err
	}
	png, answer, err := s.sums.Draw(r.Context(), sale, userID, s.desk.token(r))
	if err != nil {
		return err
	}
	setCaptchaAnswer(w, answer)
	w.Header().Set("Content-Type", "image/png")
	w.Write(png)
	return nil
}

func (s *purchases) captchaWords(w http.ResponseWriter, r *http.Request, sale, userID int64) error {
	if err := s.desk.allow(s.desk.limits.of(saleDraws.words), r, userID); err != nil {
		return err
	}
	question, answer, err := s.sums.Spell(r.Context(), sale, userID, s.desk.token(r), chinese(r))
	if err != nil {
		return err
	}
	setCaptchaAnswer(w, answer)
	return ok(w, 200, struct {
		Question string `json:"question"`
	}{question})
}

func (s *purchases) address(w http.ResponseWriter, r *http.Request, session user.Session, sale int64) error {
	var in struct {
		Captcha string `json:"captcha"`
	}
	if err := readBody(w, r, &in, true); err != nil {
		return err
	}
	if s.sums.On() {
		var f inputs
		if f.sum(&in.Captcha); f.err() != nil {
			return f.err()
		}
	}
	address, expiry, err := s.rush.Address(r.Context(), sale, session.UserID, s.desk.token(r),
		s.sums.Answer(sale, session.UserID, s.desk.token(r), in.Captcha))
	if err != nil {
		return err
	}
	return ok(w, 200, struct {
		Path      string `json:"path"`
		ExpiresAt string `json:"expires_at"`
	}{address, formatTime(expiry)})
}

// buy checks a click and asks the engine for a ticket. The cheapest checks come first: those before the
// session cost no I/O.
func (s *purchases) buy(w http.ResponseWriter, r *http.Request) error {
	token := s.desk.token(r)
	if token == "" {
		return errNotLoggedIn
	}
	sale, err := saleID(r)
	if err != nil {
		return err
	}
	if err := refuseBody(w, r); err != nil {
		return err
	}
	userID, err := s.rush.CheckAddress(sale, token, chi.URLParam(r, "path"))
	if err != nil {
		return err
	}
	if err := s.rush.Admit(sale, userID); err != nil {
		return err
	}
	defer s.rush.Release()
	session, err := s.desk.session(r, token)
	if err != nil {
		return err
	}
	if session.UserID != userID {
		return seckill.ErrBadAddress
	}
	markSession(r.Context())
	if err := s.desk.allow(s.buyLimits, r, userID); err != nil {
		return err
	}
	b, err := s.rush.Buy(r.Context(), sale, userID)
	if err != nil {
		return err
	}
	return okStatus(w, http.StatusAccepted, b.Ticket, b.Status)
}

// appendStatus appends {"ticket":"...","state":"...","order_id":"...","ahead":0,"next_poll_ms":0} to b.
// It leaves out an empty ticket, order_id unless the state is ordered, and ahead unless it is queued.
// next_poll_ms is 0 if the state is final.
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

func (s *purchases) result(w http.ResponseWriter, r *http.Request, session user.Session, sale int64) error {
	st, err := s.rush.Result(r.Context(), sale, session.UserID)
	if err != nil {
		return err
	}
	return okStatus(w, 200, "", st)
}

// okStatus is ok for the state of a ticket. It encodes without reflection, which is faster.
func okStatus(w http.ResponseWriter, status int, ticket string, s seckill.Status) error {
	b := append(make([]byte, 0, 256), `{"code":"ok","data":`...)
	b = append(appendStatus(b, ticket, s), '}')
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write(b)
	return nil
}

// countBuy is buy, counted for the live view.
func (s *purchases) countBuy(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	err := s.buy(w, r)
	s.countAnswer(r, live.Buy, began, err)
	return err
}

// counted is buyers, with each answer counted for the live view, also one of the limits.
func (s *purchases) counted(step live.Step) audience[saleHandler] {
	return audience[saleHandler]{buyers.name, func(d *desk, l ruleBuckets, h saleHandler) openHandler {
		return d.loggedIn(func(w http.ResponseWriter, r *http.Request, session user.Session) error {
			began := time.Now()
			err := d.limited(l, byID(saleID, h))(w, r, session)
			s.countAnswer(r, step, began, err)
			return err
		})
	}}
}

func (s *purchases) countAnswer(r *http.Request, step live.Step, began time.Time, err error) {
	sale, _ := readID(chi.URLParam(r, "id")) // 0 is no sale
	s.counts.Answered(sale, step, answerOf(err), time.Since(began))
}

// answerOf returns what a buyer was told with err. Refusals that a crowd gets come as they are; others may be wrapped.
func answerOf(err error) live.Answer {
	switch err {
	case nil:
		return live.Accepted
	case goods.ErrSoldOut:
		return live.SoldOut
	case seckill.ErrBusy:
		return live.Busy
	}
	var early goods.NotStartedError
	var tooMany seckill.TooManyError
	var tooOften user.TooManyError
	switch {
	case errors.As(err, &early):
		return live.NotStarted
	case errors.As(err, &tooMany), errors.As(err, &tooOften):
		return live.TooMany
	}
	if f := refusalOf(err); f != nil {
		if answer, ok := answerOfCode[f.code]; ok {
			return answer
		}
	} else if isUnavailable(err) {
		return live.Busy
	}
	return live.Other
}

// answerOfCode has the codes that a purchase has in errors.go.
var answerOfCode = map[string]live.Answer{"sold_out": live.SoldOut, "busy": live.Busy, "ended": live.Ended,
	"paused":   live.Paused,
	"bad_path": live.BadAddress, "wrong_captcha": live.WrongCaptcha, "stale_captcha": live.WrongCaptcha,
	"not_logged_in": live.NotLoggedIn}
