package web_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

const firstPassword = "first password"

// account registers a phone and gives the token of the session that begins with it.
func (h house) account(phone string) (token string) {
	h.t.Helper()
	if r := h.call("POST", "/api/otp", "", fmt.Sprintf(`{"phone":%q}`, phone)); r.Code != "ok" {
		h.t.Fatalf("code: %d %s", r.Status, r.Raw)
	}
	return h.tokenIn(h.call("POST", "/api/register", "", fmt.Sprintf(`{"phone":%q,"code":%q,"password":%q,"nickname":"n"}`,
		phone, codeIn(h.t, h, phone), firstPassword)))
}

// login gives the token of a new session; headers may bring an old one.
func (h house) login(phone, password string, headers ...string) (token string) {
	h.t.Helper()
	return h.tokenIn(h.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password), headers...))
}

func (h house) tokenIn(r sandboxtest.Reply) string {
	h.t.Helper()
	var in struct{ Token string }
	if r.Code != "ok" {
		h.t.Fatalf("log-in: %d %s", r.Status, r.Raw)
	}
	r.Read(h.t, &in)
	return in.Token
}

func (h house) open(token string) bool { return h.call("GET", "/api/me", token, "").Code == "ok" }

// A token that somebody else may have put into the browser is worth nothing after the log-in: there is a new one of 256
// bits, and the old one ends.
func TestLogInBeginsUnderANewToken(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	first := h.account("13811112222")
	planted := strings.Repeat("A", 43)
	for _, c := range []struct {
		name    string
		old     string
		headers []string
	}{
		{"a cookie", first, []string{"Cookie", "session=" + first}},
		{"a header", "", []string{"Authorization", "Bearer %s"}},
		{"one that a stranger made up", planted, []string{"Cookie", "session=" + planted}},
	} {
		if c.old == "" {
			c.old = h.login("13811112222", firstPassword)
			c.headers[1] = fmt.Sprintf(c.headers[1], c.old)
		}
		token := h.login("13811112222", firstPassword, c.headers...)
		if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 32 || token == c.old {
			t.Errorf("%s: the new token %q is of %d bytes, %v; want 32 other ones", c.name, token, len(raw), err)
		}
		if !h.open(token) || h.open(c.old) {
			t.Errorf("%s: the new session is open: %t, the old one: %t; want true, false", c.name, h.open(token), h.open(c.old))
		}
	}
}

// Over TLS, which here a proxy speaks for us, the cookie is the browser's and this site's alone.
func TestTheCookieOverTLS(t *testing.T) {
	t.Parallel()
	h := openHouse(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8")
	h.account("13811112222")
	r := h.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, firstPassword), "X-Forwarded-Proto", "https")
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d %s, cookies %v", r.Status, r.Code, cookies)
	}
	c := cookies[0]
	if c.Name != "__Host-session" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %s", c)
	}
	me := func(cookie string) string {
		return h.call("GET", "/api/me", "", "", "X-Forwarded-Proto", "https", "Cookie", cookie+"="+c.Value).Code
	}
	if me("__Host-session") != "ok" || me("session") != "not_logged_in" {
		t.Errorf("with the cookie: %s; under the name that any site's neighbour may set: %s", me("__Host-session"), me("session"))
	}
}

// Nothing of an address is taken for a session, however it is spelled.
func TestNoSessionInAnAddress(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	token := h.account("13811112222")
	for _, query := range []string{"token=", "session=", "__Host-session=", "access_token=", "Authorization=Bearer%20", "cookie=session%3D"} {
		if r := h.call("GET", "/api/me?"+query+token, "", ""); r.Code != "not_logged_in" {
			t.Errorf("?%s: %d %s", query, r.Status, r.Code)
		}
	}
	if !h.open(token) {
		t.Error("and the token is nobody's anyway")
	}
}

// Logging out and changing the password end every session of the user within two seconds, in the process that was asked
// and in one that has just used it.
func TestLatencyUntilSessionsEndEverywhere(t *testing.T) {
	t.Parallel()
	h := openHouse(t)
	other := house{sandboxtest.Open(t, h.env), t, h.env}
	mine := h.account("13811112222")
	stranger := h.account("13811113333")
	admin := func(string) {
		sandboxtest.MustCommand(t, h.env, "admin", "--phone", "13811112222")
	}
	for _, c := range []struct {
		name   string
		end    func(token string)
		spared bool // the session that asked
	}{
		{"a new password", func(token string) {
			if r := h.call("POST", "/api/password", token, fmt.Sprintf(`{"old":%q,"new":%q}`, firstPassword, firstPassword+"!")); r.Code != "ok" {
				t.Fatalf("%d %s", r.Status, r.Raw)
			}
			if r := h.call("POST", "/api/password", token, fmt.Sprintf(`{"old":%q,"new":%q}`, firstPassword+"!", firstPassword)); r.Code != "ok" {
				t.Fatalf("back again: %d %s", r.Status, r.Raw)
			}
		}, true},
		{"a log-out", func(token string) {
			if r := h.call("POST", "/api/logout", token, ""); r.Code != "ok" {
				t.Fatalf("%d %s", r.Status, r.Raw)
			}
		}, false},
		{"a new role", admin, false},
	} {
		phone, desk := h.login("13811112222", firstPassword), other.login("13811112222", firstPassword)
		mine = h.login("13811112222", firstPassword, "Cookie", "session="+mine)
		ended := []string{phone, desk}
		if !c.spared {
			ended = append(ended, mine)
		}
		for _, at := range []house{h, other} {
			for _, token := range append(ended, mine, stranger) {
				if !at.open(token) {
					t.Fatalf("%s: no session before", c.name)
				}
			}
		}
		c.end(mine)
		began := time.Now()
		if c.name != "a new role" && (h.open(phone) || h.open(desk)) {
			t.Errorf("%s: the process that was asked has a session still", c.name)
		}
		for _, token := range ended {
			for h.open(token) || other.open(token) {
				if since := time.Since(began); since > sandboxtest.Within(2*time.Second+200*time.Millisecond) { // and the time a question takes
					t.Fatalf("%s: a session goes on after %v", c.name, since)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		t.Logf("%s: gone everywhere after %v", c.name, time.Since(began))
		for _, at := range []house{h, other} {
			if !at.open(stranger) || at.open(mine) != c.spared {
				t.Errorf("%s: a stranger's session is open: %t, the one that asked: %t", c.name, at.open(stranger), at.open(mine))
			}
		}
	}
}
