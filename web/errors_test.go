package web_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestRefusalsHaveTheirStatusAndCode(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	began := time.Now()
	open, later := shop.sale("--stock", "5"), shop.sale("--start", "30m")
	past := shop.sale("--start=-2h", "--end", "1h")
	me, other := shop.tokens(2)[0], shop.tokens(1)[0]
	order := shop.order(open, me)
	for _, c := range []struct {
		name, method, path, token, body string
		headers                         []string
		status                          int
		code                            string
	}{
		{"no such page", "GET", "/nothing", "", "", nil, 404, "not_found"},
		{"no such route", "GET", "/api/nothing", "", "", nil, 404, "not_found"},
		{"wrong method", "DELETE", "/api/sales", "", "", nil, 405, "method_not_allowed"},
		{"unknown sale", "GET", "/api/sales/999999", "", "", nil, 404, "no_sale"},
		{"sale 0", "GET", "/api/sales/0", "", "", nil, 404, "no_sale"},
		{"sale that is no number", "GET", "/api/sales/abc", "", "", nil, 404, "no_sale"},
		{"sale past int64", "GET", "/api/sales/99999999999999999999", "", "", nil, 404, "no_sale"},
		{"slot that is no time", "GET", "/api/sales?slot=x", "", "", nil, 400, "bad_request"},
		{"slot that is in no menu", "GET", "/api/sales?slot=2001-01-01T00:00:00Z", "", "", nil, 400, "bad_request"},
		{"no session", "GET", "/api/orders", "", "", nil, 401, "not_logged_in"},
		{"a token that is garbage", "GET", "/api/me", "garbage", "", nil, 401, "not_logged_in"},
		{"unknown token", "GET", "/api/me", strings.Repeat("A", 43), "", nil, 401, "not_logged_in"},
		{"token in the address", "GET", "/api/orders?token=" + me, "", "", nil, 401, "not_logged_in"},
		{"log out without a session", "POST", "/api/logout", "", "", nil, 401, "not_logged_in"},
		{"wrong password", "POST", "/api/login", "", `{"phone":"13811112222","password":"x"}`, nil, 401, "wrong_password"},
		{"unknown field", "POST", "/api/login", "", `{"phone":"13811112222","password":"x","role":"admin"}`, nil, 400, "bad_request"},
		{"a phone that is a number", "POST", "/api/login", "", `{"phone":13811112222,"password":"x"}`, nil, 400, "bad_request"},
		{"no JSON", "POST", "/api/login", "", `phone=1`, nil, 400, "bad_request"},
		{"two objects", "POST", "/api/login", "", `{"phone":"1","password":"x"}{}`, nil, 400, "bad_request"},
		{"form", "POST", "/api/login", "", `phone=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"fat body", "POST", "/api/login", "", `{"phone":"` + strings.Repeat("1", 5000) + `"}`, nil, 413, "too_large"},
		{"wrong code", "POST", "/api/register", "", `{"phone":"13811112222","code":"000000","password":"long enough","nickname":"n"}`, nil, 403, "wrong_code"},
		{"short password", "POST", "/api/register", "", `{"phone":"13811112222","code":"000000","password":"short","nickname":"n"}`, nil, 400, "bad_request"},
		{"code for a phone that is none", "POST", "/api/otp", "", `{"phone":"123"}`, nil, 400, "bad_request"},
		{"another site's change", "POST", "/api/login", "", `{"phone":"1","password":"x"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "forbidden"},
		{"another origin's change", "POST", "/api/orders/" + order + "/cancel", me, "", []string{"Origin", "https://evil.example"}, 403, "forbidden"},
		{"address before the start", "POST", "/api/sales/" + later + "/path", me, "", nil, 403, "not_started"},
		{"address after the end", "POST", "/api/sales/" + past + "/path", me, "", nil, 410, "ended"},
		{"address of no sale", "POST", "/api/sales/999999/path", me, "", nil, 404, "no_sale"},
		{"address without a session", "POST", "/api/sales/" + open + "/path", "", "", nil, 401, "not_logged_in"},
		{"captcha without a session", "GET", "/api/sales/" + open + "/captcha", "", "", nil, 401, "not_logged_in"},
		{"captcha of an ended sale", "GET", "/api/sales/" + past + "/captcha", me, "", nil, 410, "ended"},
		{"buy without a session", "POST", "/api/sales/" + open + "/buy/x", "", "", nil, 401, "not_logged_in"},
		{"buy at no address", "POST", "/api/sales/" + open + "/buy/x", me, "", nil, 403, "bad_path"},
		{"buy at another's address", "POST", "/api/sales/" + open + "/buy/" + shop.address(open, me), other, "", nil, 403, "bad_path"},
		{"buy at another sale's address", "POST", "/api/sales/" + later + "/buy/" + shop.address(open, me), me, "", nil, 403, "bad_path"},
		{"buy with a price", "POST", "/api/sales/" + open + "/buy/" + shop.address(open, me), me, `{"price":1}`, nil, 400, "bad_request"},
		{"result of no sale", "GET", "/api/sales/999999/result", me, "", nil, 404, "no_sale"},
		{"another's order", "GET", "/api/orders/" + order, other, "", nil, 404, "not_found"},
		{"no order", "GET", "/api/orders/" + uuid.NewString(), me, "", nil, 404, "not_found"},
		{"order that is no id", "GET", "/api/orders/1", me, "", nil, 404, "not_found"},
		{"pay for another's order", "POST", "/api/orders/" + order + "/pay", other, "", nil, 404, "not_found"},
		{"cancel another's order", "POST", "/api/orders/" + order + "/cancel", other, "", nil, 404, "not_found"},
		{"another's payment", "POST", "/api/cashier/" + uuid.NewString(), me, `{"action":"confirm"}`, nil, 404, "not_found"},
		{"unsigned notice", "POST", "/api/payments/notify", "", `{}`, nil, 403, "forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r sandboxtest.Reply
			sandboxtest.Until(t, "an answer", func() bool { // on a busy machine a password may wait too long to be hashed
				r = shop.call(c.method, c.path, c.token, c.body, c.headers...)
				return r.Code != "busy"
			})
			if r.Status != c.status || r.Code != c.code {
				t.Errorf("%s %s: %d %s; want %d %s", c.method, c.path, r.Status, r.Raw, c.status, c.code)
			}
			if r.Msg == "" || r.Data != nil {
				t.Errorf("%s %s: msg %q, data %s; want a msg and no data", c.method, c.path, r.Msg, r.Data)
			}
			shop.checkHeaders(c.name, c.path, r)
		})
	}
	var early struct {
		In int64 `json:"starts_in_ms"`
	}
	r := shop.call("POST", "/api/sales/"+later+"/path", me, "")
	json.Unmarshal(r.Raw, &early)
	in, least := time.Duration(early.In)*time.Millisecond, 30*time.Minute-time.Since(began)-time.Second // Redis has another clock
	if in < least || in > 30*time.Minute {
		t.Errorf("starts in %v, want %v to half an hour: %s", in, least, r.Raw)
	}
	zh, en := shop.call("GET", "/api/orders", "", "", "Accept-Language", "zh-CN,zh;q=0.9"), shop.call("GET", "/api/orders", "", "", "Accept-Language", "en-GB,en;q=0.9")
	if zh.Msg != "请先登录" || en.Msg != "Please log in first" {
		t.Errorf("messages %q and %q", zh.Msg, en.Msg)
	}
}
