package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// busyOnce returns the URL of a proxy to the shop. After each log-in page, the first request to a path is answered busy.
func (s sandboxShop) busyOnce(t *testing.T, path, answer string) string {
	t.Helper()
	shop, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(shop)
	var busy atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login.html":
			busy.Store(true)
		case r.URL.Path == path && busy.Swap(false):
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			w.Write([]byte(answer))
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// atAFullDoor is busyOnce for a log-in when the door is full.
func (s sandboxShop) atAFullDoor(t *testing.T) string {
	return s.busyOnce(t, "/api/login", `{"code":"busy","msg":"...","captcha":true}`)
}

// When the door is full, the log-in page shows a sum below the filled form, as a picture or in words.
func TestTheLogInPageShowsASumWhenTheDoorIsFull(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	for language, note := range map[string]string{"en-GB": "Many people are here. Solve the sum to go ahead.", "zh-CN": "现在人很多，请先做一道算式。"} {
		v := visit(t, root, s.atAFullDoor(t), language)
		v.goTo("/login.html")
		v.types("phone", "13800000000")
		v.types("password", "miaosha-demo\r")
		v.sees(test("captcha-img"))
		if got := v.reads(test("note")); got != note {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.failsASum()
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		v.types("captcha-input", s.answer(t, "0")+"\r")
		v.sees(test("sale-card"))
		v.hasNoErrors()
	}
}

// When strangers have used up the shop's budgets of codes, the page shows a sum before it sends a code, and one before it
// registers. A field that the shop refuses has the reason below it.
func TestTheRegisterPageShowsASumWhenBudgetsAreUsedUp(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	for language, note := range map[string]string{"en-GB": "Many people are here. Solve the sum to go ahead.", "zh-CN": "现在人很多，请先做一道算式。"} {
		s := openSandboxShop(t)
		for _, budget := range []string{"ms:limit:otp:all", "ms:limit:register:all"} {
			if err := s.redis.Set(t.Context(), budget, time.Now().Add(time.Hour).UnixMilli(), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		v := visit(t, root, s.URL, language)
		v.goTo("/login.html?register")
		v.types("phone", "13811110013")
		v.clicks("send-code")
		v.sees(test("captcha-img"))
		if got := v.reads(test("note")); got != note {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.failsASum()
		v.types("captcha-input", s.answer(t, "0")+"\r")
		v.until("the code is in its field, with the cursor", `document.activeElement.id === 'code' && document.activeElement.value.length === 6`)
		v.types("nickname", "admin")
		v.types("password", "123\r")
		v.sees("#password-error")
		v.types("password", "45678\r")
		v.sees("#nickname-error")
		v.types("nickname", "na\r")
		v.sees(test("captcha-img"))
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		v.types("captcha-input", s.answer(t, "0")+"\r")
		v.sees(test("sale-card"))
		v.hasNoErrors()
	}
}

// A log-out that did not reach every device says so.
func TestAnUnfinishedLogOutIsSaid(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	for language, note := range map[string]string{"en-GB": "You may still be logged in on some devices.", "zh-CN": "部分设备可能仍处于登录状态。"} {
		v := visit(t, root, s.busyOnce(t, "/api/logout", `{"code":"busy","msg":"..."}`), language)
		v.goTo("/login.html")
		v.types("phone", "13800000000")
		v.types("password", "miaosha-demo\r")
		v.sees(test("sale-card"))
		v.clicks("logout")
		v.sees(test("note"))
		if got := v.reads(test("note")); !strings.HasPrefix(got, note) {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.hasNoErrors()
	}
}
