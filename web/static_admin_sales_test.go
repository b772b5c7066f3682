package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// fills sets the value of a field, as a user who types it over.
func (v *visitor) fills(id, value string) {
	v.t.Helper()
	v.sets("#"+chromedp.CSS(id), value)
}

// chooses sets the value of a field by its name.
func (v *visitor) chooses(name, value string) {
	v.t.Helper()
	v.sets(chromedp.CSS(`[name="`+name+`"]`), value)
}

func (v *visitor) sets(field chromedp.CSS, value string) {
	v.t.Helper()
	v.until(string(field)+" is filled in", `(async (e, value) => {
		if (!e || e.matches(':disabled')) return false;
		e.value = value;
		for (const name of ['input', 'change']) e.dispatchEvent(new Event(name, { bubbles: true }));
		await new Promise((drawn) => setTimeout(drawn)); // the first effect of a form that has just come sets its fields again
		return e.isConnected && (e.value === value || e.value + ':00' === value); // a browser leaves out seconds that are zero
	})(`+visible+`(`+quoted(field)+`), `+quoted(value)+`)`)
}

// sends submits a form.
func (v *visitor) sends(form string) {
	v.t.Helper()
	v.do("send "+form, click(chromedp.CSS(`[data-test="`+form+`"] button:not([type])`)))
}

// A sale from its draft, with a picture, to its end, as a member of the staff makes it; and what buyers see of it.
func TestStaffMakeASaleInTheBrowser(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.isLoggedIn(s.keeper(t))
	v.goTo("/admin.html")
	v.sees(test("sales"))
	v.clicks("new-sale")
	v.fills("new-title", "Teapot")
	v.until("a picture is chosen", `(async () => {
		const canvas = new OffscreenCanvas(300, 200);
		canvas.getContext('2d').fillRect(0, 0, 300, 200);
		const files = new DataTransfer();
		files.items.add(new File([await canvas.convertToBlob()], 'x.png'));
		const field = document.getElementById('picture');
		field.files = files.files;
		field.dispatchEvent(new Event('input'));
		return true;
	})()`)
	v.until("it is uploaded", `document.querySelector('[data-test="picture-state"]').textContent.includes('300 × 200')`)
	v.clicks("make-draft")
	v.until("the price is missing", `document.activeElement.id === 'new-price' && document.getElementById('new-price-error') !== null`)
	v.fills("new-price", "9.9")
	v.fills("new-stock", "5")
	v.clicks("make-draft")
	draft := chromedp.CSS(`[data-test="sale"][data-phase="draft"]`)
	v.sees(draft)
	v.fills("terms-stock", "7")
	v.sends("terms-form")
	v.shows("sale-total", "7")
	v.clicks("publish")
	v.clicks("confirm")
	v.sees(chromedp.CSS(`[data-phase="upcoming"] [data-gate="later"]`))
	v.fills("price-price", "8.8")
	v.sends("price-form")
	v.shows("sale-price", "¥8.80")
	id := strings.TrimPrefix(v.evaluates("location.hash"), "#sales/")
	end := v.evaluates(`document.getElementById('window-end_at').value`)
	sandboxtest.MustCommand(t, s.env, "sale", "window", id, "--end", "+3h")
	v.until("the form has the end that another administrator has set", `document.getElementById('window-end_at').value !== '`+end+`'`)
	now := time.Now().Add(-time.Second).Format("2006-01-02T15:04:05")
	v.fills("window-start_at", now)
	v.sends("window-form")
	v.until("it does not open at once after a change of its price", `document.querySelector('[data-test="window-form"] [role="alert"]')?.textContent.includes('its price has just changed')`)
	v.fills("units-delta", "-2")
	v.sends("units-form")
	v.shows("sale-total", "5")
	v.clicks("copy")
	v.fills("new-start_at", now)
	v.clicks("make-published")
	v.sees(chromedp.CSS(`[data-phase="open"] [data-gate="ready"]`))
	v.clicks("pause")
	v.clicks("confirm")
	v.sees(chromedp.CSS(`[data-phase="paused"] [data-gate="ready"]`))
	v.fills("plan-action", "resume")
	v.fills("plan-at", time.Now().Add(time.Hour).Format("2006-01-02T15:04:05"))
	v.sends("plan-form")
	v.sees(chromedp.CSS(`[data-plan="planned"]`))
	at := v.reads(chromedp.CSS(`[data-test="sale"] .more`))
	id = strings.TrimPrefix(strings.Fields(at)[0], "#")
	if _, err := s.connect(t).Exec(t.Context(), `update sale_plans set at = now() where sale_id = $1`, id); err != nil { // the hour is over
		t.Fatal(err)
	}
	v.sees(chromedp.CSS(`[data-plan="done"]`))
	v.sees(chromedp.CSS(`[data-phase="open"]`))
	v.goTo("/sale.html?id=" + id)
	v.sees(view("open"))
	v.until("buyers see the picture", `(i => i.complete && i.naturalWidth === 300 && i.src.includes('/pictures/'))(document.querySelector('.sale .drawing img'))`)
	if price := v.reads(".price"); !strings.Contains(price, "8.80") {
		t.Errorf("buyers see the price %s", price)
	}
	v.hasNoErrors()
}

// Each number of a form has a range, and a field that is out of it says the range.
func TestNumbersOfFormsHaveBounds(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	const zh, en = "价格为 0 到 9999999.99 元，最多两位小数", "A price must be ¥0 to ¥9999999.99, with at most two decimals"
	for i, device := range []struct {
		language, color, price, stock, years string
		width                                int64
	}{
		{"zh-CN", "dark", zh, "件数为 1 到 2147483647", "请填写 2000 年到 2099 年的日期和时间", 390},
		{"en-GB", "light", en, "1 to 2147483647 units", "Enter a date and time from 2000 to 2099", 1280},
	} {
		v := visit(t, root, s.URL, device.language)
		v.emulates(device.width, 1800, "prefers-color-scheme", device.color)
		v.isLoggedIn(s.keeper(t))
		v.goTo("/admin.html#sales/new")
		v.fills("new-title", "Gold")
		says := func(field, text string) {
			t.Helper()
			v.becomes("the error of "+field, `document.getElementById('new-`+field+`-error')?.textContent ?? ''`, text)
		}
		for _, wrong := range []string{"10000000", "100000000000000000000000000000"} {
			v.fills("new-price", wrong)
			v.fills("new-list_price", wrong)
			v.fills("new-stock", strings.ReplaceAll(wrong, "10000000", "2147483648"))
			v.fills("new-end_at", []string{"20260-01-01T00:00", "2100-01-02T00:00"}[i])
			v.clicks("make-draft")
			says("price", device.price)
			says("list_price", device.price)
			says("stock", device.stock)
			says("end_at", device.years)
			v.fits(device.width)
			v.shoots("numbers-" + device.language)
			v.goTo("/admin.html?again#sales/new")
			v.fills("new-title", "Gold")
		}
		v.fills("new-price", "9999999.99")
		v.fills("new-list_price", "9999999.99")
		v.fills("new-stock", "2147483647")
		v.fills("new-end_at", "2099-12-30T00:00")
		v.clicks("make-draft")
		v.shows("sale-price", "¥9999999.99")
		v.shows("sale-total", "2147483647")
		v.fits(device.width)
		v.goTo("/admin.html#log/from=20260-01-01T00:00")
		v.until("the log says that it cannot be read", `document.querySelector('main .blank h1')`)
		v.goTo("/admin.html#live")
		v.sets(`[data-test="hours"]`, "721")
		v.clicks("share")
		v.becomes("the error of the hours", `document.querySelector('.share [role="alert"]')?.textContent ?? ''`, []string{"1 到 720 小时", "1 to 720 hours"}[i])
		v.hasNoErrors()
	}
}

// A hidden page waits for a sale of another year. A browser takes a wait of more than 24 days for none, and the page would read the
// sale without a pause.
func TestAHiddenPageWaitsForAFarSale(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/sale.html?id=" + s.sale(t, "--title", "far", "--start", "2099-11-11 20:00", "--end", "22:00"))
	v.sees(test("countdown"))
	v.evaluates(`{
		const real = setTimeout;
		window.waits = [];
		window.setTimeout = (f, ms, ...more) => { window.waits.push(ms); return real(f, ms, ...more); };
		''
	}`)
	v.hides(true)
	v.until("the page waits for long", `window.waits.some((ms) => ms > 1e9)`)
	if longest := v.evaluates(`String(Math.max(...window.waits.filter(Number.isFinite)))`); longest != "2147483647" {
		t.Errorf("the page waits for %s ms", longest)
	}
	v.hasNoErrors()
}
