package web_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"miaosha/order"
	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
)

// However a telephone is typed, it has one bucket of each limit: ten spellings of it have neither ten times the codes nor ten
// times the tries of a password.
func TestAPhoneHasOneBucketHoweverItIsTyped(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	raw, err := os.ReadFile("../seckill/typed/testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Kind, In, Out string }
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	spellings := map[string]int{} // how often each was refused as one too many
	for _, c := range cases {
		if c.Kind != "phone" || c.Out != "13800138000" {
			continue
		}
		typed, err := json.Marshal(c.In)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []string{
			shop.call("POST", "/api/otp", "", fmt.Sprintf(`{"phone":%s}`, typed)).Code,
			shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":%s,"password":"a wrong one"}`, typed)).Code,
		} {
			spellings[r]++
		}
	}
	if spellings["ok"] < 3 || spellings["wrong_password"] == 0 || spellings["too_many"] == 0 || spellings["bad_request"] > 0 {
		t.Errorf("the answers are %v", spellings)
	}
	for _, limit := range []string{"otp:phone:", "otp:hour:", "login:phone:"} {
		if keys, err := shop.redis().Keys(t.Context(), "ms:limit:"+limit+"*").Result(); err != nil || len(keys) != 1 {
			t.Errorf("the buckets of %s are %v, %v; want one", limit, keys, err)
		}
	}
}

// Accounts of other countries, and one whose number looks like one of China, log in with the number that their row has, or as it is dialled.
func TestRowsOfOtherCountriesLogIn(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	shop.account("13800138111")
	for row, typed := range map[string][]string{
		"+442079460958": {"+442079460958", "+44 (0)20 7946 0958", "＋44-20-7946-0958"},
		"86138001380":   {"86138001380", "8613 800 1380"},
	} {
		if _, err := shop.connect().Exec(t.Context(), `update users set phone = $1`, row); err != nil {
			t.Fatal(err)
		}
		for _, as := range typed {
			if r := shop.insist("/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, as, firstPassword)); r.Code != "ok" {
				t.Errorf("%s logs in as %s: %d %s", row, as, r.Status, r.Raw)
			}
		}
	}
	// Those of another system with the code of China have to be changed once, as the document says.
	document, err := os.ReadFile("../deploy/README.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile("`(update users u [^`]+)`").FindSubmatch(document)
	for _, row := range []string{"+8613800138111", "8613800138111", "008613800138111", "+86013800138111"} {
		if _, err := shop.connect().Exec(t.Context(), `update users set phone = $1`, row); err != nil {
			t.Fatal(err)
		}
		if _, err := shop.connect().Exec(t.Context(), string(statement[1])); err != nil {
			t.Fatal(err)
		}
		if r := shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13800138111","password":%q}`, firstPassword)); r.Code != "ok" {
			t.Errorf("the row %s, when it is changed: %d %s", row, r.Status, r.Raw)
		}
	}
}

// A sum has one try, and a form that is refused is none: neither an answer that is no number uses it up, nor a telephone, a code or
// a password that is refused beside it.
func TestAFormThatIsRefusedUsesUpNoSum(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_CAPTCHA=math")
	for path, bodies := range map[string][]string{
		"/api/login": {`{"phone":"13800138000","password":"x","captcha":"4821g"}`, `{"phone":"138o0138000","password":"x","captcha":"$"}`,
			`{"phone":"13800138000","password":"","captcha":"$"}`, `{"phone":" ","password":"x","captcha":"$"}`},
		"/api/otp":            {`{"phone":"13800138000","captcha":"五万"}`, `{"phone":"110","captcha":"$"}`, `{"phone":"13800138000","captcha":"\u3000"}`},
		"/api/register":       {`{"phone":"13800138000","code":"12345","password":"short","nickname":"A","captcha":"$"}`, `{"phone":"13800138000","code":"123456","password":"a long password","nickname":"admin","captcha":"$"}`},
		"/api/password/reset": {`{"phone":"13800138000","code":"123456","password":"short","captcha":"$"}`, `{"phone":"13800138000","code":"123456","password":"a long password","captcha":"1+2"}`},
		"/api/practice":       {`{"captcha":"=="}`, `{"captcha":"1 o 2"}`},
	} {
		draw, name, cookieName := "/api/login/captcha", purpose.LoginSum, "sum"
		if path == "/api/practice" {
			draw, name, cookieName = path, purpose.PracticeSum, "practice"
		}
		cookie := shop.call("GET", draw, "", "").Cookies()
		key := gate.SumOfVisitor(name, strings.TrimPrefix(cookie, cookieName+"=")).Key()
		answer, err := shop.redis().Get(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			r := shop.call("POST", path, "", strings.ReplaceAll(body, "$", answer), "Cookie", cookie)
			if kept := shop.redis().Get(t.Context(), key).Val(); r.Status != 400 || kept != answer {
				t.Errorf("%s %s: %d %s; the sum is %q, want %q", path, body, r.Status, r.Raw, kept, answer)
			}
		}
	}
}

// A refusal names the character, its place, and the code point of one that shows nothing, in the language of the request.
func TestARefusalNamesTheCharacter(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	nothing := struct{ zh, en string }{"搜索内容里没有看得见的字符，请重新输入", "The search has no visible characters; enter it again"}
	for _, c := range []struct {
		by                    int
		method, path, body    string
		field, reason, en, zh string
	}{
		{anonymous, "POST", "/api/otp", `{"phone":"138o0138000"}`, "phone", "form",
			"A phone number may contain digits, spaces, dashes and a leading +; character 4 is “o”, which is not allowed", "手机号只能有数字、空格、短横和开头的 +；第 4 个字符“o”不能用"},
		{anonymous, "POST", "/api/login", `{"phone":"138\u00070138000","password":"x"}`, "phone", "form",
			"A phone number may contain digits, spaces, dashes and a leading +; character 4 is invisible (U+0007); delete it",
			"手机号只能有数字、空格、短横和开头的 +；第 4 个字符是看不见的字符（U+0007），请删去"},
		{anonymous, "POST", "/api/register", `{"phone":"13800138000","code":"12345o","password":"a long password","nickname":"A"}`, "code", "form",
			"The code must be 6 digits; character 6 is “o”, which is not allowed", "验证码是 6 位数字；第 6 个字符“o”不能用"},
		{owner, "POST", "/api/account/address", `{"name":"A","phone":"13800138000 或 010","address":"B"}`, "phone", "digits",
			"A phone number may contain digits, spaces, dashes, brackets, a leading + and an extension (ext. 123); character 13 is “或”, which is not allowed",
			"电话只能有数字、空格、短横、括号、开头的 + 和分机（转 123）；第 13 个字符“或”不能用"},
		{admin, "POST", "/api/admin/orders/" + shop.order + "/ship", `{"carrier":"顺丰","tracking":"SF123（已发）"}`, "tracking", "form",
			"A tracking number may contain letters, digits, dashes and dots; character 6 is “（”, which is not allowed", "运单号只能有字母、数字、短横和点；第 6 个字符“（”不能用"},
		{admin, "GET", "/api/admin/log?by=7x", "", "by", "form", "Only digits are allowed here; character 2 is “x”, which is not allowed", "这里只能填数字；第 2 个字符“x”不能用"},
		{admin, "GET", "/api/admin/orders?sale=sale7", "", "sale", "form", "Only digits are allowed here; character 1 is “s”, which is not allowed", "这里只能填数字；第 1 个字符“s”不能用"},
		{admin, "GET", "/api/admin/orders?q=%E2%80%8B", "", "q", "form", nothing.en, nothing.zh},
		{admin, "GET", "/api/admin/users?q=%E2%81%A0+", "", "q", "form", nothing.en, nothing.zh},
		{admin, "GET", "/api/admin/log?subject=%C2%AD", "", "subject", "form", nothing.en, nothing.zh},
		{admin, "GET", "/api/admin/orders?sale=%23", "", "sale", "form", "Invalid format", "格式不对"},
	} {
		for language, want := range map[string]string{"en": c.en, "zh-CN": c.zh} {
			r := shop.ask(c.method, c.path, shop.tokens[c.by], c.body, "Accept-Language", language)
			var in struct{ Fields []wrongField }
			if err := json.Unmarshal(r.Raw, &in); err != nil || r.Status != 400 || len(in.Fields) != 1 || in.Fields[0] != (wrongField{c.field, c.reason, want}) {
				t.Errorf("%s %s: %d %s", c.path, c.body, r.Status, r.Raw)
			}
		}
	}
	number := order.Number(uuid.MustParse(shop.order))
	if r := shop.ask("POST", "/api/admin/orders/"+shop.order+"/extend", shop.tokens[admin], `{"minutes":1}`); r.Status != 200 { // has a line in the log
		t.Fatal(string(r.Raw))
	}
	for path, found := range map[string]bool{
		"/api/admin/log?subject=" + number: true, "/api/admin/log?subject=order+" + number: true, "/api/admin/log?subject=" + url.QueryEscape("订单号："+strings.ReplaceAll(number, "-", "")): true,
		"/api/admin/log?subject=" + url.QueryEscape("订单 "+shop.order): true, "/api/admin/log?subject=" + url.QueryEscape("秒杀 "+shop.sale): false, "/api/admin/log?subject=06EX-3K2P-41ZD": false,
		"/api/admin/log?by=%EF%BC%97%0A": false, "/api/admin/orders?sale=%23" + shop.sale: true, "/api/admin/orders?q=" + strings.ToUpper(shop.order): true,
		"/api/admin/orders?q=%7B" + shop.order + "%7D": true, "/api/admin/users?q=138-0013": false, "/api/admin/tickets/%7B" + strings.ToUpper(shop.order) + "%7D": true,
		"/api/admin/tickets/%23" + strings.ToLower(number): true,
	} {
		r := shop.ask("GET", path, shop.tokens[admin], "")
		if r.Status != 200 || found != strings.Contains(string(r.Raw), shop.order) {
			t.Errorf("%s: %d %s", path, r.Status, r.Raw)
		}
	}
	if r := shop.ask("GET", "/api/admin/log?subject="+url.QueryEscape("秒杀#"+shop.sale), shop.tokens[admin], ""); !strings.Contains(string(r.Raw), "sale.create") {
		t.Errorf("the log of the sale: %d %s", r.Status, r.Raw)
	}
}
