package web_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// These tests speak HTTP to the built binary.

func TestMain(m *testing.M) { sandboxtest.Main(m) }

const notifySecret = "notify-notify-notify-notify"

// house is a shop with a sale and some buyers.
type house struct {
	*sandboxtest.Shop
	t   *testing.T
	env []string
}

func openHouse(t *testing.T, env ...string) house {
	t.Helper()
	all := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_NOTIFY_SECRET="+notifySecret, "MIAOSHA_CASHIER=sandbox")
	all = append(all, env...)
	return house{sandboxtest.Open(t, all), t, all}
}

func (h house) sale(args ...string) string {
	h.t.Helper()
	return strings.TrimSpace(sandboxtest.MustCommand(h.t, h.env, append([]string{"sale", "--title", "T", "--price", "990"}, args...)...))
}

// buyers gives tokens of new buyers.
func (h house) buyers(n int) (tokens []string) {
	h.t.Helper()
	lines := strings.Split(strings.TrimSpace(sandboxtest.MustCommand(h.t, h.env, "users", "-n", strconv.Itoa(n))), "\n")
	for _, l := range lines[1:] {
		tokens = append(tokens, strings.Split(l, ",")[2])
	}
	return tokens
}

func (h house) call(method, path, token, body string, headers ...string) sandboxtest.Reply {
	return sandboxtest.Call(method, h.URL+path, token, body, headers...)
}

func (h house) address(sale, token string) string {
	h.t.Helper()
	var at struct{ Path string }
	h.call("POST", "/api/sales/"+sale+"/path", token, "").Read(h.t, &at)
	return at.Path
}

// order buys and waits for the order's id. A shop that is busy is asked again as it says, like a person would.
func (h house) order(sale, token string) string {
	h.t.Helper()
	path := "/api/sales/" + sale + "/buy/" + h.address(sale, token)
	r := h.call("POST", path, token, "")
	for tries := 0; r.Status == 503 && tries < 3; tries++ {
		wait, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		time.Sleep(time.Duration(wait) * time.Second)
		r = h.call("POST", path, token, "")
	}
	if r.Status != 202 {
		h.t.Fatalf("buy: %d %s", r.Status, r.Code)
	}
	var st struct {
		State   string
		OrderID string `json:"order_id"`
	}
	for range 200 {
		if h.call("GET", "/api/sales/"+sale+"/result", token, "").Read(h.t, &st); st.State == "ordered" {
			return st.OrderID
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatalf("still %s", st.State)
	return ""
}

func (h house) status(order, token string) string {
	h.t.Helper()
	var o struct{ Status string }
	h.call("GET", "/api/orders/"+order, token, "").Read(h.t, &o)
	return o.Status
}

func TestRefusalsHaveTheirStatusAndCode(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off")
	open, later := h.sale("--stock", "5"), h.sale("--start", "30m")
	past := h.sale("--start=-2h", "--end", "1h")
	me, other := h.buyers(2)[0], h.buyers(1)[0]
	order := h.order(open, me)
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
		{"nobody", "GET", "/api/me", "", "", nil, 401, "not_logged_in"},
		{"garbage for a token", "GET", "/api/me", "garbage", "", nil, 401, "not_logged_in"},
		{"unknown token", "GET", "/api/me", strings.Repeat("A", 43), "", nil, 401, "not_logged_in"},
		{"token in the address", "GET", "/api/me?token=" + me, "", "", nil, 401, "not_logged_in"},
		{"nobody logs out", "POST", "/api/logout", "", "", nil, 401, "not_logged_in"},
		{"wrong password", "POST", "/api/login", "", `{"phone":"13811112222","password":"x"}`, nil, 401, "wrong_password"},
		{"unknown field", "POST", "/api/login", "", `{"phone":"13811112222","password":"x","role":"admin"}`, nil, 400, "bad_request"},
		{"number for a phone", "POST", "/api/login", "", `{"phone":13811112222,"password":"x"}`, nil, 400, "bad_request"},
		{"no JSON", "POST", "/api/login", "", `phone=1`, nil, 400, "bad_request"},
		{"two objects", "POST", "/api/login", "", `{"phone":"1","password":"x"}{}`, nil, 400, "bad_request"},
		{"form", "POST", "/api/login", "", `phone=1`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"fat body", "POST", "/api/login", "", `{"phone":"` + strings.Repeat("1", 5000) + `"}`, nil, 413, "too_large"},
		{"wrong code", "POST", "/api/register", "", `{"phone":"13811112222","code":"000000","password":"long enough","nickname":"n"}`, nil, 403, "wrong_code"},
		{"short password", "POST", "/api/register", "", `{"phone":"13811112222","code":"000000","password":"short","nickname":"n"}`, nil, 400, "bad_request"},
		{"code for no phone", "POST", "/api/otp", "", `{"phone":"123"}`, nil, 400, "bad_request"},
		{"another site's change", "POST", "/api/login", "", `{"phone":"1","password":"x"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "forbidden"},
		{"another origin's change", "POST", "/api/orders/" + order + "/cancel", me, "", []string{"Origin", "https://evil.example"}, 403, "forbidden"},
		{"address before the start", "POST", "/api/sales/" + later + "/path", me, "", nil, 403, "not_started"},
		{"address after the end", "POST", "/api/sales/" + past + "/path", me, "", nil, 410, "ended"},
		{"address of no sale", "POST", "/api/sales/999999/path", me, "", nil, 404, "no_sale"},
		{"address for nobody", "POST", "/api/sales/" + open + "/path", "", "", nil, 401, "not_logged_in"},
		{"captcha for nobody", "GET", "/api/sales/" + open + "/captcha", "", "", nil, 401, "not_logged_in"},
		{"captcha of an ended sale", "GET", "/api/sales/" + past + "/captcha", me, "", nil, 410, "ended"},
		{"buy by nobody", "POST", "/api/sales/" + open + "/buy/x", "", "", nil, 401, "not_logged_in"},
		{"buy at no address", "POST", "/api/sales/" + open + "/buy/x", me, "", nil, 403, "bad_path"},
		{"buy at another's address", "POST", "/api/sales/" + open + "/buy/" + h.address(open, me), other, "", nil, 403, "bad_path"},
		{"buy at another sale's address", "POST", "/api/sales/" + later + "/buy/" + h.address(open, me), me, "", nil, 403, "bad_path"},
		{"buy with a price", "POST", "/api/sales/" + open + "/buy/" + h.address(open, me), me, `{"price":1}`, nil, 400, "bad_request"},
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
			r := h.call(c.method, c.path, c.token, c.body, c.headers...)
			if r.Status != c.status || r.Code != c.code || r.Msg == "" || r.Data != nil {
				t.Errorf("%s %s: %d %s; want %d %s", c.method, c.path, r.Status, r.Raw, c.status, c.code)
			}
			if r.Header.Get("Content-Security-Policy") == "" || r.Header.Get("X-Content-Type-Options") != "nosniff" ||
				r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers of a refusal: %v", r.Header)
			}
		})
	}
	var early struct {
		In int64 `json:"starts_in_ms"`
	}
	r := h.call("POST", "/api/sales/"+later+"/path", me, "")
	if json.Unmarshal(r.Raw, &early); early.In < 29*60*1000 || early.In > 30*60*1000 {
		t.Errorf("starts in %d ms: %s", early.In, r.Raw)
	}
	zh, en := h.call("GET", "/api/me", "", "", "Accept-Language", "zh-CN,zh;q=0.9"), h.call("GET", "/api/me", "", "", "Accept-Language", "en-GB,en;q=0.9")
	if zh.Msg != "请先登录" || en.Msg != "Please log in first" {
		t.Errorf("messages %q and %q", zh.Msg, en.Msg)
	}
}

func TestAccountFromFirstCodeToNewPassword(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	register := func(phone, code string) sandboxtest.Reply {
		return h.call("POST", "/api/register", "", fmt.Sprintf(`{"phone":%q,"code":%q,"password":"first password","nickname":"小明"}`, phone, code))
	}
	var sent struct {
		ExpiresIn int     `json:"expires_in"`
		DevCode   *string `json:"dev_code"`
	}
	h.call("POST", "/api/otp", "", `{"phone":"13811112222"}`).Read(t, &sent)
	if sent.ExpiresIn != 300 || sent.DevCode != nil {
		t.Fatalf("a shop with stores of its own answers %+v: the code is for the phone alone", sent)
	}
	code := codeIn(t, h, "13811112222")
	r := register("13811112222", code)
	if r.Code != "ok" {
		t.Fatalf("register: %d %s", r.Status, r.Raw)
	}
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 1 || cookies[0].Name != "session" || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		t.Errorf("cookies %v", cookies)
	}
	if r := register("13811112222", code); r.Code != "wrong_code" {
		t.Errorf("a code used twice: %d %s", r.Status, r.Code)
	}
	var me struct {
		UserID                int64 `json:"user_id"`
		Phone, Nickname, Role string
		Token                 string
	}
	h.call("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value).Read(t, &me)
	if me.Phone != "138****2222" || me.Nickname != "小明" || me.Role != "buyer" {
		t.Errorf("me: %+v", me)
	}
	login := func(password string) sandboxtest.Reply {
		return h.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, password))
	}
	login("first password").Read(t, &me)
	if r := h.call("POST", "/api/password", me.Token, `{"old":"first password","new":"second password"}`); r.Code != "ok" {
		t.Fatalf("password: %d %s", r.Status, r.Raw)
	}
	if r := h.call("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value); r.Code != "not_logged_in" {
		t.Errorf("the other session goes on: %d %s", r.Status, r.Code)
	}
	if r := h.call("GET", "/api/me", me.Token, ""); r.Code != "ok" {
		t.Errorf("the session that changed it ended: %d %s", r.Status, r.Code)
	}
	if r := login("first password"); r.Code != "wrong_password" {
		t.Errorf("the old password: %d %s", r.Status, r.Code)
	}
	if r := h.call("POST", "/api/logout", me.Token, ""); r.Code != "ok" {
		t.Errorf("log out: %d %s", r.Status, r.Code)
	}
	if r := h.call("GET", "/api/me", me.Token, ""); r.Code != "not_logged_in" {
		t.Errorf("after log-out: %d %s", r.Status, r.Code)
	}
}

// codeIn finds the code that the console SMS printed for a phone.
func codeIn(t *testing.T, h house, phone string) string {
	t.Helper()
	for until := time.Now().Add(sandboxtest.Within(5 * time.Second)); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		for _, line := range strings.Split(h.Log.String(), "\n") {
			if strings.Contains(line, phone) {
				for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r < '0' || r > '9' }) {
					if len(word) == 6 {
						return word
					}
				}
			}
		}
	}
	t.Fatalf("no code for %s in:\n%s", phone, h.Log.String())
	return ""
}

func TestCatalogueTellsWhatIsOn(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	open, later := h.sale("--stock", "3", "--list-price", "1990"), h.sale("--start", "10m", "--end", "10m")
	me := h.buyers(1)[0]
	type sale struct {
		ID          int64
		Title       string
		Price       int64
		ListPrice   int64 `json:"list_price"`
		Total, Left int
		StartAt     time.Time `json:"start_at"`
		EndAt       time.Time `json:"end_at"`
		State       string
		Detail      *string
		ServerTime  time.Time `json:"server_time"`
		Captcha     *bool
	}
	var list []sale
	h.call("GET", "/api/sales", "", "").Read(t, &list)
	if len(list) != 2 || list[0].State != "open" || list[1].State != "upcoming" || list[0].Left != 3 || list[0].ListPrice != 1990 || list[0].Price != 990 {
		t.Errorf("list: %+v", list)
	}
	var one sale
	h.call("GET", "/api/sales/"+open, "", "").Read(t, &one)
	if one.Detail == nil || one.Captcha == nil || *one.Captcha || time.Since(one.ServerTime).Abs() > 5*time.Second {
		t.Errorf("detail: %+v", one)
	}
	var slots []struct {
		StartAt time.Time `json:"start_at"`
		EndAt   time.Time `json:"end_at"`
		State   string
	}
	h.call("GET", "/api/slots", "", "").Read(t, &slots)
	if len(slots) < 23 || len(slots) > 25 {
		t.Fatalf("%d slots", len(slots))
	}
	seen := map[int64]bool{}
	for _, s := range slots {
		var in []sale
		h.call("GET", "/api/sales?slot="+strings.ReplaceAll(s.StartAt.Format(time.RFC3339), "+", "%2B"), "", "").Read(t, &in)
		for _, g := range in {
			seen[g.ID] = true
			if !g.StartAt.Before(s.EndAt) || !g.EndAt.After(s.StartAt) {
				t.Errorf("sale %d is not of slot %v", g.ID, s)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("the menu shows %v, want %s and %s", seen, open, later)
	}
	h.order(open, me)
	for range 100 { // what is left follows within half a second
		if h.call("GET", "/api/sales/"+open, "", "").Read(t, &one); one.Left == 2 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left %d after one of 3 was bought", one.Left)
}

func TestOrderIsPaidOnce(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off")
	sale := h.sale("--stock", "10")
	me := h.buyers(1)[0]
	order := h.order(sale, me)
	var p, again struct {
		ID  string `json:"payment_id"`
		URL string `json:"pay_url"`
	}
	h.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &p)
	h.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &again)
	if p != again || !strings.HasPrefix(p.URL, "/pay.html?") {
		t.Errorf("two payments: %v and %v", p, again)
	}
	if r := h.call("POST", "/api/cashier/"+p.ID, me, `{"action":"decline"}`); r.Code != "ok" || h.status(order, me) != "pending" {
		t.Errorf("decline: %d %s, order %s", r.Status, r.Raw, h.status(order, me))
	}
	h.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &again)
	if p.ID == again.ID {
		t.Errorf("a declined payment is used again")
	}
	for range 2 { // twice is once
		if r := h.call("POST", "/api/cashier/"+again.ID, me, `{"action":"confirm"}`); r.Code != "ok" || string(r.Data) != `{"status":"captured"}` {
			t.Errorf("confirm: %d %s", r.Status, r.Raw)
		}
	}
	if h.status(order, me) != "paid" {
		t.Errorf("order is %s", h.status(order, me))
	}
	for _, act := range []string{"/pay", "/cancel"} {
		if r := h.call("POST", "/api/orders/"+order+act, me, ""); r.Code != "wrong_status" {
			t.Errorf("%s a paid order: %d %s", act, r.Status, r.Code)
		}
	}
	if out := sandboxtest.MustCommand(t, h.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// notify tells the shop of a capture as the provider would.
func (h house) notify(key, body string, at time.Time) sandboxtest.Reply {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(stamp + "." + body))
	return h.call("POST", "/api/payments/notify", "", body, "X-Timestamp", stamp, "X-Signature", hex.EncodeToString(mac.Sum(nil)))
}

func TestNoticesAreTheProvidersAlone(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off", "MIAOSHA_PAY_WITHIN=4s")
	sale := h.sale("--stock", "10")
	tokens := h.buyers(2)
	mine, late := h.order(sale, tokens[0]), h.order(sale, tokens[1])
	body := func(order string, amount int, ref string) string {
		return fmt.Sprintf(`{"order_id":%q,"amount":%d,"provider_ref":%q}`, order, amount, ref)
	}
	now := time.Now()
	for name, c := range map[string]struct {
		reply sandboxtest.Reply
		code  string
	}{
		"forged":       {h.notify("another key", body(mine, 990, "r1"), now), "forbidden"},
		"old":          {h.notify(notifySecret, body(mine, 990, "r1"), now.Add(-time.Hour)), "forbidden"},
		"of tomorrow":  {h.notify(notifySecret, body(mine, 990, "r1"), now.Add(time.Hour)), "forbidden"},
		"wrong amount": {h.notify(notifySecret, body(mine, 1, "r1"), now), "bad_request"},
		"no order":     {h.notify(notifySecret, body(uuid.NewString(), 990, "r1"), now), "not_found"},
		"no reference": {h.notify(notifySecret, body(mine, 990, ""), now), "bad_request"},
	} {
		if c.reply.Code != c.code {
			t.Errorf("%s: %d %s, want %s", name, c.reply.Status, c.reply.Raw, c.code)
		}
	}
	if s := h.status(mine, tokens[0]); s != "pending" {
		t.Errorf("the order is %s after refused notices", s)
	}
	for range 2 {
		if r := h.notify(notifySecret, body(mine, 990, "r1"), now); string(r.Data) != `{"status":"captured"}` {
			t.Errorf("notice: %d %s", r.Status, r.Raw)
		}
	}
	if r := h.notify(notifySecret, body(late, 990, "r1"), now); r.Code != "wrong_status" {
		t.Errorf("another order under the same reference: %d %s", r.Status, r.Raw)
	}
	for h.status(late, tokens[1]) != "cancelled" { // the test's own deadline bounds it
		time.Sleep(50 * time.Millisecond)
	}
	if r := h.notify(notifySecret, body(late, 990, "r2"), time.Now()); string(r.Data) != `{"status":"refund_due"}` {
		t.Errorf("late notice: %d %s", r.Status, r.Raw)
	}
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(h.env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	var status string
	for status != "refunded" {
		if err := db.QueryRow(t.Context(), `select status from payments where provider_ref = 'r2'`).Scan(&status); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if out := sandboxtest.MustCommand(t, h.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

func TestLatencyUntilACancelledUnitIsOnSale(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_RATE=off")
	sale := h.sale("--stock", "1")
	tokens := h.buyers(2)
	order := h.order(sale, tokens[0])
	if r := h.call("POST", "/api/sales/"+sale+"/path", tokens[1], ""); r.Code != "sold_out" {
		t.Errorf("the second: %d %s", r.Status, r.Code)
	}
	if r := h.call("POST", "/api/orders/"+order+"/cancel", tokens[0], ""); r.Code != "ok" {
		t.Fatalf("cancel: %d %s", r.Status, r.Code)
	}
	began := time.Now()
	for h.call("POST", "/api/sales/"+sale+"/path", tokens[1], "").Code != "ok" {
		if time.Since(began) > sandboxtest.Within(2*time.Second) {
			t.Fatal("the unit did not come back")
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("back on sale after %v", time.Since(began))
	h.order(sale, tokens[1])
	if r := h.call("POST", "/api/sales/"+sale+"/buy/"+h.address(sale, tokens[0]), tokens[0], ""); r.Status != 202 || !strings.Contains(string(r.Data), order) {
		t.Errorf("who cancelled buys again: %d %s; want his old order", r.Status, r.Raw)
	}
}

func TestOneUserIsLimited(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	sale := h.sale("--stock", "1")
	tokens := h.buyers(2)
	codes := map[string]int{}
	var refused sandboxtest.Reply
	for range 30 {
		r := h.call("GET", "/api/sales/"+sale+"/result", tokens[0], "")
		if codes[r.Code]++; r.Code == "too_many" {
			refused = r
		}
	}
	if codes["ok"] < 10 || codes["too_many"] < 10 || refused.Status != 429 || refused.Header.Get("Retry-After") == "" {
		t.Errorf("30 polls at once: %v, %d %v", codes, refused.Status, refused.Header)
	}
	if r := h.call("GET", "/api/sales/"+sale+"/result", tokens[1], ""); r.Code != "ok" {
		t.Errorf("another user: %d %s", r.Status, r.Code)
	}
}

func TestCaptchaIsAPicture(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_CAPTCHA=math")
	sale := h.sale("--stock", "1")
	me := h.buyers(1)[0]
	r := h.call("GET", "/api/sales/"+sale+"/captcha", me, "")
	if _, err := png.Decode(strings.NewReader(string(r.Raw))); err != nil || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Content-Type") != "image/png" {
		t.Errorf("captcha: %v %v", err, r.Header)
	}
	for _, body := range []string{"", `{}`, `{"captcha":"x"}`} {
		if r := h.call("POST", "/api/sales/"+sale+"/path", me, body); r.Code != "wrong_captcha" {
			t.Errorf("address for %q: %d %s", body, r.Status, r.Code)
		}
	}
	if r := h.call("POST", "/api/sales/"+sale+"/path", me, `{"captcha":1}`); r.Code != "bad_request" {
		t.Errorf("a number: %d %s", r.Status, r.Code)
	}
}

// Who can't see a picture hears the sum in his language, and a program gets one in five seconds.
func TestCaptchaInWords(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_CAPTCHA=math")
	sale := h.sale("--stock", "1")
	tokens := h.buyers(3)
	ask := func(token, language string) sandboxtest.Reply {
		return h.call("GET", "/api/sales/"+sale+"/captcha?kind=words", token, "", "Accept-Language", language)
	}
	var in struct{ Question string }
	zh := ask(tokens[0], "zh-CN")
	if zh.Read(t, &in); !strings.Contains(in.Question, "万") || zh.Header.Get("Cache-Control") != "no-store" || zh.Header.Get("X-Captcha-Answer") != "" {
		t.Errorf("in Chinese: %q %v", in.Question, zh.Header)
	}
	if ask(tokens[1], "en-GB").Read(t, &in); !strings.Contains(in.Question, " thousand ") {
		t.Errorf("in English: %q", in.Question)
	}
	r := ask(tokens[1], "en-GB")
	if r.Status != 429 || r.Code != "too_many" || r.Header.Get("Retry-After") != "5" {
		t.Errorf("the second at once: %d %s, again in %s; want 429 and 5", r.Status, r.Code, r.Header.Get("Retry-After"))
	}
	if r := h.call("GET", "/api/sales/"+sale+"/captcha", tokens[1], ""); r.Header.Get("Content-Type") != "image/png" {
		t.Errorf("a picture in between: %d %s", r.Status, r.Code)
	}
	if r := ask(tokens[2], "en-GB"); r.Code != "ok" {
		t.Errorf("somebody else: %d %s", r.Status, r.Code)
	}
	if r := h.call("GET", "/api/sales/"+sale+"/captcha?kind=song", tokens[2], ""); r.Code != "bad_request" {
		t.Errorf("another kind: %d %s", r.Status, r.Code)
	}
	if r := ask("", "en-GB"); r.Code != "not_logged_in" {
		t.Errorf("nobody: %d %s", r.Status, r.Code)
	}
}

// A stream ends with the session it was opened in, within two seconds, wherever that was ended.
func TestLatencyUntilEventsEndWithTheSession(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	other := house{sandboxtest.Open(t, h.env), t, h.env}
	sale, me := h.sale(), h.account("13811112222")
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/api/sales/"+sale+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+me)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	time.AfterFunc(20*time.Second, func() { resp.Body.Close() })
	if r := other.call("POST", "/api/logout", me, ""); r.Code != "ok" {
		t.Fatalf("%d %s", r.Status, r.Code)
	}
	began := time.Now()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || time.Since(began) > sandboxtest.Within(2*time.Second+500*time.Millisecond) {
		t.Errorf("%v, %v after the log-out; want the end of the stream", err, time.Since(began))
	}
}

// A listener hears the result and what is left without asking.
func TestEventsTellResultAndLeft(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	sale := h.sale("--stock", "2")
	me := h.buyers(1)[0]
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.URL+"/api/sales/"+sale+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+me)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() (event, data string) {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = rest
			} else if rest, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return event, rest
			}
		}
		t.Fatal("the stream ended")
		return "", ""
	}
	if event, data := next(); event != "result" || !strings.Contains(data, `"none"`) {
		t.Errorf("first %s %s", event, data)
	}
	if event, data := next(); event != "left" || data != `{"left":2}` {
		t.Errorf("second %s %s", event, data)
	}
	order := h.order(sale, me)
	var told, left bool
	for !told || !left {
		switch event, data := next(); event {
		case "result":
			told = told || strings.Contains(data, order)
		case "left":
			left = left || data == `{"left":1}`
		}
	}
}

func TestPagesAreCachedAndCompressed(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	for _, page := range []string{"/", "/sale.html", "/login.html", "/orders.html", "/order.html", "/pay.html"} {
		r := h.call("GET", page, "", "", "Accept-Encoding", "gzip")
		etag := r.Header.Get("ETag")
		if r.Status != 200 || r.Header.Get("Content-Encoding") != "gzip" || r.Header.Get("Cache-Control") != "no-cache" || etag == "" {
			t.Errorf("%s: %d %v", page, r.Status, r.Header)
		}
		if r := h.call("GET", page, "", "", "If-None-Match", etag); r.Status != 304 || len(r.Raw) != 0 {
			t.Errorf("%s again: %d", page, r.Status)
		}
		plain := h.call("GET", page, "", "", "Accept-Encoding", "identity")
		if plain.Header.Get("Content-Encoding") != "" || !strings.Contains(string(plain.Raw), "</html>") {
			t.Errorf("%s plain: %v", page, plain.Header)
		}
		assets := 0
		for _, part := range strings.Split(string(plain.Raw), `"`) {
			if !strings.HasPrefix(part, "/static/") {
				continue
			}
			assets++
			for _, coding := range []string{"zstd", "gzip", "identity", "zstd;q=0, gzip"} {
				a := h.call("GET", part, "", "", "Accept-Encoding", coding)
				want := strings.TrimPrefix(coding, "zstd;q=0, ")
				if got := a.Header.Get("Content-Encoding"); a.Status != 200 || got != want && !(got == "" && (want == "identity" || len(a.Raw) < 500)) {
					t.Errorf("%s as %s: %d %v", part, coding, a.Status, a.Header)
				}
				if !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
					t.Errorf("%s: %v", part, a.Header)
				}
			}
		}
		if assets == 0 {
			t.Errorf("%s has no assets", page)
		}
	}
	r := h.call("GET", "/", "", "", "Accept-Encoding", "identity")
	for _, part := range []string{" style=", "<script>", " onclick=", "javascript:"} {
		if strings.Contains(string(r.Raw), part) {
			t.Errorf("the page has %s, which its policy forbids", part)
		}
	}
}

func TestOpsAreBesideTheShop(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	h.order(h.sale(), h.buyers(1)[0])
	var ops string
	for until := time.Now().Add(sandboxtest.Within(5 * time.Second)); ops == "" && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		_, rest, _ := strings.Cut(h.Say.String(), "metrics, health")
		ops, _, _ = strings.Cut(strings.TrimSpace(rest), "\n")
	}
	for path, want := range map[string]string{"/metrics": "miaosha_tickets_granted_total 1\n", "/healthz": "ok", "/readyz": `"postgres":"ok"`, "/debug/pprof/": "goroutine"} {
		if r := sandboxtest.Call("GET", ops+path, "", ""); r.Status != 200 || !strings.Contains(string(r.Raw), want) {
			t.Errorf("%s%s: %d, want 200 with %q", ops, path, r.Status, want)
		}
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/"} {
		if r := h.call("GET", path, "", ""); r.Status != 404 {
			t.Errorf("the shop answers %s with %d", path, r.Status)
		}
	}
}

// A connection beyond the bound is told busy; when another closes there is room again.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_MAX_CONNS=2")
	open := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(h.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET /api/slots HTTP/1.1\r\nHost: x\r\n\r\n")
		return c
	}
	status := func(c net.Conn, within time.Duration) (int, error) {
		c.SetReadDeadline(time.Now().Add(within))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err
		}
		r.Body.Close()
		return r.StatusCode, nil
	}
	http.DefaultClient.CloseIdleConnections() // the test's own, from when the shop was waited for
	first, second := open(), open()
	for _, c := range []net.Conn{first, second} {
		if got, err := status(c, 5*time.Second); got != 200 {
			t.Fatalf("within the bound: %d, %v", got, err)
		}
	}
	if r := h.call("GET", "/api/slots", "", "", "Connection", "close"); r.Status != 503 || r.Code != "busy" || r.Header.Get("Retry-After") == "" {
		t.Errorf("beyond the bound: %d %s", r.Status, r.Code)
	}
	first.Close()
	for until := time.Now().Add(sandboxtest.Within(5 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		third := open()
		got, err := status(third, 5*time.Second)
		if got == 200 {
			break
		}
		if third.Close(); time.Now().After(until) {
			t.Fatalf("after another has closed: %d, %v", got, err)
		}
	}
}

// Who asks again when he is told to keeps within the limit, however long the queue stands still.
func TestAskingAsToldIsNeverTooOften(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	sale, me := h.sale("--stock", "5"), h.buyers(1)[0]
	h.order(sale, h.buyers(1)[0]) // opens the gate
	_, dsn, _ := strings.Cut(h.env[0], "=")
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `begin; select from sales where id = `+sale+` for update`); err != nil {
		t.Fatal(err)
	}
	r := h.call("POST", "/api/sales/"+sale+"/buy/"+h.address(sale, me), me, "")
	if r.Status != 202 {
		t.Fatalf("buy: %d %s", r.Status, r.Code)
	}
	for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
		var st struct {
			Next int `json:"next_poll_ms"`
		}
		r.Read(t, &st)
		time.Sleep(time.Duration(st.Next) * time.Millisecond)
		if r = h.call("GET", "/api/sales/"+sale+"/result", me, ""); r.Status != 200 {
			t.Fatalf("asked again after %d ms: %d %s", st.Next, r.Status, r.Code)
		}
	}
}
