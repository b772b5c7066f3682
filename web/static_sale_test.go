package web_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Two visitors want the last unit. The first waits for the start in two tabs, one of them hidden, solves
// the captcha, queues, buys and pays. The other tab's sum replaces the first one, and it sees the order
// when there is one. The second reads English and sees "sold out".
func TestTwoVisitorsWantTheLastUnit(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	first, second := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "en-GB")
	s.looksBefore(t, first)

	sale := s.knownSale(t, "--title", "茶具<img src=x onerror=alert(1)>", "--stock", "1", "--start", "15s", "--end", "1h")
	first.goTo("/sale.html?id=" + sale)
	first.sees(view("waiting"))
	first.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	first.registers("13811110001", "小明")
	first.sees(view("waiting"))
	other := first.tab("zh-CN")
	other.goTo("/sale.html?id=" + sale)
	other.sees(view("waiting"))
	other.hides(true)
	first.sees(view("open")) // without a reload, when the countdown is over
	other.sees(view("open"))
	other.hides(false)
	first.clicks("buy")
	first.sees(test("captcha-img"))
	replaced := s.answer(t, sale)
	other.clicks("buy")
	other.sees(test("captcha-img"))
	first.types("captcha-input", replaced+"\r")
	first.sees(view("captcha") + " " + test("note"))
	if note := first.reads(view("captcha") + " " + test("note")); !strings.Contains(note, "另一个页面") {
		t.Errorf("after the right answer to a sum that another tab replaced: %q", note)
	}
	first.until("there is a new captcha", `document.querySelector('[data-test="captcha-img"]') !== null && document.querySelector('[data-test="captcha-input"]').value === ''`)
	first.types("captcha-input", "0\r")
	first.sees(view("captcha") + " " + test("note"))
	first.until("there is a new captcha", `document.querySelector('[data-test="captcha-img"]') !== null && document.querySelector('[data-test="captcha-input"]').value === ''`)
	// What the shop says of the units comes later than the order. The board has none left at once.
	first.evaluates(`(ask => { window.fetch = (url, ...more) => String(url).endsWith('/api/sales/` + sale + `') ? new Promise(() => {}) : ask(url, ...more); })(fetch),
		window.EventSource = class { addEventListener() {} close() {} }, ''`)
	first.evaluates(`window.boards = [], new MutationObserver(() => document.querySelector('[data-view="ordered"]') && boards.push(
		document.querySelector('[data-test="left"]').textContent + ' ' + document.querySelector('[data-test="taken"]').textContent))
		.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }), ''`)
	first.types("captcha-input", s.answer(t, sale)+"\r")
	first.sees(view("ordered"))
	if left := first.evaluates(`boards[0] ?? ''`); left != "0 已抢 100%" {
		t.Errorf("the board beside the order of the last unit: %q", left)
	}
	if text := first.reads(view("ordered")); !strings.HasPrefix(text, "已为你保留一件\n\n请在此时间内付款") {
		t.Errorf("the Chinese page shows %q", text)
	}
	other.sees(view("ordered")) // and no sum
	other.goTo("/")
	other.sees(test("badge") + `[data-state="pending"]`)
	// A place in the queue is followed on every page.
	other.evaluates(`localStorage.setItem('miaosha.turns', localStorage.getItem('miaosha.turns').replace('"pending"', '"queued"')), ''`)
	other.goTo("/orders.html")
	other.goTo("/")
	other.sees(test("badge") + `[data-state="pending"]`)

	second.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	second.registers("13811110002", "Ada")
	second.sees(view("sold_out"))
	if text := second.reads(view("sold_out")); !strings.Contains(strings.ToLower(text), "sold out") || strings.Contains(text, "your turn") { // no click of theirs was refused
		t.Errorf("the English page shows %q", text)
	}

	second.shows("held", "1 unit is ordered and not paid yet. The first may come back at "+second.evaluates(`(at => (at.getDate() === new Date().getDate() ? '' : 'tomorrow ') +
		at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' }))(new Date(`+backAt(t, s.URL, sale)+`))`)+".")

	// A place in a queue that became no order is told on another page, until the buyer has seen it.
	second.evaluates(`fetch('/api/me').then((r) => r.json()).then(({ data }) => localStorage.setItem('miaosha.turns',
		JSON.stringify([{ user: data.user_id, sale: '` + sale + `', title: 'T', state: 'queued', at: Date.now() }]))), ''`)
	second.until("the place is kept", `localStorage.getItem('miaosha.turns')?.includes('queued')`)
	second.goTo("/orders.html")

	first.clicks("pay-now")
	first.clicks("pay-confirm")
	first.sees(test("order-status") + `[data-status="paid"]`)
	first.sees(test("payment") + `[data-status="captured"]`)
	other.until("the badge is gone", `document.querySelector('[data-test="badge"]') === null`)
	first.shows("next", "这是练习店铺，到这里就完成了，不会寄出商品。")
	first.until("the order has a short number", `/^[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}$/.test(document.querySelector('[data-test="order-number"]').innerText)`)
	first.clicks("copy-number")
	first.until("the number is copied", `document.querySelector('[data-test="copy-number"] + [role="status"]').innerText === '已复制'`)
	first.goTo("/orders.html")
	first.sees(test("order"))
	first.goTo("/sale.html?id=" + sale)
	first.sees(view("paid"))
	first.clicks("lang")
	first.sees(`html[lang^="en"]`)
	first.clicks("logout")
	second.sees(test("badge") + `[data-state="lost"]`)
	second.shows("badge", "You did not get one")
	second.clicks("badge")
	second.sees(view("sold_out"))
	second.until("the badge is gone", `document.querySelector('[data-test="badge"]') === null`)

	first.hasNoErrors()
	second.hasNoErrors()
	other.hasNoErrors()
	if out := sandboxtest.MustCommand(t, s.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// looksBefore looks at a sale before its start: what will happen, the time that is left in the title of the tab, a file for the
// calendar, a notification, and a sum for practice.
func (s sandboxShop) looksBefore(t *testing.T, v *visitor) {
	t.Helper()
	v.goTo("/sale.html?id=" + s.knownSale(t, "--title", "壶;茶,杯", "--stock", "1", "--start", "50m", "--end", "2h"))
	v.sees(view("waiting"))
	if text := v.reads(test("steps")); !strings.Contains(text, "算一道题") || !strings.Contains(text, "15 分钟付款") || !strings.Contains(text, "只能下单一次") {
		t.Errorf("the page says that this will happen: %q", text)
	}
	v.until("the title counts down", `/^49:\d\d · 壶;茶,杯 · /.test(document.title)`)
	v.evaluates(`(URL.createObjectURL = (create => (blob) => { if (blob.type.startsWith('text/calendar')) blob.text().then((text) => { window.calendar = text; }); return create(blob); })(
		URL.createObjectURL.bind(URL)), '')`)
	v.clicks("calendar")
	v.until("the calendar has the sale", `/\r\nDTSTART:\d{8}T\d{6}Z\r\n/.test(window.calendar) && window.calendar.includes('SUMMARY:秒杀：壶\\;茶\\,杯\r\n')
		&& window.calendar.split('\r\n').every((line) => new TextEncoder().encode(line).length <= 75)`)
	v.allowsNotifications("denied")
	v.clicks("notify")
	v.until("the page says that the browser forbids it", `document.querySelector('.remind + p').innerText.includes('浏览器不允许通知')`)
	v.allowsNotifications("granted")
	v.evaluates(`(later => { window.setTimeout = (f, ms, ...more) => later(f, ms > 2e6 ? (window.reminderIn = ms, 0) : ms, ...more); })(setTimeout), ''`) // at once
	v.clicks("notify")
	v.becomes("the reminder", `JSON.stringify(window.notified)`, `["秒杀：壶;茶,杯 还有一分钟开始。"]`)
	v.until("it comes a minute before the start", `(start => Math.abs(start - 60e3 - reminderIn - Date.now()) < 20e3)(Date.now() +
		(m => m[1] * 60e3 + m[2] * 1e3)(/^(\d\d):(\d\d) · /.exec(document.title)))`)
	v.sees(test("nothing-sent"))
	v.clicks("practise")
	v.sees(test("captcha-img"))
	v.failsASum()
	v.types("captcha-input", s.answer(t, "0")+"\r")
	v.shows("practice-said", "答对了。正式抢购时也是这样的题。")
	v.sees(view("waiting"))
}

// allowsNotifications sets what the browser answers to a page that asks, and notes the notifications: the headless shell shows none.
func (v *visitor) allowsNotifications(answer string) {
	v.t.Helper()
	v.evaluates(`window.notified = [], window.Notification = class {
		static permission = 'default';
		static requestPermission = async () => (Notification.permission = '` + answer + `');
		constructor(title, { body }) { notified.push(title + ' ' + body); }
	}, ''`)
}

// knownSale creates a sale, and waits until the shop's cache has it.
func (s sandboxShop) knownSale(t *testing.T, args ...string) (id string) {
	t.Helper()
	id = s.sale(t, args...)
	if !sandboxtest.Poll(func() bool { return sandboxtest.Call("GET", s.URL+"/api/sales/"+id, "", "").Code == "ok" }) {
		t.Fatalf("the shop does not know sale %s", id)
	}
	return id
}

// backAt waits until the shop says when a unit of a sale may come back, and returns that time in ms since 1970.
func backAt(t *testing.T, shop, sale string) (ms string) {
	t.Helper()
	if !sandboxtest.Poll(func() bool {
		var detail struct {
			BackAt time.Time `json:"back_at"`
		}
		sandboxtest.Call("GET", shop+"/api/sales/"+sale, "", "").Read(t, &detail)
		ms = strconv.FormatInt(detail.BackAt.UnixMilli(), 10)
		return !detail.BackAt.IsZero()
	}) {
		t.Fatal("the shop does not say when a unit may come back")
	}
	return ms
}

// An order that is not paid in time expires on the page, and the cashier closes. Another visitor, who waits in a hidden tab, is
// notified and can buy its unit. Money that comes too late goes back, and the order says so. Orders keep their picture after the end
// of the sale.
func TestUnpaidOrderExpiresOnThePage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t, "MIAOSHA_PAY_WITHIN=10s", "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off") // a slow machine needs time to see the order; a quick one is faster than a person
	sale := s.sale(t, "--title", "T", "--stock", "1")
	first, second := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "en-GB")
	for i, v := range []*visitor{first, second} {
		v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
		v.registers(fmt.Sprintf("1381111100%d", i+3), "N")
		v.sees(view("open"))
	}
	cashier := first.tab("zh-CN")
	cashier.goTo("/sale.html?id=" + sale)
	cashier.sees(view("open"))
	first.clicks("buy")
	first.sees(view("ordered"))
	cashier.clicks("pay-now") // the news came from the other tab
	cashier.sees(test("pay-confirm"))
	second.sees(view("sold_out"))
	second.allowsNotifications("granted")
	second.clicks("notify-back")
	second.hides(true)
	for _, v := range []*visitor{first, cashier} { // what the shop says of the order comes later than the end of its time
		v.evaluates(`const ask = fetch; window.waiting = []; window.fetch = (url, ...more) => String(url).startsWith('/api/orders/')
			? new Promise((done) => waiting.push(() => done(ask(url, ...more)))) : ask(url, ...more); ''`)
	}
	cashier.sees(test("pay-closed"))
	first.until("the button is gone", `document.querySelector('[data-view="ordered"]') !== null && document.querySelector('[data-test="pay-now"]') === null`)
	first.evaluates(`window.fetch = ask; waiting.forEach((go) => go()), ''`)
	first.sees(view("expired"))
	cashier.goTo("/orders.html")
	cashier.sees(test("order") + `[data-status="expired"]`)

	// The staff finds money that came without a notice, and sends it back by hand.
	var keeper struct{ Token string }
	sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"13900000000","password":"miaosha-demo"}`).Read(t, &keeper)
	order := cashier.evaluates(`document.querySelector('[data-test="order"]').dataset.order`)
	if r := sandboxtest.Call("POST", s.URL+"/api/admin/orders/"+order+"/confirm", keeper.Token, `{"reference":"late"}`); string(r.Data) != `{"status":"refund_due"}` {
		t.Errorf("confirm money that came late: %s", r.Raw)
	}
	cashier.goTo("/order.html?id=" + order)
	cashier.sees(test("payment") + `[data-status="refund_due"]`)
	if text := cashier.reads("article"); !regexp.MustCompile(`(?s)^超时未付款.*到得太晚.*¥9\.90 在付款时间结束（\d\d:\d\d:\d\d）之后才到。\d\d:\d\d:\d\d 起正在原路退回。`).MatchString(text) {
		t.Errorf("the order whose money came late says %q", text)
	}

	second.becomes("the notification", `JSON.stringify(window.notified)`, `["Back on sale: T A unit is back, first come, first served."]`)
	second.hides(false)
	second.sees(view("open"))
	second.clicks("buy")
	second.sees(view("ordered"))
	second.evaluates(`fetch('/api/orders').then((r) => r.json()).then(({ data }) => { window.mine = data[0].id; }), ''`)
	second.until("the order is known", `window.mine !== undefined`)
	mine := second.evaluates(`window.mine`)
	if r := sandboxtest.Call("POST", s.URL+"/api/admin/orders/"+mine+"/extend", keeper.Token, `{"minutes":10}`); r.Code != "ok" { // a slow machine needs time to cancel
		t.Errorf("more time to pay: %s", r.Raw)
	}
	second.clicks("pay-now")
	second.clicks("pay-decline")
	second.sees(test("order-status") + `[data-status="pending"]`)
	second.clicks("cancel-order")
	second.clicks("cancel-yes")
	second.sees(test("order-status") + `[data-status="cancelled"]`)
	sandboxtest.MustCommand(t, s.env, "sale", "close", sale)
	second.goTo("/orders.html")
	second.until("the order has its picture", `(i => i?.src.endsWith('/goods/teaset.svg') && i.naturalWidth > 0)(document.querySelector('[data-test="order"] img'))`)
}

// A visitor solves the captcha before the start. The page sends the answer at the start, and the
// visitor takes part in the lot of the first second.
func TestCaptchaIsSolvedBeforeTheStart(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/login.html")
	v.registers("13811110011", "N")
	v.sees(test("sale-card"))
	opens := time.Now().Add(25 * time.Second)
	sale := s.sale(t, "--title", "T", "--stock", "1", "--start", "25s", "--end", "1h")
	v.goTo("/sale.html?id=" + sale)
	v.clicks("prepare")
	v.sees(test("captcha-img"))
	v.types("captcha-input", s.answer(t, sale)+"\r")
	v.sees(view("ready"))
	time.Sleep(time.Until(opens))
	v.sees(view("ordered"))
	v.hasNoErrors()
}

// When too many buyers hold an address, the page waits and shows a new captcha. It does not call a
// right answer wrong.
func TestFullGateAsksForANewSum(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	sale := s.sale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	v.registers("13811110009", "N")
	v.sees(view("open"))
	v.clicks("buy")
	v.sees(test("captcha-img"))
	for i := range 64 {
		holder := redis.Z{Member: 1_000_000 + i, Score: float64(time.Now().Add(3 * time.Second).UnixMilli())}
		if err := s.redis.ZAdd(t.Context(), "ms:{"+sale+"}:paths", holder).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v.types("captcha-input", s.answer(t, sale)+"\r")
	v.sees(view("busy"))
	v.sees(view("captcha") + " " + test("note"))
	if note := v.reads(view("captcha") + " " + test("note")); !strings.Contains(note, "Too many") {
		t.Errorf("after a right answer at a full gate the page shows %q", note)
	}
	v.sees(test("captcha-img"))
	time.Sleep(2 * time.Second) // the other addresses expire; a person is not faster
	v.types("captcha-input", s.answer(t, sale)+"\r")
	v.sees(view("ordered"))
}

// A purchase with the keyboard alone and the captcha in words, as with a screen reader. The words
// are in a live region, which a screen reader announces, and they describe the input field.
func TestKeyboardAloneWithTheSumInWords(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	sale := s.sale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	v.registers("13811110010", "N")
	v.sees(view("open"))
	v.tabsTo("buy")
	v.presses("\r")
	v.sees(test("captcha-img"))
	v.tabsTo("captcha-kind")
	v.presses("\r")
	v.sees(test("captcha-words"))
	if words := v.reads(test("captcha-words")); !strings.Contains(words, " thousand ") {
		t.Errorf("the captcha of the English page is %q", words)
	}
	v.until("the words are announced and describe the focused field", `(() => {
		const words = document.querySelector('[data-test="captcha-words"]'), input = document.activeElement;
		return words.closest('[aria-live="polite"]')?.id === input.getAttribute('aria-describedby') && input.dataset.test === 'captcha-input';
	})()`)
	v.presses("0\r") // wrong: the next captcha is in words again
	v.sees(view("captcha") + " " + test("note"))
	v.until("there is another captcha", `document.querySelector('[data-test="captcha-words"]') !== null && document.activeElement.dataset.test === 'captcha-input'
		&& document.activeElement.value === ''`)
	v.presses(s.answer(t, sale) + "\r")
	v.sees(view("ordered"))
	v.tabsTo("pay-now")
	v.presses("\r")
	v.sees(test("pay-confirm"))
	v.tabsTo("pay-confirm")
	v.presses("\r")
	v.sees(test("order-status") + `[data-status="paid"]`)
	v.hasNoErrors()
}
