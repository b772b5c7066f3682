package web

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"

	"miaosha/seckill/captcha"
	"miaosha/seckill/purpose"
)

// draws are the rules for drawing a sum, as a picture or in words.
type draws struct{ picture, words rule }

// rule is that of the route, which has both.
func (d draws) rule() rule {
	d.picture.words = d.words.limits
	return d.picture
}

// loginDraws are the rules of the sums of the log-in, which drawSum keeps.
var loginDraws = draws{late(beforeAll, loginSites, loginSums), late(beforeAll, loginSites, loginWords)}

// visitorSums are the sums of visitors: of the log-in, and for practice.
type visitorSums struct {
	desk *desk
	sums *captcha.Sums // nil: none are asked for
}

func (s *visitorSums) rows() []row {
	return []row{
		route(GET, "/api/login/captcha", everyone, loginDraws.rule(), answerLimit, s.loginCaptcha),
	}
}

// loginCaptcha draws a sum for a visitor who finds the door of the log-in full or a budget of codes used
// up, as captcha does for a buyer: a picture, or with ?kind=words a question. The sum is bound to the
// browser by a cookie. Without sums the page does not exist.
func (s *visitorSums) loginCaptcha(w http.ResponseWriter, r *http.Request) error {
	return s.drawSum(w, r, purpose.LoginSum, "sum", loginDraws)
}

// drawSum draws a sum that is bound to a cookie of this name.
func (s *visitorSums) drawSum(
	w http.ResponseWriter, r *http.Request, of purpose.Purpose, cookie string, under draws,
) error {
	if !s.sums.On() {
		return errNoPage
	}
	// of a known browser the new sum takes the place of the old one
	browser := cmp.Or(s.desk.secret(r, cookie), rand.Text())
	switch kind := r.URL.Query().Get("kind"); kind {
	case "", "picture":
		if err := s.desk.allow(s.desk.limits.of(under.picture), r, 0); err != nil {
			return err
		}
		png, answer, err := s.sums.DrawVisitor(r.Context(), of, browser)
		if err != nil {
			return err
		}
		s.setSum(w, r, cookie, browser, answer)
		w.Header().Set("Content-Type", "image/png")
		w.Write(png)
		return nil
	case "words":
		if err := s.desk.allow(s.desk.limits.of(under.words), r, 0); err != nil {
			return err
		}
		question, answer, err := s.sums.SpellVisitor(r.Context(), of, browser, chinese(r))
		if err != nil {
			return err
		}
		s.setSum(w, r, cookie, browser, answer)
		return ok(w, 200, struct {
			Question string `json:"question"`
		}{question})
	default:
		return fmt.Errorf("%w: captcha of kind %q", errBadRequest, kind)
	}
}

func (s *visitorSums) setSum(w http.ResponseWriter, r *http.Request, cookie, browser, answer string) {
	http.SetCookie(w, &http.Cookie{Name: s.desk.cookieName(r, cookie), Value: browser, Path: "/", MaxAge: 60,
		HttpOnly: true, Secure: s.desk.secure(r), SameSite: http.SameSiteStrictMode})
	setCaptchaAnswer(w, answer)
}

// solved judges the answer to the browser's sum, which is used up unless it is no number. It reports false for no
// answer, and when the shop asks for no sums. A wrong answer is an error.
func (s *visitorSums) solved(r *http.Request, answer string) (bool, error) {
	if answer == "" || !s.sums.On() {
		return false, nil
	}
	var f inputs
	if f.sum(&answer); f.err() != nil {
		return false, f.err()
	}
	c, err := r.Cookie(s.desk.cookieName(r, "sum"))
	if err != nil {
		return false, captcha.ErrWrong
	}
	if err := s.desk.limits.bucket(loginSums).take(bucketKey{addr: s.desk.clientNetwork(r)}); err != nil {
		return false, err
	}
	err = s.sums.CheckVisitor(r.Context(), purpose.LoginSum, c.Value, answer)
	return err == nil, err
}

// setCaptchaAnswer sends the answer to a load tool, if the settings allow it.
func setCaptchaAnswer(w http.ResponseWriter, answer string) {
	if answer != "" {
		w.Header().Set("X-Captcha-Answer", answer)
	}
}
