package web_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"miaosha/web"
)

// unseen is a script that names what cannot be told on a page whose colours the system has forced: a button or a field
// without an edge, a text in the colour of its background, a chosen part that looks like the others, and a bar that
// looks like what is behind it.
const unseen = `(() => {
	const wrong = [];
	const name = (e) => e.tagName + '.' + e.className + ' ' + (e.dataset.test ?? '') + ' ' + e.textContent.trim().slice(0, 20);
	const isSeen = (e) => e.getClientRects().length && e.offsetWidth > 2 && !e.closest('.hidden') && getComputedStyle(e).visibility === 'visible';
	const solid = (colour) => !/rgba\(.*, 0\)|transparent/.test(colour);
	const behind = (e) => { for (; e; e = e.parentElement) { const { backgroundColor } = getComputedStyle(e); if (solid(backgroundColor)) return backgroundColor; } return 'rgb(255, 255, 255)'; };
	const edges = (e, back) => ['Top', 'Right', 'Bottom', 'Left'].filter((side) => { const s = getComputedStyle(e); return parseFloat(s['border' + side + 'Width']) > 0 &&
		!['none', 'hidden'].includes(s['border' + side + 'Style']) && solid(s['border' + side + 'Color']) && s['border' + side + 'Color'] !== back; }).length;
	for (const e of document.querySelectorAll('button, a.button, select, textarea, input:not([type="checkbox"], [type="radio"], [type="range"], [type="file"])')) {
		if (!isSeen(e) || e.closest('.editor')) continue;
		const back = behind(e.parentElement);
		if (!edges(e, back) && behind(e) === back) wrong.push('no edge: ' + name(e));
		if (getComputedStyle(e).color === behind(e)) wrong.push('text in the colour behind it: ' + name(e));
	}
	for (const e of document.querySelectorAll('[aria-pressed="true"], a[aria-current]')) {
		const other = [...(e.parentElement.matches('li') ? e.parentElement.parentElement : e.parentElement).querySelectorAll(e.tagName)].find((o) => o !== e && isSeen(o) && !o.matches('[aria-pressed="true"], [aria-current]'));
		const look = (x) => { const s = getComputedStyle(x); return [s.backgroundColor, s.borderTopWidth, s.borderTopColor].join(); };
		if (isSeen(e) && other && look(e) === look(other)) wrong.push('chosen, and like the others: ' + name(e));
	}
	for (const e of document.querySelectorAll('.bar i, .meter i, .marks [data-mark="solved"], .beats i')) {
		if (isSeen(e) && behind(e) === behind(e.parentElement) && getComputedStyle(e).backgroundImage === 'none') wrong.push('not seen: ' + name(e));
	}
	for (const e of document.querySelectorAll('.bar, .meter')) if (isSeen(e) && behind(e) !== behind(e.parentElement)) wrong.push('empty, and looks full: ' + name(e));
	return wrong.join('\n');
})()`

// In forced colours a button is still a button on every page, and what is chosen is told from what is not, on a dark
// and on a light system. MIAOSHA_SHOTS=folder keeps a picture of each.
func TestForcedColours(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "青瓷茶具", "--stock", "4")
	later := s.knownSale(t, "--title", "青瓷茶具", "--stock", "4", "--start", "1h", "--end", "2h")
	buyer := s.user(t)
	buyer.Sale = sale
	pages := append(web.PagePaths(), "/sale.html?id="+sale, "/sale.html?id="+later, "/login.html?register", "/admin.html#sales", "/admin.html#sales/"+sale, "/admin.html#goods", "/admin.html#orders",
		"/admin.html#log", "/admin.html#users", "/admin.html#payments", "/admin.html#live", "/lab.html#1", "/lab.html#bench", "/lab.html#strategies", "/lab.html#race", "/lab.html#without", "/admin.html#ticket")
	for _, system := range []string{"light", "dark"} {
		v := visit(t, root, s.URL, map[string]string{"light": "zh-CN", "dark": "en-GB"}[system])
		v.do("force the colours", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "forced-colors", Value: "active"}, {Name: "prefers-color-scheme", Value: system}}})
			return err
		}))
		looks := func(what string) {
			t.Helper()
			if wrong := v.evaluates(unseen); wrong != "" {
				t.Errorf("%s, %s: %s", what, system, wrong)
			}
			if folder := os.Getenv("MIAOSHA_SHOTS"); folder != "" {
				picture := ask(v, "take a picture", chromedp.CaptureScreenshot())
				if err := os.WriteFile(filepath.Join(folder, "forced-"+slug(what)+"-"+system+".png"), picture, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		v.isLoggedIn(s.keeper(t))
		for _, path := range slices.Compact(pages) {
			v.do("leave the page before", chromedp.Navigate("about:blank")) // another hash alone loads nothing
			v.goTo(path)
			v.until("the page is there", `document.querySelector('main:not([aria-busy])') !== null && !document.querySelector('main .ghost, main p.blank[role="status"]')`)
			looks(path)
		}
		v.goTo("/lab.html#1")
		v.clicks("lesson-run")
		v.sees(test("results"))
		v.evaluates(`document.querySelector('[data-test="results"]').scrollIntoView(), ''`)
		looks("results")
		v.isLoggedIn(buyer.Token)
		v.goTo("/sale.html?id=" + sale)
		if system == "light" {
			v.sees(view("open"))
			v.clicks("buy")
			v.sees(test("captcha-img"))
			looks("sum")
			v.clicks("captcha-kind")
			v.sees(test("captcha-words"))
			looks("sum in words")
			v.solves(s, sale)
		}
		v.sees(view("ordered"))
		looks("ordered")
		v.goTo("/orders.html")
		v.sees(test("order"))
		looks("orders")
		v.do("open the order", click(`[data-test="order"]`))
		v.sees(test("order-status"))
		looks("order")
		v.clicks("pay-now")
		v.sees(test("pay-confirm"))
		looks("cashier")
		v.hasNoErrors()
	}
}

func slug(path string) string {
	name := []rune(path)
	for i, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			name[i] = '-'
		}
	}
	return string(name)
}
