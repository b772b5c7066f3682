package web_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

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
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
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

func endBrowser() {
	if shared.stop != nil {
		shared.stop()
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

// do performs steps and fails the test if they take longer than 20 s. action says in a message what
// the steps do.
func (v *visitor) do(action string, steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		late, cancel := context.WithTimeout(v.ctx, 2*time.Second)
		defer cancel()
		at, _ := chromedp.Run(late, chromedp.Location())
		body, _ := chromedp.Run(late, chromedp.Text(chromedp.CSS("body")))
		v.t.Fatalf("%s: %v\npage: %s\ntext: %s\nconsole: %v", action, err, at, body, v.errors)
	}
}

// test selects the element with a data-test name, and view selects the purchase panel when it shows
// a view.
func test(name string) chromedp.CSS { return chromedp.CSS(`[data-test="` + name + `"]`) }
func view(name string) chromedp.CSS {
	return chromedp.CSS(`[data-test="view"][data-view="` + name + `"]`)
}

func (v *visitor) goTo(path string) {
	v.t.Helper()
	v.do("go to "+path, chromedp.Navigate(v.url+path))
}
func (v *visitor) sees(selector chromedp.CSS) {
	v.t.Helper()
	v.do("see "+string(selector), chromedp.WaitVisible(selector))
}
func (v *visitor) clicks(name string) {
	v.t.Helper()
	v.do("click "+name, chromedp.WaitEnabled(test(name)), click(test(name)))
}

// click clicks an element at its place, as a visitor does. A page that fills draws its elements again and moves them: if there is
// another element in its place, or the click meets a different one, it clicks once more. A click that misses does nothing.
func click(on chromedp.CSS) chromedp.Action[chromedp.Void] {
	once := chromedp.Click(on)
	watch := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
		const wanted = document.querySelector(%[1]q);
		const hits = (element) => element && (element === wanted || element.matches(%[1]q)); // a box that is checked by the click is :not(:checked) no more
		window.missed = false;
		window.watch = (e) => {
			window.missed = !wanted?.contains(e.target) && !e.target.closest(%[1]q) && !hits(e.target.closest('label')?.control);
			if (window.missed) { e.preventDefault(); e.stopImmediatePropagation(); }
		};
		window.addEventListener('click', window.watch, true);
	}`, on))
	missed := chromedp.Evaluate[bool](`window.removeEventListener('click', window.watch, true), window.missed === true`)
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		for range 2 {
			if none, err = watch(ctx, target); err != nil {
				return none, err
			}
			none, err = once(ctx, target)
			again, _ := missed(ctx, target) // an error: the click has led to another page
			if !again && (err == nil || !strings.Contains(err.Error(), "Could not find node")) {
				break
			}
		}
		return none, err
	}
}

// A click that meets another element does nothing, and is tried again.
func TestAClickThatMissesIsRepeated(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), "", "en-GB")
	v.do("show a button below a cover", chromedp.Navigate(`data:text/html,<button onclick="document.title += 'button'">B</button>
		<p style="position: fixed; inset: 0" onmousedown="this.id = 'gone'" onclick="document.title += 'cover'">
		<style>%23gone { pointer-events: none }</style>`))
	v.do("click it", click("button"))
	v.becomes("what was clicked", "document.title", "button")
}

func (v *visitor) types(name, text string) {
	v.t.Helper()
	v.do("type into "+name, chromedp.WaitVisible(test(name)), chromedp.SendKeys(test(name), text))
}

// retypes replaces the text of a field.
func (v *visitor) retypes(name, text string) {
	v.t.Helper()
	v.do("wait for "+name, chromedp.WaitVisible(test(name)))
	v.evaluates(fmt.Sprintf(`document.querySelector(%q).select() ?? ''`, test(name)))
	v.presses(text)
}

// failsASum types a wrong answer and waits for the new sum.
func (v *visitor) failsASum() {
	v.t.Helper()
	v.types("captcha-input", "0\r")
	v.until("there is a new sum", `document.querySelector('[data-test="captcha-img"]') !== null && document.querySelector('[data-test="captcha-input"]').value === ''`)
}

func (v *visitor) reads(selector chromedp.CSS) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	// In one step: the page may replace an element between two.
	texts, err := chromedp.Run(ctx, chromedp.Poll[[]string](fmt.Sprintf(`(e => e && [e.innerText])(document.querySelector(%q))`, selector)))
	if err != nil {
		v.t.Fatalf("read %s: %v", selector, err)
	}
	return texts[0]
}

// presses types into the focused element.
func (v *visitor) presses(keys string) {
	v.t.Helper()
	v.do(fmt.Sprintf("press %q", keys), chromedp.KeyEvent(keys))
}

// tabsTo presses the tab key until the element has the focus.
func (v *visitor) tabsTo(name string) {
	v.t.Helper()
	v.do("wait for "+name, chromedp.WaitEnabled(test(name)))
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
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		v.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return text
}

// becomes waits until the value of a JavaScript expression is a text. what names the value in a message.
func (v *visitor) becomes(what, expression, text string) {
	v.t.Helper()
	var got string
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if !sandboxtest.Poll(func() bool {
		now, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
		if ctx.Err() != nil { // the message shows what there was in time
			return false
		}
		if got = now; err != nil { // the page is on its way to another one
			got = err.Error()
		}
		return got == text
	}) {
		v.t.Fatalf("%s: %q, want %q", what, got, text)
	}
}

// shows waits until the text of an element is the one.
func (v *visitor) shows(name, text string) {
	v.t.Helper()
	v.becomes(name, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ''`, test(name)), text)
}

// until waits until a JavaScript expression is true in the page.
func (v *visitor) until(condition, expression string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		v.t.Fatalf("wait until %s: %v", condition, err)
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
var visitorsSecret = regexp.MustCompile(`a long password|1381111\d{4}|[A-Za-z0-9_-]{43,}`)

// sandboxShop is a shop with its own sandbox. Only a sandbox shows the code for a phone.
type sandboxShop struct {
	*sandboxtest.Shop
	env   []string
	redis *redis.Client
}

func openSandboxShop(t *testing.T, more ...string) sandboxShop {
	t.Helper()
	home := sandboxtest.Home(t)
	env := append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "MIAOSHA_DATA_DIR=" + filepath.Join(home, "data"),
		"MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "MIAOSHA_TIME_ZONE=Asia/Shanghai", "MIAOSHA_LOG_LEVEL=debug"}, more...)
	s := sandboxShop{sandboxtest.Open(t, env), env, nil}
	t.Cleanup(func() {
		s.End(syscall.SIGTERM)
		log := consoleLine.ReplaceAllString(strings.ReplaceAll(s.Say.String()+s.Log.String(), home, ""), "")
		if found := visitorsSecret.FindString(log); found != "" {
			t.Errorf("the shop printed the secret %q:\n%s", found, log)
		}
		sandboxtest.MustCommand(t, env, "reset", "--yes")
	})
	raw, err := os.ReadFile(filepath.Join(home, "data", "state.json"))
	var state struct {
		RedisURL string `json:"redis_url"`
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
	s.redis = redis.NewClient(opts)
	t.Cleanup(func() { s.redis.Close() })
	return s
}

// sale creates a sale and returns its id.
func (s sandboxShop) sale(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(sandboxtest.MustCommand(t, s.env, append([]string{"sale", "--price", "990", "--list-price", "1990",
		"--image", "goods/teaset.svg"}, args...)...))
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
	s := openSandboxShop(t)
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
	for _, path := range web.PagePaths() {
		var mu sync.Mutex
		var requested []string
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
		page := string(sandboxtest.Call("GET", s.URL+path, "", "", "Accept-Encoding", "identity", "Accept-Language", "en-GB").Raw)
		var want []string
		for _, m := range append(script.FindAllStringSubmatch(page, -1), preload.FindAllStringSubmatch(page, -1)...) {
			want = append(want, m[1])
		}
		v := visit(t, root, server.URL, "en-GB")
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
