package web_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"miaosha/seckill/sandbox/sandboxtest"
)

// shifts returns how far the parts of a page have moved by themselves since it was opened: the sum of Chromium's layout shifts, in
// thousandths, with the last one.
func (v *visitor) shifts() (sum float64, last string) {
	v.t.Helper()
	type shift struct {
		Sum  float64
		Last string
	}
	got := ask(v, "read the layout shifts", here[shift](`new Promise((done) => {
		new PerformanceObserver((list) => {
			const all = list.getEntries().filter((e) => !e.hadRecentInput);
			const name = (s) => (s.node?.outerHTML ?? String(s.node?.nodeValue)).slice(0, 80) + ' ' + JSON.stringify(s.previousRect) + JSON.stringify(s.currentRect);
			done({ Sum: Math.round(1000 * all.reduce((sum, e) => sum + e.value, 0)), Last: all.map((e) => Math.round(e.startTime) + ' ms: ' + e.sources.map(name).join('; ')).join('\n') + '\nnow ' + [...document.querySelectorAll('main > *')].map((e) => e.tagName + '.' + e.className).join(' ') + document.querySelector('main').innerText.slice(0, 300) });
		}).observe({ type: 'layout-shift', buffered: true });
		requestAnimationFrame(() => setTimeout(() => done({ Sum: 0, Last: '' }), 100));
	})`))
	return got.Sum, got.Last
}

// watchTrouble remembers whether a page has said that its figures are old or that the shop is away: on a machine that stands still it
// may, and what it says moves the rest.
const watchTrouble = `new MutationObserver(() => { window.sawTrouble ||= Boolean(document.querySelector('.note.old, .trouble')); })
	.observe(document, { childList: true, subtree: true })`

// introsOfThePage compares the heading and the first paragraph that a script shows with those in the HTML of the page. It is "" if they
// are the same, or if the page has none.
const introsOfThePage = `(() => {
	const request = new XMLHttpRequest();
	request.open('GET', location.pathname, false);
	request.send();
	const sent = new DOMParser().parseFromString(request.responseText, 'text/html').querySelector('.intro.ghosts');
	const texts = (of, what) => [...of.querySelectorAll(what)].slice(0, 2).map((e) => e.textContent).join(' | ');
	if (!sent) return document.querySelector('main > .intro') ? 'no intro in the HTML' : '';
	const own = texts(sent, '.zh'), shown = texts(document, '.intro > h1, .intro > h1 + p');
	return own === shown ? '' : own + ' / ' + shown;
})()`

// The frame of a page is in its HTML and stays where it is: nothing that a visitor reads moves while scripts and data arrive, in any
// window, and the header is one line.
func TestNothingMovesWhileAPageFills(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	sale := s.sale(t, "--title", "Tea", "--stock", "5", "--detail", "A pot and two cups.")
	var keeper struct{ Token string }
	sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"13900000000","password":"miaosha-demo"}`).Read(t, &keeper)
	for _, width := range []int64{1280, 768, 390, 320} {
		v := visit(t, root, s.URL, "zh-CN")
		v.emulates(width, 800, "prefers-color-scheme", "light")
		v.do("watch for trouble", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchTrouble})
			return err
		}))
		check := func(at string, shown chromedp.CSS) {
			t.Helper()
			sandboxtest.Until(t, at+" is filled while the shop is not busy", func() bool {
				v.goTo(at)
				v.sees(shown)
				return v.evaluates(`String(!window.sawTrouble)`) == "true"
			})
			if sum, last := v.shifts(); sum > 0 {
				t.Errorf("%s, %d wide: moved by %v thousandths, at last %s", at, width, sum, last)
			}
			v.fits(width)
			if own := v.evaluates(introsOfThePage); own != "" {
				t.Errorf("%s, %d wide: the page itself does not begin with what its script shows: %s", at, width, own)
			}
			if height := v.evaluates(`String(document.querySelector('.top').offsetHeight > 66)`); height != "false" {
				t.Errorf("%s, %d wide: the header is higher than one line", at, width)
			}
		}
		check("/sale.html?id="+sale, view("login"))
		if width == 768 {
			continue
		}
		check("/", test("sale-card"))
		sees := v.evaluates(`(b => String(b.offsetWidth > 0 && b.getBoundingClientRect().left >= 0))(document.querySelector('[data-test="lab-top"]'))`)
		if sees != "true" {
			t.Errorf("%d wide: the header does not lead a stranger to the lab", width)
		}
		if width != 390 {
			check("/login.html", test("phone"))
			check("/lab.html", ".lesson")
			check("/courses.html", test("index"))
			check("/mine.html", test("start"))
			check("/live.html", ".intro p")
			check("/no-such-page", ".blank")
		}
		v.isLoggedIn(keeper.Token)
		check("/", test("logout"))
		if width == 390 { // where the name of the shop goes when the links of a user come
			continue
		}
		check("/login.html", ".blank")
		check("/account.html", test("logout-here"))
		check("/sale.html?id="+sale, view("open"))
		if width == 1280 {
			v.clicks("buy")
			v.sees(test("captcha-img"))
			v.becomes("the sum is in the window, and the page has not scrolled", `String(scrollY === 0 && document.querySelector('[data-test="captcha-submit"]').getBoundingClientRect().bottom < innerHeight)`, "true")
		}
		check("/orders.html", ".blank")
		check("/admin.html", test("sales"))
		check("/teach.html", test("pulse-redis"))
		if in := v.evaluates(`(r => String(r.left >= 0 && r.right <= innerWidth))(document.querySelector('[data-test="lang"]').getBoundingClientRect())`); in != "true" {
			t.Errorf("%d wide: the button of the language is not in the window", width)
		}
	}
}

// The parts of a page stay in their order, whichever of them comes, goes or changes. The Preact inside htm 3.1.1 put
// sections before the heading.
func TestPartsOfAPageKeepTheirOrder(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/no-such-page")
	v.sees(".blank")
	got := v.evaluates(`(async () => {
		const library = document.querySelector('link[href$="/app.css"]').getAttribute('href').replace('app.css', 'lib/preact.js');
		const { html, render, useState } = await import(library);
		const set = {}, state = {};
		const use = (name, first) => ([state[name], set[name]] = useState(first))[0];
		const Menu = () => html` + "`<nav data-n=${use('menu', 0)} />`" + `;
		const Note = () => html` + "`<p data-n=${use('note', 0)} />`" + `;
		const Group = ({ sales }) => (sales ? html` + "`<section />`" + ` : null);
		const Groups = ({ sales }) => sales.map((n, i) => html` + "`<${Group} key=${i} sales=${n} />`" + `);
		const List = () => {
			const sales = use('sales', null), trouble = use('trouble', false);
			return html` + "`<h1 /><${Menu} />${sales && trouble && html`<${Note} />`}${sales ? html`<${Groups} sales=${sales} />` : html`<div />`}`" + `;
		};
		const seed = { n: 1 };
		const random = (n) => (seed.n = seed.n * 48271 % 2147483647) % n;
		const next = { menu: () => random(9), note: () => random(9), trouble: () => random(2) === 0, sales: () => (random(5) ? [random(2), random(2), random(2)] : null) };
		const page = document.createElement('main');
		for (let run = 0; run < 60; run++) {
			render(null, page);
			render(html` + "`<${List} />`" + `, page);
			const steps = [];
			for (let i = 0; i < 8; i++) {
				const name = Object.keys(next)[random(4)], value = next[name]();
				if (!set[name]) continue;
				set[name](value);
				steps.push(name + ' ' + JSON.stringify(value));
				await new Promise((done) => setTimeout(done));
				const want = ['H1', 'NAV', ...(state.sales && state.trouble ? ['P'] : []), ...(state.sales ? state.sales.filter(Boolean).map(() => 'SECTION') : ['DIV'])].join();
				const is = [...page.children].map((e) => e.tagName).join();
				if (is !== want) return steps.join(', ') + ': ' + is + ', want ' + want;
			}
		}
		return 'in order';
	})()`)
	if got != "in order" {
		t.Error(got)
	}
}

// A wrong address is a page for a browser, with the status 404, in its language. For all others it is the refusal.
func TestAWrongAddressIsAPageForABrowser(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct{ path, accept, language, says string }{
		{"/nothing", browser, "en", "<h1>"}, {"/nothing", browser, "zh-CN", `lang="zh-CN">`}, {"/a/b.html", browser, "en", "Page not found"},
		{"/static/0123/app.css", browser, "en", "<h1>"}, {"/pictures/none.png", browser, "en", "<h1>"},
		{"/pictures/0123456789abcdef0123456789abcdef.png", browser, "en", "<h1>"},
		{"/nothing", "*/*", "en", `"not_found"`}, {"/nothing", "", "en", `"not_found"`}, {"/pictures/none.png", "image/avif,image/*,*/*;q=0.8", "en", `"not_found"`},
		{"/api/nothing", browser, "en", `"not_found"`}, {"/api/sales/0", browser, "en", `"no_sale"`},
	} {
		r := sandboxtest.Call("GET", s.URL+c.path, "", "", "Accept", c.accept, "Accept-Language", c.language)
		if r.Status != http.StatusNotFound || !strings.Contains(string(r.Raw), c.says) || r.Header.Get("ETag") != "" || r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s for %q: %d, %v, %s; want 404 and %s", c.path, c.accept, r.Status, r.Header, r.Raw, c.says)
		}
	}
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/sale/7?id=7")
	v.becomes("the title", `document.title`, "Page not found · miaosha")
	v.clicks("lang")
	v.becomes("the heading in Chinese", `document.querySelector('h1').innerText`, "页面不存在")
	v.goTo("/nothing")
	v.becomes("the choice is kept", `document.documentElement.lang + document.querySelector('h1')?.innerText`, "zh-CN页面不存在")
	v.clicks("to-list")
	v.sees(test("sale-card"))
	v.hasNoErrors()
}

// The list says that an address names no slot, and asks no further. The menu is one stop of the tab key, and a picture that the shop no
// longer has is a parcel. An untouched sale has an empty bar.
func TestTheListOfSales(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openShop(t)
	var terms []string
	for _, start := range []string{"2h", "4h", "6h"} {
		terms = append(terms, s.sale("--title", "Often", "--image", "goods/teaset.svg", "--start", start))
	}
	for _, at := range []string{s.URL + "/api/slots", sharedSandbox(t).URL + "/api/lab"} {
		r := sandboxtest.Call("GET", at, "", "", "Accept-Encoding", "gzip")
		if again := sandboxtest.Call("GET", at, "", "", "If-None-Match", r.Header.Get("ETag"), "Accept-Encoding", "gzip"); r.Header.Get("Content-Encoding") != "gzip" || again.Status != 304 {
			t.Errorf("%s: %v, and then %d; want gzip and 304", at, r.Header, again.Status)
		}
	}
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/?slot=garbage")
	v.becomes("the refusal", `document.querySelector('.blank h1')?.innerText ?? ''`, "Time slot not found")
	v.clicks("to-list")
	v.sees(test("sale-card"))

	v.until("the menu has its slots", `document.querySelectorAll('.menu a').length > 5`)
	if ended := v.evaluates(`String(document.querySelectorAll('.menu a[data-state="ended"]').length)`); ended != "0" {
		t.Errorf("a new shop shows %s slots that are over and had no sale", ended)
	}
	focus := `document.activeElement.closest('.menu') ? 'slot ' + [...document.querySelectorAll('.menu a')].indexOf(document.activeElement) : document.activeElement.closest('.card') ? 'card' : ''`
	v.becomes("the stops of the tab key in the menu", `String(document.querySelectorAll('.menu a[tabindex="0"]').length)`, "1")
	v.evaluates(`String(document.querySelector('.menu a[tabindex="0"]').focus())`)
	for _, step := range []struct{ key, at string }{{"", "slot 0"}, {kb.ArrowRight, "slot 1"}, {kb.ArrowRight, "slot 2"}, {kb.ArrowLeft, "slot 1"}, {kb.Home, "slot 0"},
		{kb.ArrowLeft, "slot 0"}, {kb.ArrowRight, "slot 1"}, {"\t", "card"}} {
		if step.key != "" {
			v.presses(step.key)
		}
		if at := v.evaluates(focus); at != step.at {
			t.Errorf("after %q the focus is at %q, want %q", step.key, at, step.at)
		}
	}

	card := `[...document.querySelectorAll('.card')].filter(c => c.innerText.includes('Often'))`
	v.becomes("cards of one offer, and its later sales", card+`.length + ' ' + `+card+`[0]?.querySelectorAll('.also-at a').length`, "1 2")
	for i, id := range terms[1:] {
		if href := v.evaluates(card + fmt.Sprintf(`[0].querySelectorAll('.also-at a')[%d].getAttribute('href')`, i)); href != "/sale.html?id="+id {
			t.Errorf("the link to the sale %s is %s", id, href)
		}
	}
	sale := s.sale("--title", "New", "--image", "goods/teaset.svg", "--stock", "50")
	bar := `(c => c ? c.querySelector('.bar i').style.width + ' ' + c.querySelector('[data-test="taken"]').innerText : '')(document.querySelector('[data-sale="` + sale + `"]'))`
	v.goTo("/")
	v.becomes("the bar of an untouched sale", bar, "0% 0% taken")
	v.evaluates(`String(document.querySelector('[data-sale="` + sale + `"] img').src = '/pictures/0123456789abcdef0123456789abcdef.png')`)
	v.until("the picture is a parcel", `(i => i.src.endsWith('goods/parcel.svg') && i.naturalWidth > 0)(document.querySelector('[data-sale="`+sale+`"] img'))`)
	v.hasNoErrors()
}

// A time of tomorrow is called so in every time zone, also on the night when the clocks go back.
func TestTomorrowIsTheNextDay(t *testing.T) {
	t.Parallel()
	v := visit(t, chromium(t), sharedSandbox(t).URL, "en-GB")
	for _, c := range []struct{ zone, at, today, want string }{
		{"Europe/London", "2026-10-25T09:30:00Z", "2026-10-24T20:00:00Z", "tomorrow 09:30"}, // it is UTC+1, and then UTC
		{"Europe/London", "2026-03-29T09:30:00Z", "2026-03-28T20:00:00Z", "tomorrow 10:30"},
		{"Europe/London", "2026-10-26T09:30:00Z", "2026-10-24T20:00:00Z", "26 Oct 09:30"},
		{"Asia/Shanghai", "2026-10-24T16:05:00Z", "2026-10-24T15:55:00Z", "tomorrow 00:05"},
		{"Asia/Shanghai", "2026-10-24T15:59:00Z", "2026-10-23T16:00:00Z", "23:59"},
		{"Pacific/Kiritimati", "2026-10-24T10:05:00Z", "2026-10-24T09:55:00Z", "tomorrow 00:05"},
		{"Pacific/Pago_Pago", "2026-10-24T11:05:00Z", "2026-10-24T10:55:00Z", "tomorrow 00:05"},
	} {
		v.do("move to "+c.zone, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: c.zone})
			return err
		}))
		v.goTo("/no-such-page")
		v.sees(".blank")
		v.becomes(c.zone+", "+c.at, `import(document.querySelector('link[href$="/app.css"]').href.replace('app.css', 'i18n.js'))
			.then(({ formatTime }) => formatTime('`+c.at+`', Date.parse('`+c.today+`')))`, c.want)
	}
}
