package web_test

import (
	"strings"
	"testing"

	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
)

// A sum is valid for the purpose for which it was drawn, under whatever cookie a program sends its secret.
func TestASumHasOnePurpose(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_CAPTCHA=math")
	doors := map[purpose.Purpose]struct{ draw, cookie, body string }{
		purpose.LoginSum:    {"/api/login/captcha", "sum", `{"phone":"13800138000","password":"not it","captcha":"$"}`},
		purpose.PracticeSum: {"/api/practice", "practice", `{"captcha":"$"}`},
	}
	accepts := func(of purpose.Purpose, secret, answer string) bool {
		door := doors[of]
		path := strings.TrimSuffix(door.draw, "/captcha")
		r := shop.call("POST", path, "", strings.ReplaceAll(door.body, "$", answer), "Cookie", door.cookie+"="+secret)
		return r.Code == "wrong_password" || strings.Contains(string(r.Raw), `"right":true`)
	}
	for of, drawn := range doors {
		for other := range doors {
			_, secret, _ := strings.Cut(shop.call("GET", drawn.draw, "", "").Cookies(), "=")
			answer := shop.redis().Get(t.Context(), gate.SumOfVisitor(of, secret).Key()).Val()
			if got := accepts(other, secret, answer); got != (of == other) {
				t.Errorf("the door of %s accepts a %s: %v", other.Name, of.Name, got)
			}
			if of == other && accepts(other, secret, answer) {
				t.Errorf("%s is good twice", of.Name)
			}
		}
	}
}
