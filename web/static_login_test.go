package web_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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
	s := sharedSandbox(t)
	phone := s.account(t, "N")
	for language, note := range map[string]string{"en-GB": "The shop is crowded. Solve the sum to continue.", "zh-CN": "现在人很多，请先算一道题。"} {
		v := visit(t, root, s.atAFullDoor(t), language)
		v.goTo("/login.html")
		v.types("phone", phone)
		v.types("password", "a long password\r")
		v.sees(test("captcha-img"))
		if got := v.reads(test("note")); got != note {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.failsASum()
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		v.types("captcha-input", v.sum(s, "0", "sum")+"\r")
		v.sees(test("sale-card"))
		v.hasNoErrors()
	}
}

// When strangers have used up the shop's budgets of codes, the page shows a sum before it sends a code, and one before it
// registers. A field that the shop refuses has the reason below it.
func TestTheRegisterPageShowsASumWhenBudgetsAreUsedUp(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	for _, budget := range []string{"ms:limit:otp:all", "ms:limit:register:all"} {
		if err := s.redis.Set(t.Context(), budget, time.Now().Add(time.Hour).UnixMilli(), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for language, note := range map[string]string{"en-GB": "The shop is crowded. Solve the sum to continue.", "zh-CN": "现在人很多，请先算一道题。"} {
		v := visit(t, root, s.URL, language)
		v.goTo("/login.html?register")
		v.types("phone", newPhone())
		v.clicks("send-code")
		v.sees(test("captcha-img"))
		if got := v.reads(test("note")); got != note {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.failsASum()
		v.types("captcha-input", v.sum(s, "0", "sum")+"\r")
		v.until("the code is in its field, with the cursor", `document.activeElement.id === 'code' && document.activeElement.value.length === 6`)
		v.types("nickname", "admin")
		v.types("password", "123\r")
		v.sees("#password-error")
		v.until("the cursor is in the first wrong field", `document.activeElement.id === 'password'`)
		v.types("password", "45678\r")
		v.until("the cursor is in the wrong field", `document.activeElement.id === 'nickname'`)
		v.types("nickname", "na\r")
		v.sees(test("captcha-img"))
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		v.retypes("nickname", "admin")
		v.types("captcha-input", v.sum(s, "0", "sum")+"\r")
		v.sees("#nickname-error")
		v.retypes("nickname", "na")
		v.clicks("captcha-submit") // a refused field has not used up the sum
		v.sees(test("sale-card"))
		v.hasNoErrors()
	}
}

// Who has forgotten the password sets a new one with a code, which logs them out everywhere else. A shop that sends no codes says so.
func TestAForgottenPasswordIsSetByCode(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s, phone := sharedSandbox(t), newPhone()
	first, v := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "en-GB")
	first.goTo("/login.html")
	first.registers(phone, "小明")
	first.sees(test("sale-card"))

	v.emulates(320, 800, "prefers-color-scheme", "dark")
	v.goTo("/login.html?next=%2Faccount.html")
	v.types("password", "not this one")
	v.clicks("to-forgot")
	v.types("phone", newPhone())
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", "another password\r")
	v.sees("#phone-error") // there is no account
	v.goTo("/login.html?forgot&next=%2Faccount.html")
	v.types("phone", phone)
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", "short\r")
	v.sees("#password-error")
	v.fits(320)
	v.shoots("login-forgot-phone-en-dark")
	v.types("password", " no more\r")
	v.shows("my-nickname", "小明")
	v.hasNoErrors()

	first.goTo("/account.html")
	first.sees(chromedp.CSS(`main a[href^="/login.html"]`))
	first.goTo("/login.html?next=%2Faccount.html")
	first.types("phone", phone)
	first.types("password", "a long password\r")
	first.sees(test("note"))
	first.retypes("password", "short no more\r")
	first.shows("my-nickname", "小明")
	first.hasNoErrors()

	none := visit(t, root, s.rewritten(t, "<html", "<html data-no-codes"), "zh-CN") // as with --sms off
	none.goTo("/login.html?forgot")
	none.shows("no-codes", "本店不发送短信验证码，所以不能在这里重设密码。请联系店铺。")
	none.until("there is no form", `document.querySelector('form').hidden`)
	none.clicks("tab-login")
	none.sees(test("submit-login"))
}

// rewritten returns the URL of a proxy to the shop that replaces a text of the pages.
func (s sandboxShop) rewritten(t *testing.T, old, new string) string {
	t.Helper()
	shop, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(shop)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		body = []byte(strings.Replace(string(body), old, new, 1))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Accept-Encoding", "identity")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A log-out that did not reach every device says so.
func TestAnUnfinishedLogOutIsSaid(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	phone := s.account(t, "N")
	for language, note := range map[string]string{"en-GB": "You may still be logged in on some devices.", "zh-CN": "部分设备可能仍处于登录状态。"} {
		v := visit(t, root, s.busyOnce(t, "/api/logout", `{"code":"busy","msg":"..."}`), language)
		v.goTo("/login.html")
		v.types("phone", phone)
		v.types("password", "a long password\r")
		v.sees(test("sale-card"))
		v.clicks("logout")
		v.sees(test("note"))
		if got := v.reads(test("note")); !strings.HasPrefix(got, note) {
			t.Errorf("the note is %q, want %q", got, note)
		}
		v.hasNoErrors()
	}
}

// The rules of a form are shown before, and all wrong fields at once, each with what it needs, in the visitor's language. The
// first one has the cursor. A visitor who has done nothing wrong has nothing in the console of the browser.
func TestEveryWrongFieldIsMarked(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	type marks struct{ Invalid, Described, Errors, Focus string }
	shown := func(v *visitor) (m marks) {
		t.Helper()
		v.until("a field is marked and has the cursor", `document.activeElement.getAttribute('aria-invalid') === 'true'`)
		return ask(v, "read the marks", here[marks](`(() => {
			const inputs = [...document.querySelectorAll('form input')].filter((i) => i.getAttribute('aria-invalid') === 'true');
			const described = inputs.map((i) => i.getAttribute('aria-describedby').split(' '));
			return {
				Invalid: inputs.map((i) => i.id).join(), Focus: document.activeElement.id,
				Described: String(described.flat().every((id) => document.getElementById(id).innerText.length > 3)),
				Errors: described.map((ids) => document.getElementById(ids.find((id) => id.endsWith('-error'))).innerText).join('|'),
			};
		})()`))
	}
	for language, want := range map[string]struct{ rule, register, login string }{
		"en-GB": {"8 to 72 characters of any kind.",
			"A phone number must have 11 digits and begin with 13 to 19|The code must be 6 digits|A password must have 8 to 72 characters|This looks like a staff name; choose another one",
			"Required|Required"},
		"zh-CN": {"8 到 72 个字符，汉字、字母、数字和符号都可以。",
			"请填写 11 位手机号，以 13 至 19 开头|验证码是 6 位数字|密码需要 8 到 72 个字符|这个昵称像员工的名称，请换一个",
			"这一项必须填写|这一项必须填写"},
	} {
		v := visit(t, root, s.URL, language)
		v.goTo("/")
		v.sees(test("sale-card"))
		v.until("the page knows its visitor", `document.querySelector('header a[href^="/login.html"]') !== null`)
		v.hasAnEmptyConsole()

		v.goTo("/login.html?register")
		if got := v.reads("#password-rule"); got != want.rule {
			t.Errorf("the rule of a password is %q, want %q", got, want.rule)
		}
		v.types("phone", "11012345678")
		v.types("code", "12")
		v.types("password", "1234567")
		v.types("nickname", "admin\r")
		if got := shown(v); got != (marks{"phone,code,password,nickname", "true", want.register, "phone"}) {
			t.Errorf("a wrong form shows %+v", got)
		}
		v.clicks("tab-login")
		v.until("the log-in has no rules and no marks", `document.querySelector('.rule, [aria-invalid]') === null`)
		v.goTo("/login.html")
		v.clicks("submit-login")
		if got := shown(v); got != (marks{"phone,password", "true", want.login, "phone"}) {
			t.Errorf("an empty form shows %+v", got)
		}
		v.hasNoErrors()
	}

	// What the rules allow, the shop takes: a password of 30 Chinese characters.
	v := visit(t, root, s.URL, "zh-CN")
	v.goTo("/login.html?register")
	v.types("phone", newPhone())
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", strings.Repeat("口令", 15))
	v.types("nickname", "小明\r")
	v.sees(test("sale-card"))
}
