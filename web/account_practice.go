package web

import (
	"errors"
	"net/http"

	"miaosha/seckill/captcha"
	"miaosha/seckill/purpose"
)

// Practice sums are for visitors who have not bought before. They have a purpose and a cookie of their own: they
// neither replace nor use up a sum that counts, and no answer to one opens anything.

var practiceDraws = draws{late(beforeAll, practiceSites, practiceSums), late(beforeAll, practiceSites, practiceWords)}

func (s *visitorSums) practiceRows() []row {
	return []row{
		route(GET, "/api/practice", everyone, practiceDraws.rule(), answerLimit, s.practiceSum),
		route(POST, "/api/practice", everyone, ahead(practiceTries), answerLimit, s.checkPractice),
	}
}

func (s *visitorSums) practiceSum(w http.ResponseWriter, r *http.Request) error {
	return s.drawSum(w, r, purpose.PracticeSum, "practice", practiceDraws)
}

// checkPractice says whether the answer is right. The sum is used up, unless the answer is no number.
func (s *visitorSums) checkPractice(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Captcha string `json:"captcha"`
	}
	if err := readBody(w, r, &in, false); err != nil {
		return err
	}
	if !s.sums.On() {
		return errNoPage
	}
	var f inputs
	if f.sum(&in.Captcha); f.err() != nil {
		return f.err()
	}
	browser := ""
	if c, err := r.Cookie(s.desk.cookieName(r, "practice")); err == nil {
		browser = c.Value
	}
	err := s.sums.CheckVisitor(r.Context(), purpose.PracticeSum, browser, in.Captcha)
	if err != nil && !errors.Is(err, captcha.ErrWrong) {
		return err
	}
	return ok(w, 200, struct {
		Right bool `json:"right"`
	}{err == nil})
}
