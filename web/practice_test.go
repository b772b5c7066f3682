package web_test

import (
	"strings"
	"testing"

	"miaosha/seckill/gate"
)

// A sum is good for the purpose for which it was drawn, under whatever cookie a program sends its secret.
func TestASumHasOnePurpose(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_CAPTCHA=math")
	doors := map[string]struct{ draw, cookie, body string }{
		"login_sum":    {"/api/login/captcha", "sum", `{"phone":"13800138000","password":"not it","captcha":"$"}`},
		"practice_sum": {"/api/practice", "practice", `{"captcha":"$"}`},
	}
	accepts := func(purpose, secret, answer string) bool {
		door := doors[purpose]
		path := strings.TrimSuffix(door.draw, "/captcha")
		r := shop.call("POST", path, "", strings.ReplaceAll(door.body, "$", answer), "Cookie", door.cookie+"="+secret)
		return r.Code == "wrong_password" || strings.Contains(string(r.Raw), `"right":true`)
	}
	for purpose, drawn := range doors {
		for other := range doors {
			_, secret, _ := strings.Cut(shop.call("GET", drawn.draw, "", "").Cookies(), "=")
			answer := shop.redis().Get(t.Context(), gate.SumOfVisitor(purpose, secret).Key()).Val()
			if got := accepts(other, secret, answer); got != (purpose == other) {
				t.Errorf("the door of %s accepts a %s: %v", other, purpose, got)
			}
			if purpose == other && accepts(other, secret, answer) {
				t.Errorf("%s is good twice", purpose)
			}
		}
	}
}
