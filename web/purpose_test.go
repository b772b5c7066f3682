package web_test

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
	"miaosha/seckill/sandbox/sandboxtest"
)

// given is what the shop returns for a purpose: a token, or the secret of a browser with a code or an answer.
type given struct{ secret, answer string }

// What was given for one purpose opens its own door and no other one. A row is a purpose of the table whose door is a route.
func TestEachDoorTakesItsPurposeAlone(t *testing.T) {
	t.Parallel()
	s := sharedSandbox(t)
	keeper, buyer, phone := s.keeper(t), s.user(t), newPhone()
	sale := s.sale(t, "--title", "Doors", "--stock", "50", "--start", "now", "--end", "1h")
	id, err := strconv.ParseInt(sale, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path, token, body string, headers ...string) sandboxtest.Reply {
		return sandboxtest.Call(method, s.URL+path, token, body, headers...)
	}
	kept := func(sum gate.SumOf) string {
		answer, _, _ := strings.Cut(s.redis.Get(t.Context(), sum.Key()).Val(), " ")
		return answer
	}
	cookieOf := func(r sandboxtest.Reply) string { _, value, _ := strings.Cut(r.Cookies(), "="); return value }
	value := func(r sandboxtest.Reply, name string) string {
		t.Helper()
		var data map[string]any
		r.Read(t, &data)
		text, _ := data[name].(string)
		return text
	}
	quote := func(text string) string { b, _ := json.Marshal(text); return string(b) }
	class := value(call("POST", "/api/sandbox/classes", keeper, `{"title":"Doors"}`), "code")
	joins := 0
	visitor := func(of purpose.Purpose, path string) func() given {
		return func() given {
			secret := cookieOf(call("GET", path, "", ""))
			return given{secret, kept(gate.SumOfVisitor(of, secret))}
		}
	}
	saleSum := func() given {
		call("GET", "/api/sales/"+sale+"/captcha", buyer.Token, "")
		answer := kept(gate.SumOfSale(id, buyer.Token))
		return given{answer, answer} // the session is the other half of it
	}
	path := func(answer string) sandboxtest.Reply {
		return call("POST", "/api/sales/"+sale+"/path", buyer.Token, `{"captcha":`+quote(answer)+`}`)
	}
	doors := map[purpose.Purpose]struct {
		give  func() given
		opens func(given) bool
	}{
		purpose.Session: {func() given { return given{buyer.Token, ""} }, func(g given) bool {
			return call("GET", "/api/orders", g.secret, "").Status == 200
		}},
		purpose.SaleSum: {saleSum, func(g given) bool { return path(g.answer).Status == 200 }},
		purpose.HiddenAddress: {func() given { return given{value(path(saleSum().answer), "path"), ""} }, func(g given) bool {
			return call("POST", "/api/sales/"+sale+"/buy/"+g.secret, buyer.Token, "").Status == 202
		}},
		purpose.LoginSum: {visitor(purpose.LoginSum, "/api/login/captcha"), func(g given) bool {
			r := call("POST", "/api/login", "", `{"phone":"13800138000","password":"not it","captcha":`+quote(cmp.Or(g.answer, "1"))+`}`, "Cookie", "sum="+g.secret)
			return r.Status != 400 && r.Code != "wrong_captcha" && r.Code != "stale_captcha"
		}},
		purpose.PracticeSum: {visitor(purpose.PracticeSum, "/api/practice"), func(g given) bool {
			return strings.Contains(string(call("POST", "/api/practice", "", `{"captcha":`+quote(g.answer)+`}`, "Cookie", "practice="+g.secret).Raw), `"right":true`)
		}},
		purpose.OneTimeCode: {func() given {
			phone = newPhone()
			r := call("POST", "/api/otp", "", `{"phone":"`+phone+`"}`)
			return given{cookieOf(r), value(r, "dev_code")}
		}, func(g given) bool {
			return call("POST", "/api/register", "", `{"phone":"`+phone+`","code":`+quote(g.answer)+`,"password":"a long password","nickname":"n"}`, "Cookie", "code="+g.secret).Status == 200
		}},
		purpose.LiveView: {func() given {
			_, link, _ := strings.Cut(value(call("POST", "/api/admin/live/link", keeper, `{"hours":1}`), "url"), "#")
			return given{link, ""}
		}, func(g given) bool {
			return call("GET", "/api/live", "", "", "X-Live-Link", g.secret).Status == 200
		}},
		purpose.ClassCode: {func() given { return given{class, ""} }, func(g given) bool {
			joins++
			return call("POST", "/api/sandbox/class", "", `{"code":`+quote(g.secret)+`,"nickname":"Doors `+strconv.Itoa(joins)+`"}`).Status == 200
		}},
		purpose.Seat: {func() given {
			joins++
			return given{cookieOf(call("POST", "/api/sandbox/class", "", `{"code":"`+class+`","nickname":"Doors `+strconv.Itoa(joins)+`"}`)), ""}
		}, func(g given) bool {
			return strings.Contains(string(call("GET", "/api/sandbox/class", "", "", "Cookie", "class="+g.secret).Raw), `"code":"`+class+`"`)
		}},
		purpose.CashierNotice: {func() given { return given{"", ""} }, func(g given) bool { // only the cashier signs: see TestANoticeHasTheKeyOfTheCashier
			return call("POST", "/api/payments/notify", "", `{}`, "X-Timestamp", "1800000000", "X-Signature", g.secret).Status == 200
		}},
	}
	for of, door := range doors {
		for from, other := range doors {
			if from == of && of == purpose.CashierNotice {
				continue
			}
			g := other.give()
			if from != of && of == purpose.OneTimeCode {
				call("POST", "/api/otp", "", `{"phone":"`+phone+`"}`) // there is a code to find
			}
			if g.secret == "" && from != purpose.CashierNotice || g.answer == "" && (from == purpose.SaleSum || from == purpose.LoginSum) {
				t.Fatalf("nothing was given for %s: %+v", from.Name, g)
			}
			if opens := door.opens(g); opens != (from == of) {
				t.Errorf("the door of %s opens for what was given for %s: %v", of.Name, from.Name, opens)
			}
			if from == of && of.Uses == "one" && door.opens(g) {
				t.Errorf("%s is good twice", of.Name)
			}
		}
	}
}
