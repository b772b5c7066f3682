package web_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// phones counts the phones of tests that share a shop.
var phones atomic.Int64

// newPhone returns a phone that no other test has.
func newPhone() string { return fmt.Sprintf("1371111%04d", phones.Add(1)) }

func TestAccountFromFirstCodeToNewPassword(t *testing.T) {
	t.Parallel()
	shop, phone := sharedShop(t), newPhone()
	browser := "" // its cookie
	register := func(phone, code string) sandboxtest.Reply {
		return shop.insist("/api/register", "", fmt.Sprintf(`{"phone":%q,"code":%q,"password":"first password","nickname":"小明"}`, phone, code), "Cookie", browser)
	}
	var sent struct {
		ExpiresIn int     `json:"expires_in"`
		DevCode   *string `json:"dev_code"`
	}
	asked := shop.insist("/api/otp", "", fmt.Sprintf(`{"phone":%q}`, phone))
	asked.Read(t, &sent)
	if sent.ExpiresIn != 300 || sent.DevCode != nil {
		t.Fatalf("a shop with stores of its own answers %+v, want no code", sent)
	}
	code := codeIn(t, shop, phone)
	for _, browser = range []string{"", "code=" + strings.Repeat("A", 26)} {
		if r := register(phone, code); r.Code != "wrong_code" {
			t.Fatalf("the right code in another browser: %d %s", r.Status, r.Raw)
		}
	}
	browser = asked.Cookies()
	r := register(phone, code)
	if r.Code != "ok" {
		t.Fatalf("register: %d %s", r.Status, r.Raw)
	}
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 2 {
		t.Fatalf("cookies %v, want two", cookies)
	}
	if cookies[0].Name != "session" || cookies[1].Name != "device" {
		t.Errorf("cookies %v, want session and device", cookies)
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %v, want HttpOnly and SameSite=Lax", c)
	}
	if r := register(phone, code); r.Code != "wrong_code" {
		t.Errorf("a code used twice: %d %s", r.Status, r.Code)
	}
	var me struct {
		UserID                int64 `json:"user_id"`
		Phone, Nickname, Role string
		Token                 string
	}
	shop.call("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value).Read(t, &me)
	if diff := cmp.Diff([]string{phone[:3] + "****" + phone[7:], "小明", "buyer"}, []string{me.Phone, me.Nickname, me.Role}); diff != "" {
		t.Errorf("me (-want +got):\n%s", diff)
	}
	login := func(password string) sandboxtest.Reply {
		return shop.insist("/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password))
	}
	login("first password").Read(t, &me)
	if r := shop.insist("/api/password", me.Token, `{"old":"first password","new":"second password"}`); r.Code != "ok" {
		t.Fatalf("password: %d %s", r.Status, r.Raw)
	}
	if r := shop.call("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value); r.Code != "not_logged_in" {
		t.Errorf("the other session goes on: %d %s", r.Status, r.Code)
	}
	if r := shop.call("GET", "/api/me", me.Token, ""); r.Code != "ok" {
		t.Errorf("the session that changed it ended: %d %s", r.Status, r.Code)
	}
	if r := login("first password"); r.Code != "wrong_password" {
		t.Errorf("the old password: %d %s", r.Status, r.Code)
	}
	if r := shop.call("POST", "/api/logout", me.Token, ""); r.Code != "ok" {
		t.Errorf("log out: %d %s", r.Status, r.Code)
	}
	if r := shop.call("GET", "/api/me", me.Token, ""); r.Code != "not_logged_in" {
		t.Errorf("after log-out: %d %s", r.Status, r.Code)
	}
}

// codeIn returns the last code that --sms console has printed for a phone.
func codeIn(t *testing.T, shop testShop, phone string) (code string) {
	t.Helper()
	digits := regexp.MustCompile(`\d+`)
	sandboxtest.Until(t, "a code for "+phone, func() bool {
		for _, line := range strings.Split(shop.Log.String(), "\n") {
			if !strings.Contains(line, phone) {
				continue
			}
			for _, number := range digits.FindAllString(line, -1) {
				if len(number) == 6 {
					code = number
				}
			}
		}
		return code != ""
	})
	return code
}

const firstPassword = "first password"

// account registers a phone and returns the token of its first session.
func (shop testShop) account(phone string) (token string) {
	shop.t.Helper()
	asked := shop.insist("/api/otp", "", fmt.Sprintf(`{"phone":%q}`, phone))
	if asked.Code != "ok" {
		shop.t.Fatalf("code: %d %s", asked.Status, asked.Raw)
	}
	return shop.tokenIn(shop.insist("/api/register", "", fmt.Sprintf(`{"phone":%q,"code":%q,"password":%q,"nickname":"n"}`,
		phone, codeIn(shop.t, shop, phone), firstPassword), "Cookie", asked.Cookies()))
}

// login returns the token of a new session. The headers may have an old one.
func (shop testShop) login(phone, password string, headers ...string) (token string) {
	shop.t.Helper()
	return shop.tokenIn(shop.insist("/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password), headers...))
}

// tokenIn returns the token in the answer to a log-in.
func (shop testShop) tokenIn(r sandboxtest.Reply) string {
	shop.t.Helper()
	var in struct{ Token string }
	if r.Code != "ok" {
		shop.t.Fatalf("log-in: %d %s", r.Status, r.Raw)
	}
	r.Read(shop.t, &in)
	return in.Token
}

// open reports whether a session is valid.
func (shop testShop) open(token string) bool {
	return shop.call("GET", "/api/me", token, "").Code == "ok"
}

// Another person may have put a token into the browser. It is worth nothing after the log-in: the
// session has a new token of 256 bits, and the old one ends.
func TestLogInBeginsUnderANewToken(t *testing.T) {
	t.Parallel()
	shop, phone := sharedShop(t), newPhone()
	first := shop.account(phone)
	planted := strings.Repeat("A", 43)
	for _, c := range []struct {
		name    string
		old     string
		headers []string
	}{
		{"a cookie", first, []string{"Cookie", "session=" + first}},
		{"a header", "", []string{"Authorization", "Bearer %s"}},
		{"a token that a stranger made up", planted, []string{"Cookie", "session=" + planted}},
	} {
		if c.old == "" {
			c.old = shop.login(phone, firstPassword)
			c.headers[1] = fmt.Sprintf(c.headers[1], c.old)
		}
		token := shop.login(phone, firstPassword, c.headers...)
		if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 32 {
			t.Errorf("%s: the new token %q has %d bytes, %v; want 32", c.name, token, len(raw), err)
		}
		if token == c.old {
			t.Errorf("%s: the token is the old one", c.name)
		}
		if !shop.open(token) || shop.open(c.old) {
			t.Errorf("%s: the new session is open: %t, the old one: %t; want true, false", c.name, shop.open(token), shop.open(c.old))
		}
	}
}

// Over TLS, which a proxy speaks here, only this browser and this site can use the cookie.
func TestTheCookieOverTLS(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8")
	shop.account("13811112222")
	r := shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, firstPassword), "X-Forwarded-Proto", "https")
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 2 {
		t.Fatalf("%d %s, cookies %v", r.Status, r.Code, cookies)
	}
	if d := cookies[1]; d.Name != "__Host-device" || !d.Secure || !d.HttpOnly || d.Path != "/" || d.Domain != "" || d.SameSite != http.SameSiteStrictMode {
		t.Errorf("the device's cookie is %v", d)
	}
	c := cookies[0]
	checkSecureCookie(t, c)
	me := func(cookie string) string {
		return shop.call("GET", "/api/me", "", "", "X-Forwarded-Proto", "https", "Cookie", cookie+"="+c.Value).Code
	}
	if me("__Host-session") != "ok" || me("session") != "not_logged_in" {
		t.Errorf("with the cookie: %s; with a name that another host can set: %s", me("__Host-session"), me("session"))
	}
}

// The shop takes no session from a URL, whatever the parameter is called.
func TestNoSessionInAnAddress(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	token := shop.tokens(1)[0]
	for _, query := range []string{"token=", "session=", "__Host-session=", "access_token=", "Authorization=Bearer%20", "cookie=session%3D"} {
		if r := shop.call("GET", "/api/orders?"+query+token, "", ""); r.Code != "not_logged_in" {
			t.Errorf("?%s: %d %s", query, r.Status, r.Code)
		}
	}
	if !shop.open(token) {
		t.Error("the token is not valid in a header either")
	}
}

// A log-out, a new password and a new role end the sessions of a user: in the process that did it, and in another one
// which has just used them. make latency has how soon.
func TestSessionsEndEverywhere(t *testing.T) {
	t.Parallel()
	openShop(t, "MIAOSHA_RATE=off").endSessions()
}

// endSessions ends the sessions of a user in three ways, and returns how long each took until they were gone in
// another process.
func (shop testShop) endSessions() (took map[string]time.Duration) {
	t := shop.t
	t.Helper()
	took = map[string]time.Duration{}
	other := shop.another()
	mine := shop.account("13811112222")
	stranger := shop.account("13811113333")
	admin := func(string) {
		sandboxtest.MustCommand(t, shop.env, "admin", "--phone", "13811112222")
	}
	for _, c := range []struct {
		name   string
		end    func(token string)
		spared bool // the session that made the request
	}{
		{"a new password", func(token string) {
			if r := shop.insist("/api/password", token, fmt.Sprintf(`{"old":%q,"new":%q}`, firstPassword, firstPassword+"!")); r.Code != "ok" {
				t.Fatalf("%d %s", r.Status, r.Raw)
			}
			if r := shop.insist("/api/password", token, fmt.Sprintf(`{"old":%q,"new":%q}`, firstPassword+"!", firstPassword)); r.Code != "ok" {
				t.Fatalf("back again: %d %s", r.Status, r.Raw)
			}
		}, true},
		{"a log-out", func(token string) {
			if r := shop.call("POST", "/api/logout", token, ""); r.Code != "ok" {
				t.Fatalf("%d %s", r.Status, r.Raw)
			}
		}, false},
		{"a new role", admin, false},
	} {
		phone, laptop := shop.login("13811112222", firstPassword), other.login("13811112222", firstPassword)
		mine = shop.login("13811112222", firstPassword, "Cookie", "session="+mine)
		ended := []string{phone, laptop}
		if !c.spared {
			ended = append(ended, mine)
		}
		for _, at := range []testShop{shop, other} {
			for _, token := range append(ended, mine, stranger) {
				if !at.open(token) {
					t.Fatalf("%s: no session before", c.name)
				}
			}
		}
		c.end(mine)
		began := time.Now()
		if c.name != "a new role" && (shop.open(phone) || shop.open(laptop)) {
			t.Errorf("%s: a session goes on in the process that ended it", c.name)
		}
		for _, token := range ended {
			sandboxtest.Until(t, c.name+" ends every session", func() bool { return !shop.open(token) && !other.open(token) })
		}
		took[c.name] = time.Since(began)
		for _, at := range []testShop{shop, other} {
			if !at.open(stranger) || at.open(mine) != c.spared {
				t.Errorf("%s: a stranger's session is open: %t, that of the request: %t", c.name, at.open(stranger), at.open(mine))
			}
		}
	}
	return took
}

// checkSecureCookie checks that a session's cookie is for this host, TLS and HTTP only.
func checkSecureCookie(t *testing.T, c *http.Cookie) {
	t.Helper()
	got := http.Cookie{Name: c.Name, Path: c.Path, Domain: c.Domain, Secure: c.Secure, HttpOnly: c.HttpOnly, SameSite: c.SameSite}
	want := http.Cookie{Name: "__Host-session", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the cookie (-want +got):\n%s", diff)
	}
}

// Clients log in with the old password, again and again, while it is changed. When the change is
// answered, a log-in that began before it is under way; none of them has a session afterwards.
func TestANewPasswordEndsLogInsUnderWay(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8") // the clients have addresses, and so limits, of their own
	token := shop.account("13811112222")
	var changed atomic.Bool
	var mu sync.Mutex
	var tokens []string
	answers := map[string]int{}
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			for !changed.Load() {
				r := shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, firstPassword),
					"X-Forwarded-For", fmt.Sprint("203.0.113.", i))
				mu.Lock()
				if answers[r.Code]++; r.Code == "ok" {
					tokens = append(tokens, shop.tokenIn(r))
				}
				mu.Unlock()
			}
		})
	}
	sandboxtest.Until(t, "a log-in with the old password", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(tokens) > 0
	})
	r := shop.insist("/api/password", token, fmt.Sprintf(`{"old":%q,"new":"second password"}`, firstPassword))
	changed.Store(true)
	clients.Wait()
	if r.Code != "ok" {
		t.Fatalf("change: %d %s", r.Status, r.Raw)
	}
	open := 0
	for _, token := range tokens {
		if shop.open(token) {
			open++
		}
	}
	t.Logf("answers to log-ins with the old password: %v", answers)
	if len(tokens) == 0 {
		t.Error("nobody logged in with the old password")
	}
	if open > 0 {
		t.Errorf("%d of %d sessions of the old password go on after the change", open, len(tokens))
	}
	if !shop.open(token) {
		t.Error("the session that made the change ended")
	}
	shop.login("13811112222", "second password")
}

// A visitor is told null, and only a visitor: any credential is judged, and an outage is no visitor.
func TestMeOfAVisitor(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(stores[1], "REDIS_URL="))
	shop := openShop(t, stores[0], stores[1], "SESSION_REDIS_URL="+through)
	token := shop.account("13811112222")
	me := func(headers ...string) string {
		r := shop.call("GET", "/api/me", "", "", headers...)
		return outcome(r) + " " + string(r.Data)
	}
	if got := me(); got != "200 ok null" {
		t.Errorf("without a credential: %s", got)
	}
	if got := me("Cookie", "theme=dark; obsession=x; session_of=y"); got != "200 ok null" {
		t.Errorf("with other cookies: %s", got)
	}
	for _, wrong := range []string{"Authorization: Basic eDp5", "Authorization: ", "Cookie: session=", "Cookie: session", `Cookie: a=b; session=a"b`, "Cookie: __Host-session=a\\b"} {
		header, value, _ := strings.Cut(wrong, ": ")
		if got := me(header, value); got != "401 not_logged_in " {
			t.Errorf("with %s: %s", wrong, got)
		}
	}
	for _, of := range []string{"garbage", strings.Repeat("A", 43), token + "A"} {
		for header, value := range map[string]string{"Authorization": "Bearer " + of, "Cookie": "session=" + of} {
			if got := me(header, value); got != "401 not_logged_in " {
				t.Errorf("with %s: %s: %s", header, value, got)
			}
		}
	}
	if got := me("Authorization", "Bearer "+token); !strings.HasPrefix(got, `200 ok {"user_id":`) {
		t.Errorf("with a session: %s", got)
	}
	proxy.Cut()
	if got := me("Cookie", "session="+strings.Repeat("B", 43)); got != "503 busy " {
		t.Errorf("with a token that nothing can judge: %s", got)
	}
	if got := me(); got != "200 ok null" {
		t.Errorf("without a credential, while Redis is away: %s", got)
	}
}
