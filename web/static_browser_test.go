package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// shared is the Chromium of this test binary: its start costs more processor time than most visits.
var shared struct {
	once sync.Once
	ctx  context.Context
	stop func() // nil until it has started
	err  error
}

// chromium returns the browser that all tests share. The first call starts it. A test does all in browser contexts of its own,
// see visit. Without Chromium it skips the test; in CI it fails the test. The headless shell is Chromium without windows: it takes
// half of the processor time.
func chromium(t *testing.T) context.Context {
	t.Helper()
	var program string
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI has no Chromium")
		}
		t.Skip("this machine has no Chromium")
	}
	shared.once.Do(func() { shared.err = startBrowser(program) })
	if shared.err != nil {
		t.Fatalf("start %s: %v", program, shared.err)
	}
	return shared.ctx
}

// startBrowser starts a browser with an empty profile. endBrowser ends it.
func startBrowser(program string) error {
	profile, err := os.MkdirTemp("", "miaosha-chromium-")
	if err != nil {
		return err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.UserDataDir(profile),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		// What moves draws sixty pictures a second, and each further process of a visitor costs as much as a page.
		chromedp.Flag("force-prefers-reduced-motion", true), chromedp.Flag("disable-site-isolation-trials", true), chromedp.Flag("renderer-process-limit", "1"),
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess,BackForwardCache,Prerender2,IsolateOrigins,site-per-process"))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(allocator)
	shared.ctx, shared.stop = ctx, func() {
		cancel()
		end()
		os.RemoveAll(profile)
	}
	return chromedp.Do(ctx)
}

// endBrowser ends what the browser tests share.
func endBrowser() {
	if shared.stop != nil {
		shared.stop()
	}
	for _, end := range slices.Backward(sandboxOfAll.ends) {
		end()
	}
}

// visitor is a user with their own browser: visitors share no cookies.
type visitor struct {
	t      *testing.T
	ctx    context.Context
	url    string
	mu     sync.Mutex
	errors []string // of the browser's console
	lines  []string // all that the console shows
}

// visit opens a tab for a new visitor, whose browser asks for the language.
func visit(t *testing.T, root context.Context, url, language string) *visitor {
	t.Helper()
	ctx, cancel := chromedp.NewContext(root, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return openTab(t, ctx, url, language)
}

// tab opens another tab of the same visitor, in a window of its own.
func (v *visitor) tab(language string) *visitor {
	v.t.Helper()
	ctx, cancel := chromedp.NewContext(v.ctx)
	v.t.Cleanup(cancel)
	return openTab(v.t, ctx, v.url, language)
}

func openTab(t *testing.T, ctx context.Context, url, language string) *visitor {
	t.Helper()
	v := &visitor{t: t, ctx: ctx, url: url}
	if err := chromedp.Do(ctx); err != nil { // no timeout: the tab lives as long as the context of its first call
		t.Fatalf("open a tab: %v", err)
	}
	v.do("start", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
			UserAgent: "Mozilla/5.0 (test)", AcceptLanguage: language})
		if err == nil { // each tab believes that it has the focus, whatever the tabs of other tests do
			_, err = cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		}
		return err
	}))
	go func() { // ends with ctx
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			v.mu.Lock()
			v.lines = append(v.lines, m.String())
			// The console repeats each status above 399. The pages handle these.
			if (m.IsException() || m.Type == "error") && m.Source != "network" {
				v.errors = append(v.errors, m.String())
			}
			v.mu.Unlock()
		}
	}()
	return v
}

// ask performs an action in a visitor's tab and returns its value. It is the one guard of all actions: an action
// that takes longer than sandboxtest.Hang fails the test, with what the page shows. what says in the message what
// the action does.
func ask[T any](v *visitor, what string, action chromedp.Action[T]) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, sandboxtest.Hang)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		v.fails("%s: %v", what, err)
	}
	return value
}

// fails ends the test with what the page shows.
func (v *visitor) fails(format string, args ...any) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, sandboxtest.Hang)
	defer cancel()
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + '\ntext: ' + document.body?.innerText`))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.t.Fatalf("%s\npage: %s %v\nconsole: %v", fmt.Sprintf(format, args...), shown, err, v.lines)
}

// do performs steps, each under the guard of ask.
func (v *visitor) do(action string, steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	for _, step := range steps {
		ask(v, action, step)
	}
}

// here evaluates a JavaScript expression, or awaits its promise, in the page that the tab shows. If there is none
// yet, or another page comes meanwhile, it evaluates the expression in the next one.
func here[T any](expression string) chromedp.Action[T] {
	evaluate := chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise)
	return func(ctx context.Context, target *chromedp.Target) (T, error) {
		for {
			value, err := evaluate(ctx, target)
			if _, leaves := errors.AsType[*cdproto.Error](err); !leaves || ctx.Err() != nil {
				return value, err
			}
		}
	}
}

// becoming returns an expression that waits until another one has a value that counts as true. An exception counts
// as false.
func becoming(expression string) string {
	return `(async () => {
		for (let pause = 1; ; pause = Math.min(2 * pause, 30)) {
			try {
				const value = await (` + expression + `);
				if (value) return value;
			} catch {}
			await new Promise((done) => setTimeout(done, pause));
		}
	})()`
}

// quoted returns a text as JavaScript has it.
func quoted[S ~string](text S) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // no text does that
	}
	return string(b)
}

// visible is a function that returns an element by its selector, or null if it is not there or not seen.
const visible = `((selector) => {
	const e = document.querySelector(selector);
	return e && (e.offsetWidth || e.offsetHeight || e.getClientRects().length) ? e : null;
})`

// test selects the element with a data-test name, and view selects the purchase panel when it shows
// a view.
func test(name string) chromedp.CSS { return chromedp.CSS(`[data-test="` + name + `"]`) }
func view(name string) chromedp.CSS {
	return chromedp.CSS(`[data-test="view"][data-view="` + name + `"]`)
}

// goTo opens a page of the shop. A page that was on its way is dropped.
func (v *visitor) goTo(path string) {
	v.t.Helper()
	navigate := chromedp.Navigate(v.url + path)
	v.do("go to "+path, func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		for {
			none, err = navigate(ctx, target)
			if failed, ok := errors.AsType[*chromedp.LoadError](err); !ok || failed.ErrorText != "net::ERR_ABORTED" {
				return none, err
			}
		}
	})
}

func (v *visitor) sees(selector chromedp.CSS) {
	v.t.Helper()
	v.until(string(selector)+" is seen", visible+`(`+quoted(selector)+`)`)
}

func (v *visitor) clicks(name string) {
	v.t.Helper()
	v.do("click "+name, click(test(name)))
}

// click clicks an element at its place, as a visitor does: it waits until the element is there, is enabled and
// stands still. A page that fills draws its elements again and moves them, so a click may meet another element, or
// none if its element goes between press and release. Such a click does nothing, and click tries again until one
// has met the element.
func click(on chromedp.CSS) chromedp.Action[chromedp.Void] {
	type point struct{ X, Y float64 }
	// The name of the window outlives the page, so that a click which leads to another page is known to have met
	// its element.
	place := here[point](becoming(`(async () => {
		const e = ` + visible + `(` + quoted(on) + `);
		if (!e || e.matches(':disabled')) return null;
		e.scrollIntoViewIfNeeded();
		const at = () => { const r = e.getClientRects()[0]; return { X: r.x + r.width / 2, Y: r.y + r.height / 2 }; };
		const first = at();
		await new Promise((drawn) => { requestAnimationFrame(() => requestAnimationFrame(drawn)); setTimeout(drawn, 100); });
		const second = at();
		if (!e.isConnected || e.matches(':disabled') || first.X !== second.X || first.Y !== second.Y) return null;
		const hits = (element) => element && (element === e || element.matches(` + quoted(on) + `)); // a box that is checked by the click is :not(:checked) no more
		removeEventListener('click', window.watch, true);
		window.watch = (event) => {
			const { target } = event;
			window.name = e.contains(target) || target.closest(` + quoted(on) + `) || hits(target.closest('label')?.control) ? 'hit' : 'missed';
			if (window.name === 'missed') { event.preventDefault(); event.stopImmediatePropagation(); }
		};
		addEventListener('click', window.watch, true);
		window.name = 'waiting';
		return second;
	})()`))
	met := here[string](`removeEventListener('click', window.watch, true), window.name`)
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		for {
			at, err := place(ctx, target)
			if err == nil {
				none, err = chromedp.MouseClickXY(at.X, at.Y)(ctx, target)
			}
			if err != nil {
				return none, err
			}
			if what, err := met(ctx, target); err != nil || what != "waiting" && what != "missed" {
				return none, err
			}
		}
	}
}

// A click that meets another element does nothing, and is tried again.
func TestAClickThatMissesIsRepeated(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), "", "en-GB")
	v.do("show a button below two covers", chromedp.Navigate(`data:text/html,<button onclick="document.title += 'button'">B</button>
		<p onmousedown="this.id = 'gone'" onclick="document.title += 'cover'"><p onmousedown="this.remove()">
		<style>p { position: fixed; inset: 0 } %23gone { pointer-events: none }</style>`))
	v.do("click it", click("button"))
	v.becomes("what was clicked", "document.title", "button")
}

// types adds text to a field. A "\r" at its end is the enter key.
func (v *visitor) types(name, text string) {
	v.t.Helper()
	v.enters(test(name), text, "")
}

// retypes replaces the text of a field.
func (v *visitor) retypes(name, text string) {
	v.t.Helper()
	v.enters(test(name), text, "e.select()")
}

// enters types into a field in one step, so that the page can take the focus away before or after it and not
// within. It first does what the script before says with the field e. The enter key waits until the form can be
// sent.
func (v *visitor) enters(field chromedp.CSS, text, before string) {
	v.t.Helper()
	text, enter := strings.CutSuffix(text, "\r")
	v.until("the text is in "+string(field), `((e, text) => {
		if (!e || e.matches(':disabled')) return false;
		e.focus();
		if (document.activeElement !== e) return false;
		try { e.setSelectionRange(e.value.length, e.value.length); } catch {} // not every type of field has a cursor
		const before = e.value;
		`+before+`;
		return document.execCommand('insertText', false, text) && (e.value !== before || e.value === text);
	})(`+visible+`(`+quoted(field)+`), `+quoted(text)+`)`)
	if !enter {
		return
	}
	v.until("its form can be sent", `((e) => {
		e.focus();
		return document.activeElement === e && !e.form?.querySelector('button:not([type="button"])')?.disabled;
	})(document.querySelector(`+quoted(field)+`))`)
	v.presses("\r")
}

// solves answers the sum of a sale that the page shows, as an answer to the visitor's session.
func (v *visitor) solves(s sandboxShop, sale string) {
	v.t.Helper()
	v.sees(`[data-test="captcha-img"], [data-test="captcha-words"]`)
	v.types("captcha-input", v.sum(s, sale, "session")+"\r")
}

// failsASum types a wrong answer and waits for the new sum.
func (v *visitor) failsASum() {
	v.t.Helper()
	v.types("captcha-input", "0\r")
	v.until("there is a new sum", `document.querySelector('[data-test="captcha-img"]') !== null && document.querySelector('[data-test="captcha-input"]').value === ''`)
}

// sum returns the answer to the visitor's last sum. The sum is bound to a cookie: that of the session for a sale's.
func (v *visitor) sum(s sandboxShop, sale, cookie string) string {
	v.t.Helper()
	if of := map[string]purpose.Purpose{"sum": purpose.LoginSum, "practice": purpose.PracticeSum}[cookie]; of.Name != "" {
		return v.answerTo(s, gate.SumOfVisitor(of, v.cookie(cookie)))
	}
	return v.sumOf(s, sale, v.cookie(cookie))
}

// sumOf returns the answer to the last sum of a session.
func (v *visitor) sumOf(s sandboxShop, sale, session string) string {
	v.t.Helper()
	id, err := strconv.ParseInt(sale, 10, 64)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.answerTo(s, gate.SumOfSale(id, session))
}

func (v *visitor) answerTo(s sandboxShop, sum gate.SumOf) string {
	v.t.Helper()
	stored, err := s.redis.Get(v.t.Context(), sum.Key()).Result()
	if err != nil {
		v.fails("the sum %s: %v", sum.Key(), err)
	}
	answer, _, _ := strings.Cut(stored, " ")
	return answer
}

// cookie returns the value of a cookie of the visitor.
func (v *visitor) cookie(name string) (value string) {
	v.t.Helper()
	cookies := ask(v, "read the cookies", func(ctx context.Context, target *chromedp.Target) (network.GetCookiesResult, error) {
		return cdp.Call(ctx, target, network.GetCookies, network.GetCookiesParams{URLs: []string{v.url}})
	})
	for _, c := range cookies.Cookies {
		if c.Name == name {
			value = c.Value
		}
	}
	return value
}

// isLoggedIn logs the visitor in, by its token.
func (v *visitor) isLoggedIn(token string) {
	v.t.Helper()
	v.do("log in", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.SetCookie, network.SetCookieParams{Name: "session", Value: token, URL: v.url})
		return err
	}))
}

// reads waits until an element is there, and returns its text.
func (v *visitor) reads(selector chromedp.CSS) string {
	v.t.Helper()
	// In one step: the page may replace an element between two.
	return ask(v, "read "+string(selector), here[[]string](becoming(`(e => e && [e.innerText])(document.querySelector(`+quoted(selector)+`))`)))[0]
}

// presses types into the focused element.
func (v *visitor) presses(keys string) {
	v.t.Helper()
	v.do(fmt.Sprintf("press %q", keys), chromedp.KeyEvent(keys))
}

// tabsTo presses the tab key until the element has the focus.
func (v *visitor) tabsTo(name string) {
	v.t.Helper()
	v.until(name+" can have the focus", `!`+visible+`(`+quoted(test(name))+`).matches(':disabled')`)
	for range 60 {
		if v.evaluates(`document.activeElement?.dataset.test ?? ''`) == name {
			return
		}
		v.presses("\t")
	}
	v.t.Fatalf("60 presses of the tab key do not reach %s", name)
}

// evaluates returns the value of a JavaScript expression, a text, in the page.
func (v *visitor) evaluates(expression string) string {
	v.t.Helper()
	return ask(v, "evaluate "+expression, here[string](expression))
}

// becomes waits until the value of a JavaScript expression is a text. what names the value in a message.
func (v *visitor) becomes(what, expression, text string) {
	v.t.Helper()
	if err := v.waits(`(await (` + expression + `)) === ` + quoted(text)); err != nil {
		v.fails("%s: %v: %q, want %q", what, err, v.evaluates(`(async () => String(await (`+expression+`)))()`), text)
	}
}

// shows waits until the text of an element is the one.
func (v *visitor) shows(name, text string) {
	v.t.Helper()
	v.becomes(name, `document.querySelector(`+quoted(test(name))+`)?.innerText ?? ''`, text)
}

// until waits until a JavaScript expression is true in the page that the tab shows.
func (v *visitor) until(condition, expression string) {
	v.t.Helper()
	if err := v.waits(expression); err != nil {
		v.fails("wait until %s: %v", condition, err)
	}
}

// waits waits until an expression is true, for sandboxtest.Hang at most. While the page shows a job of the lab at work or in the line, no
// time counts: the lab does one job at a time for all tests together, and each has a limit of its own, of minutes for an exercise.
func (v *visitor) waits(expression string) error {
	const there, atWork = "there", "at work"
	for {
		ctx, cancel := context.WithTimeout(v.ctx, sandboxtest.Hang)
		is, err := chromedp.Run(ctx, here[string](`(async () => {
			let looks = 0;
			return await `+becoming(`(async () => {
				try { if (await (`+expression+`)) return '`+there+`'; } catch {}
				return ++looks > 100 && document.querySelector('section.live') && '`+atWork+`';
			})()`)+`;
		})()`))
		cancel()
		if err != nil || is == there {
			return err
		}
	}
}

// registers fills in the form. In the sandbox the page fills in the code.
func (v *visitor) registers(phone, nickname string) {
	v.t.Helper()
	v.clicks("tab-register")
	v.types("phone", phone)
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", "a long password")
	v.types("nickname", nickname+"\r")
}

// hides makes the page believe that it is hidden, or visible again.
func (v *visitor) hides(hidden bool) {
	v.t.Helper()
	v.evaluates(fmt.Sprintf(`Object.defineProperty(document, 'hidden', { value: %t, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); ''`, hidden))
}

// hasNoErrors fails the test if the browser's console has an error.
func (v *visitor) hasNoErrors() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.errors) > 0 {
		v.t.Errorf("the console shows errors: %v", v.errors)
	}
}

// hasAnEmptyConsole fails the test if the browser's console shows anything at all.
func (v *visitor) hasAnEmptyConsole() {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.lines) > 0 {
		v.t.Errorf("the console shows: %v", v.lines)
	}
}

// emulates sets the size of the window and one setting of the system, such as
// prefers-reduced-motion.
func (v *visitor) emulates(width, height int64, setting, value string) {
	v.t.Helper()
	v.do("set the window", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: setting, Value: value}}})
		return err
	}))
}

// visitorsSecret matches the secrets of a visit, which the shop must not print: the password and
// the phones that visitors type, and any text as long as a session's token or a hidden address.
var visitorsSecret = regexp.MustCompile(`a long password|13[78]1111\d{4}|[A-Za-z0-9_-]{43,}`)

// sandboxShop is a shop with its own sandbox. Only a sandbox shows the code for a phone.
type sandboxShop struct {
	*sandboxtest.Shop
	env         []string
	redis       *redis.Client
	databaseURL string
	*people
}

// people are the users of a sandbox who are given out to its tests.
type people struct {
	mu     sync.Mutex
	users  []*sandboxtest.Buyer // who were not given out yet
	keeper string               // the token of the administrator's session
}

// sandboxOfAll is the sandbox that the browser tests share: one has a Postgres of its own, whose start costs more
// than most tests.
var sandboxOfAll struct {
	once sync.Once
	shop sandboxShop
	ends []func()
}

// sharedSandbox returns the sandbox that the browser tests share. It asks for sums, as a shop does, and has no
// limits of rates, because all tests come from one address. A test makes its own sale and its own users in it, and
// asserts nothing about all sales. Only tests that break, configure or count a sandbox open their own.
func sharedSandbox(t *testing.T) sandboxShop {
	t.Helper()
	sandboxOfAll.once.Do(func() {
		sandboxOfAll.shop = openSandboxShop(ofAllTests{t}, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	})
	if sandboxOfAll.shop.Shop == nil {
		t.Fatal("the shared sandbox did not open")
	}
	t.Cleanup(func() { sandboxOfAll.shop.printsNoSecret(t) })
	return sandboxOfAll.shop
}

// ofAllTests stands for all tests of the binary: what ends with it ends when they have ended.
type ofAllTests struct{ testing.TB }

func (ofAllTests) Cleanup(f func()) { sandboxOfAll.ends = append(sandboxOfAll.ends, f) }

func (all ofAllTests) TempDir() string {
	dir, err := os.MkdirTemp("", "miaosha-sandbox-")
	if err != nil {
		all.Fatal(err)
	}
	dir = filepath.Join(dir, "001")
	if err := os.Mkdir(dir, 0o777); err != nil {
		all.Fatal(err)
	}
	all.Cleanup(func() { os.RemoveAll(filepath.Dir(dir)) })
	return dir
}

// user returns a user of the sandbox whom no test has had, with a session.
func (s sandboxShop) user(t *testing.T) *sandboxtest.Buyer {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users) == 0 {
		s.users = s.Buyers(t, 50, "")
	}
	u := s.users[0]
	s.users = s.users[1:]
	return u
}

// keeper returns the token of a session of the sandbox's administrator.
func (s sandboxShop) keeper(t *testing.T) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.people.keeper == "" {
		var in struct{ Token string }
		sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"13900000000","password":"miaosha-demo"}`).Read(t, &in)
		s.people.keeper = in.Token
	}
	return s.people.keeper
}

// account registers a user with the password of registers, and returns the phone.
func (s sandboxShop) account(t *testing.T, nickname string) (phone string) {
	t.Helper()
	phone = newPhone()
	var code struct {
		DevCode string `json:"dev_code"`
	}
	sent := sandboxtest.Call("POST", s.URL+"/api/otp", "", `{"phone":"`+phone+`"}`)
	sent.Read(t, &code)
	body := fmt.Sprintf(`{"phone":%q,"code":%q,"password":"a long password","nickname":%q}`, phone, code.DevCode, nickname)
	if r := sandboxtest.Call("POST", s.URL+"/api/register", "", body, "Cookie", sent.Cookies()); r.Code != "ok" {
		t.Fatalf("register: %s", r.Raw)
	}
	return phone
}

// connect opens a connection to the sandbox's database, for as long as the test.
func (s sandboxShop) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// checkAudit runs miaosha audit until it finds nothing: other tests may be at work in the sandbox.
func (s sandboxShop) checkAudit(t *testing.T) {
	t.Helper()
	var out string
	if !sandboxtest.Poll(func() bool {
		out, _, _ = sandboxtest.Command(t, s.env, "audit")
		return strings.Contains(out, "holds")
	}) {
		t.Error(out)
	}
}

// printsNoSecret fails the test if the shop has printed a secret of a visit.
func (s sandboxShop) printsNoSecret(t testing.TB) {
	t.Helper()
	home := strings.TrimPrefix(s.env[0], "HOME=")
	log := consoleLine.ReplaceAllString(strings.ReplaceAll(s.Say.String()+s.Log.String(), home, ""), "")
	if found := visitorsSecret.FindString(log); found != "" {
		t.Errorf("the shop printed the secret %q:\n%s", found, log)
	}
}

func openSandboxShop(t testing.TB, more ...string) sandboxShop {
	t.Helper()
	home := sandboxtest.Home(t)
	env := append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "MIAOSHA_DATA_DIR=" + filepath.Join(home, "data"),
		"MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "MIAOSHA_TIME_ZONE=Asia/Shanghai", "MIAOSHA_LOG_LEVEL=debug"}, more...)
	s := sandboxShop{Shop: sandboxtest.Open(t, env), env: env, people: &people{}}
	t.Cleanup(func() {
		s.End(syscall.SIGTERM)
		s.printsNoSecret(t)
		sandboxtest.MustCommand(t, env, "reset", "--yes")
	})
	raw, err := os.ReadFile(filepath.Join(home, "data", "state.json"))
	var state struct {
		DatabaseURL string `json:"database_url"`
		RedisURL    string `json:"redis_url"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(state.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	s.redis, s.databaseURL = redis.NewClient(opts), state.DatabaseURL
	t.Cleanup(func() { s.redis.Close() })
	return s
}

// dataDir returns the folder with the data of the shop.
func (s sandboxShop) dataDir() string {
	for _, setting := range s.env {
		if dir, is := strings.CutPrefix(setting, "MIAOSHA_DATA_DIR="); is {
			return dir
		}
	}
	return ""
}

// sale creates a sale, waits until the shop knows it, and returns its id.
func (s sandboxShop) sale(t *testing.T, args ...string) (id string) {
	t.Helper()
	id = strings.TrimSpace(sandboxtest.MustCommand(t, s.env, append([]string{"sale", "--price", "990", "--list-price", "1990",
		"--image", "goods/teaset.svg"}, args...)...))
	testShop{Shop: s.Shop, t: t}.knows(id)
	return id
}

// answer returns the answer to the only open captcha of a sale.
func (s sandboxShop) answer(t *testing.T, sale string) string {
	t.Helper()
	keys, err := s.redis.Keys(t.Context(), "ms:{"+sale+"}:captcha:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(keys) != 1 {
		t.Fatalf("sale %s has %d open captchas, want one", sale, len(keys))
	}
	answer, _, _ := strings.Cut(s.redis.Get(t.Context(), keys[0]).Val(), " ")
	return answer
}

// A page preloads the scripts that a browser finds in the imports, and no others. The browser here
// receives the pages without their preload lists.
func TestPagesPreloadTheirImports(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	shop, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	preload := regexp.MustCompile(`<link rel="modulepreload" fetchpriority="low" href="([^"]+)">`)
	script := regexp.MustCompile(`<script (?:type="module" )?src="([^"]+)">`)
	proxy := httputil.NewSingleHostReverseProxy(shop)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		body = preload.ReplaceAll(body, nil)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	var mu sync.Mutex
	var requested []string // since the last page was opened
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".js") {
			mu.Lock()
			requested = append(requested, r.URL.Path)
			mu.Unlock()
		}
		r.Header.Set("Accept-Encoding", "identity")
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	v := visit(t, root, server.URL, "en-GB")
	v.do("keep no files", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
		return err
	}))
	for _, path := range web.PagePaths() {
		page := string(sandboxtest.Call("GET", s.URL+path, "", "", "Accept-Encoding", "identity", "Accept-Language", "en-GB").Raw)
		var want []string
		for _, m := range append(script.FindAllStringSubmatch(page, -1), preload.FindAllStringSubmatch(page, -1)...) {
			want = append(want, m[1])
		}
		v.goTo("/no-such-page")
		v.until("the script has run", `document.querySelector('main:not([aria-busy])') !== null`)
		mu.Lock()
		requested = nil
		mu.Unlock()
		v.goTo(path)
		v.until("the script has run", `document.querySelector('main:not([aria-busy])') !== null`)
		mu.Lock()
		slices.Sort(requested)
		slices.Sort(want)
		if diff := cmp.Diff(requested, want); diff != "" {
			t.Errorf("scripts of %s (-requested +named by the page):\n%s", path, diff)
		}
		mu.Unlock()
	}
}
