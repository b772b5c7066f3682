package web

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"miaosha/goods"
	"miaosha/seckill"
	"miaosha/seckill/live"
	"miaosha/user"
)

// countBuy is buy, counted for the live view.
func (s *purchases) countBuy(w http.ResponseWriter, r *http.Request) error {
	began := time.Now()
	err := s.buy(w, r)
	s.countAnswer(r, live.Buy, began, err)
	return err
}

// counted is buyers, with each answer counted for the live view, also one of the limits.
func (s *purchases) counted(step live.Step) audience[saleHandler] {
	return audience[saleHandler]{buyers.name, func(d *desk, l limits, h saleHandler) openHandler {
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
var answerOfCode = map[string]live.Answer{"sold_out": live.SoldOut, "busy": live.Busy, "ended": live.Ended, "paused": live.Paused,
	"bad_path": live.BadAddress, "wrong_captcha": live.WrongCaptcha, "stale_captcha": live.WrongCaptcha, "not_logged_in": live.NotLoggedIn}
