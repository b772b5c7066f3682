package web_test

import (
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
	s := sharedSandbox(t)
	first, second := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "en-GB")
	s.looksBefore(t, first)

	sale := s.knownSale(t, "--title", "茶具<img src=x onerror=alert(1)>", "--stock", "1", "--start", "1h", "--end", "2h")
	first.goTo("/sale.html?id=" + sale)
	first.sees(view("waiting"))
	first.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	first.registers(newPhone(), "小明")
	first.sees(view("waiting"))
	other := first.tab("zh-CN")
	other.goTo("/sale.html?id=" + sale)
	other.sees(view("waiting"))
	s.opens(t, sale, "2s", first, other)
	other.hides(true)
	first.sees(view("open")) // without a reload, when the countdown is over
	other.sees(view("open"))
	other.hides(false)
	first.clicks("buy")
	first.sees(test("captcha-img"))
	replaced := first.sum(s, sale, "session")
	other.clicks("buy")
	other.sees(test("captcha-img"))
	for other.sum(s, sale, "session") == replaced { // one time in thousands
		other.clicks("captcha-kind")
		other.sees(test("captcha-words"))
	}
	first.types("captcha-input", replaced+"\r")
	first.sees(view("captcha") + " " + test("note"))
	if note := first.reads(view("captcha") + " " + test("note")); !strings.Contains(note, "别的页面") {
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
	first.solves(s, sale)
	first.sees(view("ordered"))
	if left := first.evaluates(`boards[0] ?? ''`); left != "0 已抢 100%" {
		t.Errorf("the board beside the order of the last unit: %q", left)
	}
	if text := first.reads(view("ordered")); !strings.HasPrefix(text, "抢到了，请尽快付款\n\n剩余付款时间") {
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
	second.registers(newPhone(), "Ada")
	second.sees(view("sold_out"))
	if text := second.reads(view("sold_out")); !strings.Contains(strings.ToLower(text), "sold out") || strings.Contains(text, "your turn") { // no click of theirs was refused
		t.Errorf("the English page shows %q", text)
	}

	second.until("when the unit may come back", `(at => document.querySelector('[data-test="held"]')?.innerText === '1 unit is ordered but not paid for yet. The first may go back on sale at ' +
		(at.getDate() === new Date().getDate() ? '' : 'tomorrow ') + at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' }) + '.')(new Date(`+backAt(t, s.URL, sale)+`))`)

	// A place in a queue that became no order is told on another page, until the buyer has seen it.
	// The sale's own page would drop the place when it reads the news, so it is kept on the other one, which asks for none so far.
	second.goTo("/orders.html")
	second.evaluates(`fetch('/api/me').then((r) => r.json()).then(({ data }) => {
		localStorage.setItem('miaosha.turns', JSON.stringify([{ user: data.user_id, sale: '` + sale + `', title: 'T', state: 'queued', at: Date.now() }]));
		return '';
	})`)
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
	s.checkAudit(t)
}

// opens moves the start of a sale to a time within ten seconds, and waits until the pages of visitors know it, or
// have opened.
func (s sandboxShop) opens(t *testing.T, sale, start string, visitors ...*visitor) {
	t.Helper()
	sandboxtest.MustCommand(t, s.env, "sale", "window", sale, "--start", start)
	for _, v := range visitors {
		v.until("the page knows the new start", `document.dispatchEvent(new Event('visibilitychange')), /^00:0\d · /.test(document.title) || document.querySelector('[data-test="view"]').dataset.view === 'open'`)
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
	v.until("the page says that the browser forbids it", `document.querySelector('[data-test="remind-said"]').innerText === '浏览器不允许通知，可以在浏览器设置中打开。可以把秒杀加到日历，或开着这个页面：标题里有倒计时。'`)
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
	v.types("captcha-input", v.sum(s, "0", "practice")+"\r")
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
	s := sharedSandbox(t)
	sale := s.sale(t, "--title", "T", "--stock", "1", "--start=-2m", "--end", "2h") // in its first minute the title says that it is open
	first, second := visit(t, root, s.URL, "zh-CN"), visit(t, root, s.URL, "en-GB")
	for _, v := range []*visitor{first, second} {
		v.isLoggedIn(s.user(t).Token)
		v.goTo("/sale.html?id=" + sale)
		v.sees(view("open"))
	}
	cashier := first.tab("zh-CN")
	cashier.goTo("/sale.html?id=" + sale)
	cashier.sees(view("open"))
	first.clicks("buy")
	first.solves(s, sale)
	first.sees(view("ordered"))
	cashier.clicks("pay-now") // the news came from the other tab
	cashier.sees(test("pay-confirm"))
	second.sees(view("sold_out"))
	second.allowsNotifications("granted")
	second.clicks("notify-back")
	second.evaluates(`(later => { window.setTimeout = (f, ms, ...more) => later(f, Math.min(ms, 1000), ...more); })(setTimeout), ''`) // a hidden page reads every ten seconds
	second.hides(true)
	// The quarter of an hour is over, on the clocks of the pages first. What the shop says comes later.
	for _, v := range []*visitor{first, cashier} {
		v.evaluates(`const ask = fetch, passed = performance.now.bind(performance); window.waiting = [];
			window.fetch = (...request) => new Promise((done) => waiting.push(() => done(ask(...request)))); performance.now = () => passed() + 15 * 60e3; ''`)
	}
	cashier.sees(test("pay-closed"))
	first.until("the button is gone", `document.querySelector('[data-view="ordered"]') !== null && document.querySelector('[data-test="pay-now"]') === null`)
	db := s.connect(t)
	if _, err := db.Exec(t.Context(), `update orders set expires_at = clock_timestamp() where sale_id = $1`, sale); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the order expires", func() (expired bool) {
		err := db.QueryRow(t.Context(), `select bool_or(status = 'cancelled') from orders where sale_id = $1`, sale).Scan(&expired)
		return err == nil && expired
	})
	first.evaluates(`window.fetch = ask; performance.now = passed; waiting.forEach((go) => go()), ''`)
	first.hides(false) // it reads the order
	first.sees(view("expired"))
	cashier.goTo("/orders.html")
	cashier.sees(test("order") + `[data-status="expired"]`)

	// The staff finds money that came without a notice, and sends it back by hand.
	keeper := s.keeper(t)
	order := cashier.evaluates(`document.querySelector('[data-test="order"]').dataset.order`)
	if r := sandboxtest.Call("POST", s.URL+"/api/admin/orders/"+order+"/confirm", keeper, `{"reference":"late-`+order+`"}`); string(r.Data) != `{"status":"refund_due"}` {
		t.Errorf("confirm money that came late: %s", r.Raw)
	}
	cashier.goTo("/order.html?id=" + order)
	cashier.sees(test("payment") + `[data-status="refund_due"]`)
	if text := cashier.reads("article"); !regexp.MustCompile(`(?s)^超时未付款.*到账时订单已失效.*¥9\.90 在付款截止（[^）]*\d\d:\d\d:\d\d）之后才到账。[^。]*\d\d:\d\d:\d\d 起正在原路退回。`).MatchString(text) {
		t.Errorf("the order whose money came late says %q", text)
	}
	var late string // an audit counts a refund that is due for minutes
	if err := db.QueryRow(t.Context(), `select id::text from payments where order_id = $1 and status = 'refund_due'`, order).Scan(&late); err != nil {
		t.Fatal(err)
	}
	if r := sandboxtest.Call("POST", s.URL+"/api/admin/payments/"+late+"/returned", keeper, `{"note":"in the shop"}`); r.Code != "ok" {
		t.Errorf("money that was returned by hand: %s", r.Raw)
	}

	second.becomes("the notification", `JSON.stringify(window.notified)`, `["Back on sale: T A unit is available: first come, first served."]`)
	second.until("the title of the hidden page says so", `document.title.startsWith('Back on sale · ')`)
	second.hides(false)
	second.sees(view("open"))
	second.until("the title of a page that is seen does not", `!document.title.startsWith('Back')`)
	second.clicks("buy")
	second.solves(s, sale)
	second.sees(view("ordered"))
	second.evaluates(`fetch('/api/orders').then((r) => r.json()).then(({ data }) => { window.mine = data[0].id; }), ''`)
	second.until("the order is known", `window.mine !== undefined`)
	mine := second.evaluates(`window.mine`)
	if r := sandboxtest.Call("POST", s.URL+"/api/admin/orders/"+mine+"/extend", keeper, `{"minutes":10}`); r.Code != "ok" { // a slow machine needs time to cancel
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

// A visitor solves the captcha before the start. The page keeps the answer until the start, and sends it then. The
// page believes that the sale opens twenty seconds after it was read, and its timers stop, until the sale is open.
func TestCaptchaIsSolvedBeforeTheStart(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "1", "--start", "1h", "--end", "2h")
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("waiting"))
	v.evaluates(`window.held = [], window.asked = [], (ask => { window.fetch = async (url, ...more) => {
		asked.push(String(url));
		const reply = await ask(url, ...more);
		if (!window.held || !String(url).endsWith('/api/sales/` + sale + `')) return reply;
		const body = await reply.json();
		body.data.start_at = new Date(Date.parse(body.data.server_time) + 20e3).toISOString();
		return new Response(JSON.stringify(body), { headers: reply.headers });
	}; })(fetch), (later => { window.setTimeout = (f, ms, ...more) => window.held && ms > 1100 ? (held.push(f), 0) : later(f, ms, ...more); })(setTimeout), ''`)
	v.hides(false) // and so it reads again
	v.clicks("prepare")
	v.sees(test("captcha-img"))
	v.solves(s, sale)
	v.sees(view("ready"))
	s.opens(t, sale, "1s")
	sandboxtest.Until(t, "the sale is open", func() bool {
		return strings.Contains(string(sandboxtest.Call("GET", s.URL+"/api/sales/"+sale, "", "").Raw), `"state":"open"`)
	})
	if asked := v.evaluates(`asked.filter((url) => url.endsWith('/path')).join()`); asked != "" {
		t.Errorf("before the start the page has asked for %s", asked)
	}
	v.evaluates(`(held => { window.held = null; held.forEach((f) => f()); })(held), ''`)
	v.sees(view("ordered"))
	v.hasNoErrors()
}

// When too many buyers hold an address, the page waits and shows a new captcha. It does not call a
// right answer wrong.
func TestFullGateAsksForANewSum(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("open"))
	v.clicks("buy")
	v.sees(test("captcha-img"))
	var holders []redis.Z
	var ids []any
	for i := range 64 {
		holders = append(holders, redis.Z{Member: 1_000_000 + i, Score: float64(time.Now().Add(time.Hour).UnixMilli())})
		ids = append(ids, 1_000_000+i)
	}
	if err := s.redis.ZAdd(t.Context(), "ms:{"+sale+"}:paths", holders...).Err(); err != nil {
		t.Fatal(err)
	}
	v.evaluates(`window.views = [], new MutationObserver(() => views.push(document.querySelector('[data-test="view"]').dataset.view))
		.observe(document.body, { subtree: true, childList: true, attributes: true }), ''`)
	v.solves(s, sale)
	v.sees(view("captcha") + " " + test("note"))
	v.until("the page has waited", `views.includes('busy')`)
	if note := v.reads(view("captcha") + " " + test("note")); !strings.Contains(note, "Too many") {
		t.Errorf("after a right answer at a full gate the page shows %q", note)
	}
	v.sees(test("captcha-img"))
	if err := s.redis.ZRem(t.Context(), "ms:{"+sale+"}:paths", ids...).Err(); err != nil {
		t.Fatal(err)
	}
	v.solves(s, sale)
	v.sees(view("ordered"))
}

// A purchase with the keyboard alone and the captcha in words, as with a screen reader. The words
// are in a live region, which a screen reader announces, and they describe the input field.
func TestKeyboardAloneWithTheSumInWords(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.user(t).Token)
	v.goTo("/sale.html?id=" + sale)
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
	// Wrong. The next captcha is in words again, and the shop draws it only after some seconds: the page says so, and promises no
	// captcha that is not there.
	v.evaluates(`window.ask = fetch, window.fetch = (url, ...more) => String(url).includes('kind=words')
		? Promise.resolve(new Response('{"code":"too_many","msg":"wait"}', { status: 429, headers: { 'Content-Type': 'application/json', 'Retry-After': '1' } }))
		: ask(url, ...more), ''`)
	v.presses("0\r")
	v.sees(view("busy") + " " + test("note"))
	if text := v.reads(view("busy")); !strings.HasPrefix(text, "Solve a small sum first\n\nWrong answer. A new one comes in a few seconds.\n\nTrying again") {
		t.Errorf("after a wrong answer, before there is a new sum: %q", text)
	}
	v.evaluates(`window.fetch = ask, ''`)
	v.sees(view("captcha") + " " + test("note"))
	if note := v.reads(view("captcha") + " " + test("note")); !strings.HasSuffix(note, "Here is a new one.") {
		t.Errorf("beside the new sum: %q", note)
	}
	v.until("there is another captcha", `document.querySelector('[data-test="captcha-words"]') !== null && document.activeElement.dataset.test === 'captcha-input'
		&& document.activeElement.value === ''`)
	v.presses(v.sum(s, sale, "session") + "\r")
	v.sees(view("ordered"))
	v.tabsTo("pay-now")
	v.presses("\r")
	v.sees(test("pay-confirm"))
	v.tabsTo("pay-confirm")
	v.presses("\r")
	v.sees(test("order-status") + `[data-status="paid"]`)
	v.hasNoErrors()
}
