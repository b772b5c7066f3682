package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// chromium starts a browser. Where there is none the test is skipped; in CI it fails.
func chromium(t *testing.T) context.Context {
	t.Helper()
	var at string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			at = path
			break
		}
	}
	if at == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("no Chromium in CI")
		}
		t.Skip("no Chromium here")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(at), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", at, err)
	}
	return ctx
}

// visitor is a person with a browser of his own: no cookie is shared.
type visitor struct {
	t      *testing.T
	ctx    context.Context
	url    string
	mu     sync.Mutex
	faults []string // what the console complained about
}

func visit(t *testing.T, root context.Context, url, language string) *visitor {
	t.Helper()
	ctx, cancel := chromedp.NewContext(root, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	v := &visitor{t: t, ctx: ctx, url: url}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first call: no time limit here
		t.Fatalf("open a tab: %v", err)
	}
	v.do("start", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
			UserAgent: "Mozilla/5.0 (test)", AcceptLanguage: language})
		return err
	}))
	go func() { // ends with the visitor's context
		for m, err := range chromedp.Console(ctx) {
			if err != nil {
				return
			}
			// The console repeats every status over 399, which the pages ask for and handle.
			if (m.IsException() || m.Type == "error") && m.Source != "network" {
				v.mu.Lock()
				v.faults = append(v.faults, m.String())
				v.mu.Unlock()
			}
		}
	}()
	return v
}

func (v *visitor) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		late, cancel := context.WithTimeout(v.ctx, 2*time.Second)
		defer cancel()
		at, _ := chromedp.Run(late, chromedp.Location())
		body, _ := chromedp.Run(late, chromedp.Text(chromedp.CSS("body")))
		v.t.Fatalf("%s: %v\nat %s\n%s\n%v", what, err, at, body, v.faults)
	}
}

func test(name string) chromedp.CSS { return chromedp.CSS(`[data-test="` + name + `"]`) }
func face(name string) chromedp.CSS {
	return chromedp.CSS(`[data-test="face"][data-face="` + name + `"]`)
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
	v.do("click "+name, chromedp.WaitEnabled(test(name)), chromedp.Click(test(name)))
}
func (v *visitor) types(name, text string) {
	v.t.Helper()
	v.do("type into "+name, chromedp.WaitVisible(test(name)), chromedp.SendKeys(test(name), text))
}
func (v *visitor) reads(selector chromedp.CSS) string {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(selector))
	if err != nil {
		v.t.Fatalf("read %s: %v", selector, err)
	}
	return text
}

// presses types into whatever has the focus.
func (v *visitor) presses(keys string) {
	v.t.Helper()
	v.do(fmt.Sprintf("press %q", keys), chromedp.KeyEvent(keys))
}

// tabsTo goes forward with the tab key until the focus is there.
func (v *visitor) tabsTo(name string) {
	v.t.Helper()
	v.do("wait for "+name, chromedp.WaitEnabled(test(name)))
	for range 60 {
		ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
		at, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement?.dataset.test ?? ''`))
		cancel()
		if err != nil {
			v.t.Fatalf("tab to %s: %v", name, err)
		}
		if at == name {
			return
		}
		v.presses("\t")
	}
	v.t.Fatalf("the tab key does not reach %s", name)
}

// until waits for an expression to hold in the page.
func (v *visitor) until(what, expression string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		v.t.Fatalf("%s: %v", what, err)
	}
}

// registers through the form; the sandbox fills the code in.
func (v *visitor) registers(phone, nickname string) {
	v.t.Helper()
	v.clicks("tab-register")
	v.types("phone", phone)
	v.clicks("send-code")
	v.until("the code is filled in", `document.querySelector('[data-test="code"]').value.length === 6`)
	v.types("password", "a long password")
	v.types("nickname", nickname+"\r")
}

// visitorsSecret is what no visit to the pages may leave in what the shop prints: the password and the phones that visitors
// type, and anything as long as a session's token or a hidden address.
var visitorsSecret = regexp.MustCompile(`a long password|1381111\d{4}|[A-Za-z0-9_-]{43,}`)

// lab is a shop on a sandbox of its own, since only there the code of a phone is shown.
type lab struct {
	*sandboxtest.Shop
	env   []string
	redis *redis.Client
}

func openLab(t *testing.T, more ...string) lab {
	t.Helper()
	home := t.TempDir()
	env := append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "MIAOSHA_DATA_DIR=" + filepath.Join(home, "data"),
		"MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "MIAOSHA_TIME_ZONE=Asia/Shanghai", "MIAOSHA_LOG_LEVEL=debug"}, more...)
	l := lab{sandboxtest.Open(t, env), env, nil}
	t.Cleanup(func() {
		l.End(syscall.SIGTERM)
		log := consoleLine.ReplaceAllString(strings.ReplaceAll(l.Say.String()+l.Log.String(), home, ""), "")
		if found := visitorsSecret.FindString(log); found != "" {
			t.Errorf("printed: %q\n%s", found, log)
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
	l.redis = redis.NewClient(opts)
	t.Cleanup(func() { l.redis.Close() })
	return l
}

func (l lab) sale(t *testing.T, args ...string) string {
	t.Helper()
	return strings.TrimSpace(sandboxtest.MustCommand(t, l.env, append([]string{"sale", "--price", "990", "--list-price", "1990",
		"--image", "goods/teaset.svg"}, args...)...))
}

// answer is the answer to the one sum that is open in a sale.
func (l lab) answer(t *testing.T, sale string) string {
	t.Helper()
	keys, err := l.redis.Keys(t.Context(), "ms:{"+sale+"}:captcha:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d sums are open in sale %s, %v", len(keys), sale, err)
	}
	answer, _, _ := strings.Cut(l.redis.Get(t.Context(), keys[0]).Val(), " ")
	return answer
}

// The main job, as two people see it: one waits for the opening, solves the sum, queues, buys and pays; the other, who
// reads English, meets sold out.
func TestTwoPeopleWantTheLastOne(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	sale := l.sale(t, "--title", "茶具<img src=x onerror=alert(1)>", "--stock", "1", "--start", "8s", "--end", "1h")
	first, second := visit(t, root, l.URL, "zh-CN"), visit(t, root, l.URL, "en-GB")

	first.goTo("/sale.html?id=" + sale)
	first.sees(face("waiting"))
	first.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	first.registers("13811110001", "小明")
	first.sees(face("waiting"))
	first.sees(face("open")) // by itself, when the countdown is over
	first.clicks("buy")
	first.sees(test("captcha-img"))
	first.types("captcha-input", "0\r")
	first.sees(face("sum") + " " + test("note"))
	first.until("a new sum", `document.querySelector('[data-test="captcha-img"]') !== null && document.querySelector('[data-test="captcha-input"]').value === ''`)
	first.types("captcha-input", l.answer(t, sale)+"\r")
	first.sees(face("ordered"))
	if text := first.reads(face("ordered")); !strings.Contains(text, "付") {
		t.Errorf("the Chinese page says %q", text)
	}

	second.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	second.registers("13811110002", "Ada")
	second.sees(face("sold_out"))
	if text := second.reads(face("sold_out")); !strings.Contains(strings.ToLower(text), "sold out") {
		t.Errorf("the English page says %q", text)
	}

	first.clicks("pay-now")
	first.clicks("pay-confirm")
	first.sees(test("order-status") + `[data-status="paid"]`)
	first.goTo("/orders.html")
	first.sees(test("order"))
	first.goTo("/sale.html?id=" + sale)
	first.sees(face("paid"))
	first.clicks("lang")
	first.sees(`html[lang^="en"]`)
	first.clicks("logout")

	for _, v := range []*visitor{first, second} {
		v.mu.Lock()
		if len(v.faults) > 0 {
			t.Errorf("the console says: %v", v.faults)
		}
		v.mu.Unlock()
	}
	if out := sandboxtest.MustCommand(t, l.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// An order that nobody pays for says so, and its unit can be bought by who looks on.
func TestUnpaidOrderRunsOutOnThePage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t, "MIAOSHA_PAY_WITHIN=10s", "MIAOSHA_CAPTCHA=off") // a slow machine needs some to look at it
	sale := l.sale(t, "--title", "T", "--stock", "1")
	first, second := visit(t, root, l.URL, "zh-CN"), visit(t, root, l.URL, "en-GB")
	for i, v := range []*visitor{first, second} {
		v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
		v.registers(fmt.Sprintf("1381111100%d", i+3), "N")
	}
	first.sees(face("open"))
	first.clicks("buy")
	first.sees(face("ordered"))
	second.sees(face("sold_out"))
	first.sees(face("run_out"))
	second.sees(face("open"))
	second.clicks("buy")
	second.sees(face("ordered"))
	second.clicks("pay-now")
	second.clicks("pay-decline")
	second.sees(test("order-status") + `[data-status="pending"]`)
	second.clicks("cancel-order")
	second.clicks("cancel-yes")
	second.sees(test("order-status") + `[data-status="cancelled"]`)
}

// Where too many hold an address already, the page waits and asks for a new sum; it does not call a right answer wrong.
func TestFullGateAsksForANewSum(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	sale := l.sale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, l.URL, "en-GB")
	v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	v.registers("13811110009", "N")
	v.sees(face("open"))
	v.clicks("buy")
	v.sees(test("captcha-img"))
	for i := range 64 {
		holder := redis.Z{Member: 1_000_000 + i, Score: float64(time.Now().Add(3 * time.Second).UnixMilli())}
		if err := l.redis.ZAdd(t.Context(), "ms:{"+sale+"}:paths", holder).Err(); err != nil {
			t.Fatal(err)
		}
	}
	v.types("captcha-input", l.answer(t, sale)+"\r")
	v.sees(face("busy"))
	v.sees(face("sum") + " " + test("note"))
	if note := v.reads(face("sum") + " " + test("note")); !strings.Contains(note, "Too many") {
		t.Errorf("a right answer at a full gate: %q", note)
	}
	v.sees(test("captcha-img"))
	time.Sleep(2 * time.Second) // the others' addresses run out; a person is no quicker
	v.types("captcha-input", l.answer(t, sale)+"\r")
	v.sees(face("ordered"))
}

// A purchase by keyboard alone, with the sum in words, as somebody has it who hears the page: the words are in a region
// that is read out when they come, and belong to the field they are the question of.
func TestKeyboardAloneWithTheSumInWords(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	l := openLab(t)
	sale := l.sale(t, "--title", "T", "--stock", "1")
	v := visit(t, root, l.URL, "en-GB")
	v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	v.registers("13811110010", "N")
	v.sees(face("open"))
	v.tabsTo("buy")
	v.presses("\r")
	v.sees(test("captcha-img"))
	v.tabsTo("captcha-kind")
	v.presses("\r")
	v.sees(test("captcha-words"))
	if words := v.reads(test("captcha-words")); !strings.Contains(words, " thousand ") {
		t.Errorf("the English page asks %q", words)
	}
	v.until("the words are announced, and the question of the field that has the focus", `(() => {
		const words = document.querySelector('[data-test="captcha-words"]'), input = document.activeElement;
		return words.closest('[aria-live="polite"]')?.id === input.getAttribute('aria-describedby') && input.dataset.test === 'captcha-input';
	})()`)
	v.presses("0\r") // wrong, and the next one comes in words again
	v.sees(face("sum") + " " + test("note"))
	v.until("another sum", `document.querySelector('[data-test="captcha-words"]') !== null && document.activeElement.dataset.test === 'captcha-input'
		&& document.activeElement.value === ''`)
	v.presses(l.answer(t, sale) + "\r")
	v.sees(face("ordered"))
	v.tabsTo("pay-now")
	v.presses("\r")
	v.sees(test("pay-confirm"))
	v.tabsTo("pay-confirm")
	v.presses("\r")
	v.sees(test("order-status") + `[data-status="paid"]`)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.faults) > 0 {
		t.Errorf("the console says: %v", v.faults)
	}
}

// Pictures of the pages for the eye: MIAOSHA_SHOTS=folder go test -run Pictures ./web
func TestPictures(t *testing.T) {
	folder := os.Getenv("MIAOSHA_SHOTS")
	if folder == "" {
		t.Skip("MIAOSHA_SHOTS names no folder")
	}
	root := chromium(t)
	l := openLab(t)
	for _, look := range []struct {
		name          string
		width, height int64
		mobile        bool
		scheme, lang  string
	}{
		{"desktop-light-zh", 1280, 900, false, "light", "zh-CN"},
		{"desktop-dark-en", 1280, 900, false, "dark", "en-GB"},
		{"phone-light-en", 390, 844, true, "light", "en-GB"},
		{"phone-dark-zh", 390, 844, true, "dark", "zh-CN"},
	} {
		v := visit(t, root, l.URL, look.lang)
		v.do("look", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
				Width: look.width, Height: look.height, DeviceScaleFactor: 1, Mobile: look.mobile})
			if err == nil {
				_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
					Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}})
			}
			return err
		}))
		shoot := func(name string) {
			v.do("rest", chromedp.Sleep(400*time.Millisecond))
			b, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, name+"-"+look.name+".png"), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		v.goTo("/")
		v.sees(test("sale-card"))
		shoot("home")
		v.goTo("/sale.html?id=5")
		v.sees(test("countdown"))
		shoot("waiting")
		v.goTo("/lab.html#1")
		v.clicks("lesson-run")
		v.sees(test("results"))
		shoot("lab")
		v.goTo("/login.html")
		v.sees(test("phone"))
		shoot("login")
		v.types("phone", "13800000000")
		v.types("password", "miaosha-demo\r")
		v.sees(test("sale-card"))
		v.goTo("/orders.html")
		v.do("orders", chromedp.Sleep(300*time.Millisecond))
		shoot("orders")
		sale := l.sale(t, "--title", "青瓷茶具一套", "--stock", "9", "--detail", "一壶四杯，手工拉坯。")
		v.goTo("/sale.html?id=" + sale)
		v.sees(face("open"))
		shoot("open")
		v.clicks("buy")
		v.sees(test("captcha-img"))
		shoot("sum")
		v.clicks("captcha-kind")
		v.sees(test("captcha-words"))
		shoot("sum-in-words")
		v.types("captcha-input", l.answer(t, sale)+"\r")
		v.sees(face("ordered"))
		shoot("ordered")
		v.clicks("pay-now")
		v.sees(test("pay-confirm"))
		shoot("cashier")
		v.clicks("pay-confirm")
		v.sees(test("order-status") + `[data-status="paid"]`)
		shoot("paid")
	}
}
