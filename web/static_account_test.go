package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A user changes the nickname, the phone and the password on the account page, keeps an address there, sees the devices on which
// they are logged in, logs out of another one, then of this one alone, and then everywhere.
func TestTheAccountPage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s, before, after := sharedSandbox(t), newPhone(), newPhone()
	logIn := func(phone, password, agent string) (token string) {
		t.Helper()
		var in struct{ Token string }
		sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"`+phone+`","password":"`+password+`"}`, "User-Agent", agent).Read(t, &in)
		return in.Token
	}
	isIn := func(token string) string {
		return sandboxtest.Call("GET", s.URL+"/api/me", token, "").Code
	}
	v := visit(t, root, s.URL, "en-GB")
	v.emulates(320, 900, "prefers-color-scheme", "light")
	v.goTo("/login.html?next=%2Faccount.html")
	v.registers(before, "小明")
	v.shows("my-nickname", "小明")
	tablet := logIn(before, "a long password", "Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) Version/18.0 Safari/604.1")
	phone := logIn(before, "a long password", "Mozilla/5.0 (Linux; Android 14) Chrome/126.0 Mobile Safari/537.36")

	v.clicks("change-nickname")
	v.retypes("nickname", "admin\r")
	v.sees("#nickname-error")
	v.retypes("nickname", "小红\r")
	v.shows("my-nickname", "小红")
	v.shows("to-account", "小红")

	v.clicks("change-phone")
	v.types("phone", after)
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", "wrong\r")
	v.sees("#password-error")
	v.fits(320)
	v.shoots("account-phone-en-light")
	v.retypes("password", "a long password\r")
	v.shows("my-phone", after[:3]+"****"+after[7:])

	v.clicks("change-address")
	for field, text := range map[string]string{"name": "李雷", "phone": "13811112222", "address": "北京市海淀区中关村大街 1 号"} {
		v.enters(chromedp.CSS("#"+field), text, "")
	}
	v.clicks("save-address")
	v.sees(test("address"))

	v.goTo("/account.html")
	v.shows("address", "李雷 13811112222\n北京市海淀区中关村大街 1 号")
	v.until("three devices are listed, this one first", `(rows => rows.length === 3 && rows[0].dataset.current === 'true' && rows[0].innerText.includes('This device')
		&& rows.some((r) => r.innerText.includes('Safari on iPad')))([...document.querySelectorAll('[data-test="session"]')])`)
	v.evaluates(`[...document.querySelectorAll('[data-test="session"]')].find((r) => r.innerText.includes('iPad')).querySelector('button').click() ?? ''`)
	v.until("two devices are left", `document.querySelectorAll('[data-test="session"]').length === 2`)
	if !sandboxtest.Poll(func() bool { return isIn(tablet) == "not_logged_in" }) || isIn(phone) != "ok" {
		t.Errorf("the tablet: %s, the phone: %s; want it to be logged out, and it alone", isIn(tablet), isIn(phone))
	}

	v.clicks("erase-address")
	v.clicks("erase-yes") // not without a question
	v.sees(test("no-address"))

	v.clicks("change-password")
	v.types("old", "a long password")
	v.types("new", "a longer password\r")
	v.sees(test("done"))
	if code := isIn(phone); code != "not_logged_in" {
		t.Errorf("the phone after a new password: %s", code)
	}
	phone = logIn(after, "a longer password", "")
	v.clicks("lang")
	v.emulates(1280, 900, "prefers-color-scheme", "dark")
	v.shoots("account-desktop-zh-dark")
	v.clicks("logout-here")
	v.sees(test("sale-card"))
	v.until("this browser is logged out", `document.querySelector('header a[href^="/login.html"]') !== null`)
	if code := isIn(phone); code != "ok" {
		t.Errorf("the phone after a log-out here: %s", code)
	}
	v.goTo("/login.html?next=%2Faccount.html")
	v.types("phone", after)
	v.types("password", "a longer password\r")
	v.clicks("logout-everywhere")
	v.clicks("logout-everywhere-yes")
	v.sees(test("sale-card"))
	if !sandboxtest.Poll(func() bool { return isIn(phone) == "not_logged_in" }) {
		t.Errorf("the phone after a log-out everywhere: %s", isIn(phone))
	}
	v.hasNoErrors()
}
