package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// timeout stands before a shop as a proxy that, after lose(), answers the next POST with 504 when the shop has done it: in
// turn as a proxy does, and as a shop does that knows no more.
func timeout(t *testing.T, shop string) (at string, lose func()) {
	t.Helper()
	to, err := url.Parse(shop)
	if err != nil {
		t.Fatal(err)
	}
	var losing atomic.Bool
	var lost atomic.Int64
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodPost && losing.CompareAndSwap(true, false) {
				return fmt.Errorf("the answer %s is lost", r.Status)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGatewayTimeout)
			if lost.Add(1)%2 == 0 {
				fmt.Fprint(w, `{"code":"unsure","msg":"look before you try again"}`)
			}
		},
	})
	t.Cleanup(server.Close)
	return server.URL, func() { losing.Store(true) }
}

// An answer is lost in the back office: the page says that no one knows, and pressing again does nothing twice. Other
// values are refused with what was done.
func TestAnAnswerThatIsLostInTheBackOffice(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	at, lose := timeout(t, s.URL)
	sale, db := s.sale(t, "--title", "Lost", "--stock", "100"), s.connect(t)
	order := s.Buyers(t, 1, sale)[0].Order(t)
	number := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, device := range []struct {
		name, language, color, unknown, otherwise string
		width                                     int64
	}{
		{"desktop-en-light", "en-GB", "light", "It is safe to press again", "Your first attempt succeeded after all (sale " + sale + ")", 1280},
		{"phone-zh-dark", "zh-CN", "dark", "可以放心再点一次", "上一次提交其实已经生效（秒杀 " + sale + "）", 390},
	} {
		v := visit(t, root, at, device.language)
		v.emulates(device.width, 900, "prefers-color-scheme", device.color)
		v.isLoggedIn(s.keeper(t))
		says := func(where, text string) {
			t.Helper()
			v.until("the page says "+text, `[...document.querySelectorAll(`+quoted(where+` [role="alert"]`)+`)].some((e) => e.innerText.includes(`+quoted(text)+`))`)
		}
		units := 100 + 22*i
		total := func(n int) { t.Helper(); v.shows("sale-total", fmt.Sprint(n)) }
		v.goTo("/admin.html#sales/" + sale)
		v.fills("units-delta", "10")
		lose()
		v.sends("units-form")
		says(`[data-test="units-form"]`, device.unknown)
		total(units + 10)
		v.evaluates(`document.querySelector('[data-test="units-form"]').scrollIntoView(), ''`)
		v.shoots("lost-units-" + device.name)
		v.sends("units-form")
		v.until("the form is empty", `document.getElementById('units-delta').value === ''`)
		total(units + 10)
		v.fills("units-delta", "5")
		lose()
		v.sends("units-form")
		says(`[data-test="units-form"]`, device.unknown)
		v.fills("units-delta", "7")
		v.sends("units-form")
		says(`[data-test="units-form"]`, device.otherwise)
		total(units + 15)
		v.shoots("done-otherwise-" + device.name)
		v.sends("units-form")
		total(units + 22)
		v.until("the page says nothing of it any more", `!document.querySelector('[data-test="units-form"] [role="alert"]')`)

		// What the sale has become says what was done: the same again is another change.
		for _, action := range []string{"pause", "resume", "pause", "resume"} {
			if action == "pause" {
				lose()
			}
			v.clicks(action)
			v.clicks("confirm")
			v.sees(chromedp.CSS(`[data-test="sale"][data-state="` + map[string]string{"pause": "paused", "resume": "published"}[action] + `"]`))
			if n := number(`select count(*) from sales where id = $1 and state = 'paused'`, sale); (n == 1) != (action == "pause") {
				t.Errorf("after %s, %d such sales are paused", action, n)
			}
		}
		v.until("the page says nothing of it any more", `!document.querySelector('[data-test="sale"] header [role="alert"]')`)

		title := "Twice " + sale + device.name
		v.goTo("/admin.html#sales/new")
		v.fills("new-title", title)
		v.fills("new-price", "9.9")
		lose()
		v.clicks("make-draft")
		says(`[data-test="sale-form"]`, device.unknown)
		v.shoots("lost-sale-" + device.name)
		v.clicks("make-draft")
		v.sees(`[data-test="sale"][data-phase="draft"]`)
		if n := number(`select count(*) from sales s join goods g on g.id = s.goods_id where title = $1`, title); n != 1 {
			t.Errorf("%d sales were made, want 1", n)
		}
		v.goTo("/admin.html#sales/new")
		v.fills("new-title", title+"!")
		v.fills("new-price", "9.9")
		lose()
		v.clicks("make-draft")
		says(`[data-test="sale-form"]`, device.unknown)
		v.fills("new-price", "8.8")
		v.clicks("make-draft")
		said, _, _ := strings.Cut(device.otherwise, sale)
		says(`[data-test="sale-form"]`, said)
		v.shoots("lost-sale-otherwise-" + device.name)
		v.do("look at the sale that was made", click(`[data-test="sale-form"] [role="alert"] a`))
		v.shows("sale-price", "¥9.90")

		v.goTo("/admin.html#orders/" + order)
		for range 2 {
			lose()
			v.clicks("extend-10")
			says("main", device.unknown)
		}
		v.clicks("extend-10")
		v.until("the page says nothing of it any more", `![...document.querySelectorAll('[role="alert"]')].some((e) => e.offsetWidth)`)
		if n := number(`select count(*) from admin_log where action = 'order.extend' and subject = $1`, "order "+order); n != i+1 {
			t.Errorf("the order was extended %d times, want %d", n, i+1)
		}
		v.hasNoErrors()
	}
}

// A class and a seat whose answers are lost are made once: the student is not told that their own name is taken.
func TestAnAnswerThatIsLostInAClass(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	at, lose := timeout(t, s.URL)
	teacher, student := visit(t, root, at, "en-GB"), visit(t, root, at, "zh-CN")
	again := func(v *visitor, form chromedp.CSS, text string) {
		t.Helper()
		lose()
		v.do("send "+string(form), click(form))
		v.until("the page says "+text, `[...document.querySelectorAll('[role="alert"]')].some((e) => e.innerText.includes(`+quoted(text)+`))`)
		v.do("send "+string(form)+" again", click(form))
	}
	teacher.isLoggedIn(s.keeper(t))
	teacher.goTo("/class.html")
	title := "Lost " + newPhone()
	teacher.fills("title", title)
	again(teacher, test("class-open"), "It is safe to press again")
	code := teacher.reads(test("board-code"))
	t.Cleanup(func() {
		sandboxtest.Call("POST", s.URL+"/api/sandbox/classes/"+code+"/close", s.keeper(t), "")
	})
	if all := string(sandboxtest.Call("GET", s.URL+"/api/sandbox/classes", s.keeper(t), "").Raw); strings.Count(all, title) != 1 {
		t.Errorf("the classes are %s", all)
	}
	student.goTo("/class.html#" + code)
	student.fills("nickname", "韩梅梅")
	again(student, `.join form button`, "可以放心再点一次")
	student.sees(test("seat"))
	teacher.shows("student-count", "1 student")
}

// A password that was changed without an answer is wrong the second time, and so is a code that an account was made
// with: the page says that the first try may have been done.
func TestAnAnswerThatIsLostByAnAccount(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	at, lose := timeout(t, s.URL)
	v := visit(t, root, at, "zh-CN")
	phone := newPhone()
	v.goTo("/login.html?register&next=/account.html")
	v.types("phone", phone)
	v.clicks("send-code")
	v.until("the code is filled in", `document.getElementById('code').value.length === 6`)
	v.types("password", "a long password")
	v.types("nickname", "李雷")
	twice := func(button, field, says string) {
		t.Helper()
		lose()
		v.clicks(button)
		said := `document.querySelector('[data-test="note"]:not([hidden])')?.innerText.includes(` + quoted(says) + `)`
		v.until("the page says "+says+", when the shop can be reached again", said)
		v.clicks(button)
		v.sees(chromedp.CSS("#" + field + "-error"))
		v.until("the page says "+says, said)
	}
	twice("submit-register", "code", "可能已经生效")
	v.shoots("lost-register-zh")
	v.goTo("/login.html?next=/account.html")
	v.types("phone", phone)
	v.types("password", "a long password\r")
	v.clicks("change-password")
	v.types("old", "a long password")
	v.types("new", "a longer password")
	twice("save-password", "old", "可能已经生效")
	v.shoots("lost-password-zh")
	v.hasNoErrors()
}

// The second click of a double click does nothing when the first has sent something, also after its answer; the next
// click does. A key that is held down presses nothing again.
func TestADoubleClickIsOneRequest(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	order := s.Buyers(t, 1, s.sale(t, "--title", "Double"))[0].Order(t)
	db := s.connect(t)
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.keeper(t))
	v.goTo("/admin.html#orders/" + order)
	v.sees(test("extend-10"))
	for i, clicks := range []string{"1", "2", "1"} {
		v.evaluates(`document.querySelector('[data-test="extend-10"]').dispatchEvent(new MouseEvent('click', { detail: ` + clicks + `, bubbles: true, cancelable: true })), ''`)
		v.until("the answer is here", `performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/extend')).length === `+[]string{"1", "1", "2"}[i]+` && !document.querySelector('[data-test="extend-10"]').disabled`)
	}
	var extended int
	if err := db.QueryRow(t.Context(), `select count(*) from admin_log where action = 'order.extend' and subject = $1`, "order "+order).Scan(&extended); err != nil || extended != 2 {
		t.Errorf("a double click and a click have extended the order %d times, %v", extended, err)
	}
	held := `document.querySelector('[data-test="extend-10"]').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true }))`
	v.until("a key that is held down is ignored", `!`+held)
}

// twice does a thing with an element that is waited for, two times in one task.
func (v *visitor) twice(on chromedp.CSS, do string) {
	v.t.Helper()
	v.until(string(on)+" is there", `((e) => {
		if (!e || e.disabled) return false;
		`+do+`;
		`+do+`;
		return true;
	})(`+visible+`(`+quoted(on)+`))`)
}

// Two clicks of one moment, and two presses of the enter key, send one request: at every button and form that sends.
// The page waits for its answer for ever, so none is done.
func TestTwoClicksAreOneRequest(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.sale(t, "--title", "Clicks", "--stock", "9")
	draft := strings.TrimSpace(sandboxtest.MustCommand(t, s.env, "sale", "draft", "--title", "Draft", "--start", "+1h"))
	later := s.sale(t, "--title", "Later", "--start", "+2h")
	buyers := s.Buyers(t, 2, sale)
	pending, paid := buyers[0].Order(t), buyers[1].Order(t)
	if r := buyers[1].Pay(time.Now().Add(sandboxtest.Hang), paid); r.Status != 200 {
		t.Fatalf("pay: %d %s", r.Status, r.Raw)
	}
	var pay struct {
		URL string `json:"pay_url"`
	}
	sandboxtest.Call("POST", s.URL+"/api/orders/"+pending+"/pay", buyers[0].Token, "").Read(t, &pay)
	keeper, nobody, hour := s.keeper(t), "", time.Now().Add(3*time.Hour).Format("2006-01-02T15:04:05")
	window, plan := "/admin.html#sales/"+later, "/admin.html#sales/"+draft
	sandboxtest.Call("POST", s.URL+"/api/admin/sales/"+draft+"/plans", keeper, fmt.Sprintf(`{"action":"publish","at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))

	visitors := map[string]*visitor{}
	for token, language := range map[string]string{keeper: "en-GB", nobody: "zh-CN", buyers[0].Token: "zh-CN", buyers[1].Token: "en-GB"} {
		v := visit(t, root, s.URL, language)
		if token != "" {
			v.isLoggedIn(token)
		}
		visitors[token] = v
	}
	type fields map[string]string
	for _, c := range []struct {
		token, page string
		clicks      string // opens what has the button, or ""
		fills       fields
		button      chromedp.CSS // or a form
		also        string       // another button of the same moment, or ""
	}{
		{nobody, "/login.html", "", fields{"phone": "13812345678", "password": "a long password"}, test("submit-login"), ""},
		{nobody, "/login.html?register", "", fields{"phone": "13812345678"}, test("send-code"), ""},
		{nobody, "/login.html?register", "", fields{"phone": "13812345678"}, test("submit-register"), ""},
		{nobody, "/login.html", "", nil, test("as-buyer"), ""},
		{nobody, "/class.html", "", fields{"code": "AAAAA", "nickname": "Li"}, `.join form`, ""},
		{buyers[0].Token, "/order.html?id=" + pending, "", nil, test("pay-now"), ""},
		{buyers[0].Token, "/order.html?id=" + pending, "cancel-order", nil, test("cancel-yes"), ""},
		{buyers[0].Token, pay.URL, "", nil, test("pay-confirm"), "pay-decline"},
		{buyers[0].Token, "/account.html", "change-nickname", fields{"nickname": "Li"}, test("save-nickname"), ""},
		{buyers[0].Token, "/account.html", "change-password", nil, test("save-password"), ""},
		{buyers[0].Token, "/account.html", "change-phone", nil, test("save-phone"), ""},
		{buyers[0].Token, "/account.html", "change-address", nil, test("save-address"), ""},
		{buyers[0].Token, "/account.html", "", nil, test("logout-here"), ""},
		{buyers[0].Token, "/account.html", "logout-everywhere", nil, test("logout-everywhere-yes"), ""},
		{buyers[0].Token, "/", "", nil, test("logout"), ""},
		{buyers[0].Token, "/sale.html?id=" + sale, "", nil, test("send-bots"), ""},
		{buyers[1].Token, "/order.html?id=" + paid, "", nil, test("save-address"), ""},
		{keeper, plan, "publish", nil, test("confirm"), ""},
		{keeper, plan, "", nil, test("cancel-plan"), ""},
		{keeper, plan, "", fields{"plan-at": hour}, `[data-test="plan-form"]`, ""},
		{keeper, plan, "", nil, `[data-test="terms-form"]`, ""},
		{keeper, window, "", fields{"units-delta": "3"}, `[data-test="units-form"]`, ""},
		{keeper, window, "", nil, `[data-test="units-form"] button`, ""},
		{keeper, window, "", nil, `[data-test="window-form"] button`, ""},
		{keeper, window, "", fields{"price-price": "3"}, `[data-test="price-form"] button`, ""},
		{keeper, "/admin.html#sales/new", "", fields{"new-title": "Tea", "new-price": "1"}, test("make-draft"), "make-published"},
		{keeper, "/admin.html#goods/new", "", fields{"goods-title": "Tea"}, test("save"), ""},
		{keeper, "/admin.html#orders/" + pending, "", nil, test("extend-10"), "extend-60"},
		{keeper, "/admin.html#orders/" + pending, "", fields{"reference": "7"}, test("confirm-paid"), ""},
		{keeper, "/admin.html#orders/" + pending, "cancel", nil, test("cancel-yes"), ""},
		{keeper, "/admin.html#orders/" + paid, "refund", nil, test("refund-yes"), ""},
		{keeper, "/admin.html#orders/" + paid, "", fields{"carrier": "SF", "tracking": "7"}, test("ship"), ""},
		{keeper, "/admin.html#orders?sale=" + sale, "refund-sale", nil, test("refunds-yes"), ""},
		{keeper, fmt.Sprint("/admin.html#users/", buyers[0].ID), "toggle", nil, test("confirm"), ""},
		{keeper, "/admin.html#live", "", nil, test("share"), ""},
		{keeper, "/class.html", "", fields{"title": "Monday"}, test("class-open"), ""},
		{keeper, "/teach.html", "", nil, test("fault-redis"), ""},
		{keeper, "/lab.html#1", "", nil, test("lesson-run"), ""},
	} {
		v := visitors[c.token]
		v.goTo("/favicon.svg") // a new hash alone would leave the old page with its requests
		v.goTo(c.page)
		v.evaluates(`(() => {
			const real = window.fetch;
			window.posts = [];
			window.fetch = (path, init) => (init.method === 'POST' ? (window.posts.push(path), new Promise(() => {})) : real(path, init));
			return '';
		})()`)
		if c.clicks != "" {
			v.clicks(c.clicks)
		}
		for id, text := range c.fills {
			v.fills(id, text)
		}
		name := c.page + " " + string(c.button)
		v.twice(c.button, `e.localName === 'form' ? e.requestSubmit() : e.click()`)
		if c.also != "" {
			v.evaluates(`document.querySelector('[data-test="` + c.also + `"]').click(), ''`)
		}
		v.until(name+": a request is sent", `window.posts.length > 0`)
		v.evaluates(`new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(() => drawn(''))); setTimeout(() => drawn(''), 100); })`)
		if sent := v.evaluates(`window.posts.join(' ')`); strings.Contains(sent, " ") {
			t.Errorf("%s sends %s", name, sent)
		}
	}
}
