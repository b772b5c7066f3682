package web_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"miaosha/seckill/gate"
	"miaosha/seckill/sandbox/sandboxtest"
)

// person is a user of whom pages show much: a nickname, an address and an order.
type person struct {
	nickname, token string
	sale, order     string
	payment         string
	number          string   // of the order
	secrets         []string // what no page may show to another one
}

// person returns a new person, who has bought in a sale of their own.
func (s sandboxShop) person(t *testing.T, nickname string) (p person) {
	t.Helper()
	p.nickname, p.token = nickname, s.user(t).Token
	ask := func(method, path, body string) sandboxtest.Reply {
		t.Helper()
		r := sandboxtest.Call(method, s.URL+path, p.token, body)
		if r.Status >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, r.Status, r.Raw)
		}
		return r
	}
	name, phone, address := nickname+"收", newPhone(), nickname+"路 77 号"
	ask("POST", "/api/account/nickname", fmt.Sprintf(`{"nickname":%q}`, nickname))
	ask("POST", "/api/account/address", fmt.Sprintf(`{"name":%q,"phone":%q,"address":%q}`, name, phone, address))
	p.sale = s.sale(t, "--stock", "5", "--title", "茶具")
	ask("GET", "/api/sales/"+p.sale+"/captcha?kind=words", "")
	id, err := strconv.ParseInt(p.sale, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	answer, _, _ := strings.Cut(s.redis.Get(t.Context(), gate.SumOfSale(id, p.token).Key()).Val(), " ")
	path := ask("POST", "/api/sales/"+p.sale+"/path", fmt.Sprintf(`{"captcha":%q}`, answer)).Purchase().Path
	ask("POST", "/api/sales/"+p.sale+"/buy/"+path, "")
	sandboxtest.Until(t, "there is an order", func() bool {
		p.order = ask("GET", "/api/sales/"+p.sale+"/result", "").Purchase().OrderID
		return p.order != ""
	})
	p.payment = ask("POST", "/api/orders/"+p.order+"/pay", "").Purchase().PaymentID
	var order struct{ Number string }
	ask("GET", "/api/orders/"+p.order, "").Read(t, &order)
	p.number = order.Number
	p.secrets = []string{nickname, name, address, phone, p.number}
	return p
}

// isLoggedOut takes the session from the visitor's browser.
func (v *visitor) isLoggedOut() {
	v.t.Helper()
	v.do("log out", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.DeleteCookies, network.DeleteCookiesParams{Name: "session", URL: v.url})
		return err
	}))
}

// loads is goTo for a page that may differ in its hash alone.
func (v *visitor) loads(path string) {
	v.t.Helper()
	if strings.Contains(path, "#") {
		v.do("leave the page before", chromedp.Navigate("about:blank"))
	}
	v.goTo(path)
}

// has waits until a page has all of the texts, also in its fields, and is seen.
func (v *visitor) has(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		v.until("the page has "+text, pageText+`.includes(`+quoted(text)+`) && document.body.style.visibility === ''`)
	}
}

// pageText is an expression of all that a page has, also what is not seen, in attributes and in fields.
const pageText = `(document.documentElement.outerHTML + [...document.querySelectorAll('input, textarea')].map((e) => ' ' + e.value).join(''))`

// hasNone fails the test if a page has one of the texts.
func (v *visitor) hasNone(when string, texts ...string) {
	v.t.Helper()
	page := v.evaluates(pageText)
	for _, text := range texts {
		if strings.Contains(page, text) {
			v.t.Errorf("%s: the page %s has %q", when, v.evaluates("location.href"), text)
		}
	}
}

// leaves and returns are what a browser says to a page that it keeps for Back.
func (v *visitor) leaves() {
	v.t.Helper()
	v.evaluates(`dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })), ''`)
}

func (v *visitor) returns() {
	v.t.Helper()
	v.evaluates(`dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })), ''`)
}

// personalPages are all pages, with what each shows of a person.
func (p person) personalPages() map[string]string {
	return map[string]string{
		"/": p.nickname, "/sale.html?id=" + p.sale: `data-view="ordered"`, "/orders.html": `data-order="` + p.order, "/order.html?id=" + p.order: p.number,
		"/pay.html?order=" + p.order + "&payment=" + p.payment: p.number, "/account.html": p.secrets[2], "/login.html": p.nickname,
		"/lab.html": p.nickname, "/mine.html": p.nickname, "/courses.html": p.nickname, "/handout.html": p.nickname, "/class.html": p.nickname, "/live.html": p.nickname,
		"/admin.html": p.nickname, "/admin.html#ticket=" + p.order: p.order, "/no-such-page": p.nickname,
	}
}

// After a log-out, Back shows nothing of the former user: neither a page that the browser has kept, nor one that it loads.
func TestBackAfterALogOutShowsNothing(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	p := s.person(t, "赵钱孙")
	v := visit(t, root, s.URL, "zh-CN")
	for path, shown := range p.personalPages() {
		v.isLoggedIn(p.token)
		v.loads(path)
		v.has(p.nickname, shown)
		v.leaves()
		if is := v.evaluates(`getComputedStyle(document.body).visibility`); is != "hidden" {
			t.Errorf("%s is left as %q, want it hidden", path, is)
		}
		v.isLoggedOut()
		v.returns()
		v.sees(test("changed") + `, form [data-test="submit-login"]`) // that page loads again in any case
		v.hasNone("kept by the browser", p.secrets...)

		if path == "/" { // a log-out leads there
			continue
		}
		v.isLoggedIn(p.token)
		v.loads(path)
		v.has(p.nickname, shown)
		v.evaluates(`window.fetch = (path) => new Promise((done) => path === '/api/logout' && done(new Response('{"code":"ok"}'))), ''`) // no other request is faster
		v.isLoggedOut()
		v.clicks("logout")
		v.sees(test("sale-card"))
		v.hasNone("after the log-out", p.secrets...)
		v.evaluates(`setTimeout(() => history.back()), ''`) // evaluates would repeat it in the page to which it leads
		v.until("it is back", `location.pathname + location.search + location.hash === `+quoted(path)+` && document.querySelector('main:not([aria-busy])') !== null`)
		v.until("no one is logged in", `document.querySelector('header a[href^="/login.html"]') !== null || location.pathname === '/login.html'`)
		v.hasNone("loaded", p.secrets...)
		if kept := v.evaluates(`JSON.stringify([localStorage['miaosha.turns'], { ...sessionStorage }])`); strings.Contains(kept, p.order) || !strings.HasSuffix(kept, "{}]") {
			t.Errorf("the browser keeps %s", kept)
		}
	}

	// Who comes back to an own page sees it as it was left, without its passwords; and without an answer of the shop no page at all.
	v.isLoggedIn(p.token)
	v.goTo("/account.html")
	v.clicks("change-password")
	v.types("old", "a long password")
	v.leaves()
	v.returns()
	v.has(p.secrets[2])
	if typed := v.evaluates(`document.querySelector('[data-test="old"]').value`); typed != "" {
		t.Errorf("the password %q is back", typed)
	}
	v.leaves()
	v.evaluates(`window.connected = fetch, window.fetch = () => Promise.reject(new Error('no connection')), ''`)
	v.returns()
	v.until("it says why", `document.querySelector('main .blank button') !== null`)
	v.hasNone("without an answer", p.secrets...)
	v.evaluates(`window.fetch = window.connected, ''`)
	v.has(p.secrets[2]) // by itself
	v.hasNoErrors()
}

// When another user logs in in one tab, the others show nothing of the former one, and do nothing for the new one without having shown
// that one, whether they hear of it or not.
func TestTwoUsersInTwoTabs(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	one, two := s.person(t, "周吴郑"), s.person(t, "冯陈褚")
	quiet := s.user(t) // whose pages ask the shop for nothing by themselves
	if r := sandboxtest.Call("POST", s.URL+"/api/account/nickname", quiet.Token, `{"nickname":"卫蒋沈"}`); r.Code != "ok" {
		t.Fatalf("%s", r.Raw)
	}
	sale := s.sale(t, "--stock", "5", "--title", "茶壶")
	first := visit(t, root, s.URL, "en-GB")
	second := first.tab("en-GB")
	changes := func(path string) {
		t.Helper()
		first.shows("changed", "You logged in as "+two.nickname+" in another tab. This page now uses that account. OK")
		first.has(two.nickname)
		first.hasNone("after the change", append([]string{"卫蒋沈"}, one.secrets...)...)
		if at := first.evaluates(`location.pathname + location.search + location.hash`); at != path {
			t.Errorf("%s leads to %s", path, at)
		}
	}
	for path, shown := range one.personalPages() {
		first.isLoggedIn(one.token)
		first.loads(path)
		first.has(one.nickname, shown)
		first.isLoggedIn(two.token)
		second.goTo("/no-such-page") // it has another user, and tells the other tab so
		changes(path)
	}
	first.clicks("changed-seen")
	first.until("the note is gone", `document.querySelector('[data-test="changed"]') === null`)

	// No tab tells the other: the first request of the former user's page is refused.
	second.do("leave the shop", chromedp.Navigate("about:blank"))
	result := func() string {
		return sandboxtest.Call("GET", s.URL+"/api/sales/"+sale+"/result", two.token, "").Purchase().State
	}
	unheard := func(path string, act func()) {
		t.Helper()
		first.isLoggedIn(quiet.Token)
		first.goTo(path)
		first.has("卫蒋沈")
		act()
		changes(path)
	}
	unheard("/sale.html?id="+sale, func() {
		first.sees(test("buy"))
		first.isLoggedIn(two.token)
		first.clicks("buy")
	})
	unheard("/sale.html?id="+sale, func() { // in the middle of a purchase
		first.clicks("buy")
		first.sees(test("captcha-img"))
		first.isLoggedIn(two.token)
		first.types("captcha-input", first.sumOf(s, sale, quiet.Token)+"\r")
	})
	if state := result(); state != "none" {
		t.Errorf("the other user's purchase is %s, want none", state)
	}
	unheard("/account.html", func() {
		first.sees(test("session"))
		first.clicks("change-address")
		first.enters("#address", "在卫蒋沈的家里", "e.select()")
		first.isLoggedIn(two.token)
		first.clicks("save-address")
	})
	first.has(two.secrets[2])
	first.hasNone("after a refused address", "在卫蒋沈的家里")
	if r := sandboxtest.Call("GET", s.URL+"/api/account/address", two.token, ""); !strings.Contains(string(r.Raw), two.secrets[2]) {
		t.Errorf("the other user's address is %s", r.Raw)
	}
	unheard("/orders.html", func() {
		first.sees("main .blank") // what it reads by itself is read
		first.isLoggedIn(two.token)
		first.evaluates(`document.querySelector('[data-test="logout"]').click() ?? ''`) // once: the next page has such a button, too
	})
	if r := sandboxtest.Call("GET", s.URL+"/api/me", two.token, ""); r.Code != "ok" {
		t.Errorf("the former user's page has logged the other one out: %s", r.Raw)
	}

	// A visitor's page becomes the page of the user who has logged in.
	first.isLoggedOut()
	first.goTo("/sale.html?id=" + sale)
	first.sees(view("login"))
	first.isLoggedIn(two.token)
	second.goTo("/no-such-page")
	first.sees(view("open"))
	first.has(two.nickname)
	first.hasNoErrors()
}

// A page that could not learn whose it is asks again, and changes nothing before it knows.
func TestAPageThatDoesNotKnowItsUser(t *testing.T) {
	t.Parallel()
	s := sharedSandbox(t)
	one, two := s.person(t, "蒋沈韩"), s.person(t, "杨朱秦")
	v := visit(t, chromium(t), s.URL, "en-GB")
	v.before(`{
		const ask = window.fetch;
		window.fetch = (path, ...more) => (localStorage.unsure && ['/api/me', '/api/slots', '/api/account/sessions'].includes(path) ? Promise.reject(new TypeError('no network')) : ask(path, ...more));
	}`)
	fills := func() {
		t.Helper()
		v.goTo("/no-such-page") // the browser knows the user
		v.has(one.nickname)
		v.evaluates(`localStorage.unsure = '1'`)
		v.goTo("/account.html")
		v.clicks("change-address")
		v.enters("#address", "在蒋沈韩的家里", "e.select()")
	}
	v.isLoggedIn(one.token)
	fills()
	v.evaluates(`delete localStorage.unsure, ''`)
	v.has(one.nickname) // in the head, by itself
	v.becomes("what was typed", `document.querySelector('#address').value`, "在蒋沈韩的家里")
	v.do("read what could not be read", click(test("sessions-failed")+" button"))
	v.sees(test("session"))

	fills()
	v.isLoggedIn(two.token)
	v.clicks("save-address")
	v.until("it says why", `[...document.querySelectorAll('main [role="alert"]')].some((e) => e.innerText.includes('No connection'))`)
	v.evaluates(`delete localStorage.unsure, ''`)
	v.has(two.nickname, two.secrets[2])
	v.hasNone("after the change", append([]string{"在蒋沈韩的家里"}, one.secrets...)...)
	for token, address := range map[string]string{one.token: one.secrets[2], two.token: two.secrets[2]} {
		if r := sandboxtest.Call("GET", s.URL+"/api/account/address", token, ""); !strings.Contains(string(r.Raw), address) {
			t.Errorf("the address is %s, want %s", r.Raw, address)
		}
	}
	v.hasNoErrors()
}

// A log-in that ends while something is being typed takes nothing of it, until someone logs out or another one logs in.
func TestALogInThatEndsDuringAForm(t *testing.T) {
	t.Parallel()
	s := sharedSandbox(t)
	p := s.person(t, "尤许何")
	v := visit(t, chromium(t), s.URL, "en-GB")
	second := v.tab("en-GB")
	v.isLoggedIn(p.token)
	v.goTo("/account.html")
	v.clicks("change-address")
	v.enters("#address", "在尤许何的家里", "e.select()")
	v.isLoggedOut()
	v.clicks("save-address")
	v.shows("ended", "You have been logged out. What you typed is still here: log in again in a new tab, then come back and submit it. Log in")
	v.shoots("ended-en")
	second.goTo("/login.html")
	second.isLoggedIn(p.token)
	second.goTo("/no-such-page")
	second.has(p.nickname)
	v.hides(false)
	v.until("it goes on", `document.querySelector('[data-test="ended"]') === null && document.body.style.visibility === ''`)
	v.clicks("save-address")
	v.until("the address is saved", `document.querySelector('[data-test="address"]')?.innerText.includes('在尤许何的家里')`)
	v.clicks("change-address")
	v.enters("#address", "在尤许何的别处", "e.select()")
	second.clicks("logout")
	v.sees(test("changed"))
	v.hasNone("after a log-out", append([]string{"在尤许何的别处"}, p.secrets...)...)

	// A page that comes back says that it waits for the shop, and that the shop does not answer.
	p = s.person(t, "吕施张")
	v.isLoggedIn(p.token)
	v.goTo("/account.html")
	v.has(p.secrets[2])
	v.leaves()
	v.hides(false)
	v.has(p.secrets[2]) // it was not left after all
	v.leaves()
	v.evaluates(`window.answered = fetch, window.fetch = (path, { signal }) => new Promise((_, fail) => signal.addEventListener('abort', () => fail(new Error('no answer')))), ''`)
	v.returns()
	v.until("it says that it waits", `((e) => e.innerText === 'Loading…' && e.offsetHeight > 0 && getComputedStyle(e).visibility === 'visible')(document.querySelector('.doubt'))`)
	v.shoots("doubt-en")
	v.until("it says why", `document.querySelector('main .blank button') !== null && document.body.style.visibility === ''`)
	v.evaluates(`window.fetch = window.answered, ''`)
	v.has(p.secrets[2])

	// A sum on the screen is there after Back.
	sale := s.sale(t, "--stock", "5", "--title", "茶盘")
	v.goTo("/sale.html?id=" + sale)
	v.clicks("buy")
	v.sees(test("captcha-img"))
	v.leaves()
	v.returns()
	v.has(p.nickname)
	v.types("captcha-input", v.sumOf(s, sale, p.token)+"\r")
	v.sees(view("ordered"))
	v.hasNoErrors()
}
