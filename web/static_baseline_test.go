package web_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"miaosha/web"
)

// before runs a script in each page that the visitor opens, before the scripts of the page.
func (v *visitor) before(script string) {
	v.t.Helper()
	v.do("run a script before each page", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// forgets deletes what the browser has and the oldest browsers have not: testdata/newer.txt, which web/pages/newer.mjs writes.
func (v *visitor) forgets() {
	v.t.Helper()
	newer, err := os.ReadFile("testdata/newer.txt")
	if err != nil {
		v.t.Fatal(err)
	}
	v.before(`for (const path of ` + quoted(string(newer)) + `.split('\n')) {
		const names = path.split('.'), last = names.pop(), of = names.reduce((object, name) => object?.[name], globalThis);
		if (path === 'Element.prototype.scrollIntoViewIfNeeded') continue; // click needs it
		const gone = /^[A-Z]/.test(last) && of?.[last]?.prototype; // the instances of a class have other ways in
		for (const key of Object.keys(Object.getOwnPropertyDescriptors(gone || {}))) if (key !== 'constructor') Reflect.deleteProperty(gone, key);
		for (const object of [of, names.length ? null : Window.prototype]) if (object) Reflect.deleteProperty(object, last);
	}`)
}

// settled is an expression: the page has started, neither its skeleton nor a part of it is still loading, and it has reached the shop.
const settled = `document.getElementById('main') !== null && document.querySelector('[aria-busy="true"]') === null &&
	!/正在加载|Loading…|连不上店铺|The shop cannot be reached/.test(document.getElementById('main').innerText)`

// pagesOf lists the addresses of all pages, with what a visitor sees there. sale and order are ids.
func pagesOf(sale, order string) (paths []string) {
	for _, path := range web.PagePaths() {
		switch path {
		case "/sale.html":
			path += "?id=" + sale
		case "/order.html":
			path += "?id=" + order
		case "/handout.html":
			path += "?lesson=1"
		}
		paths = append(paths, path)
	}
	return append(paths, "/no-such-page")
}

// staffPages are the sections of the back office.
var staffPages = []string{"sales", "orders", "payments", "goods", "users", "ticket", "live", "log"}

// A browser as old as the oldest in which the pages are to work opens each page, for each kind of visitor, and buys in it. Here it is
// the browser of all tests without the APIs that are newer.
func TestPagesInTheOldestBrowsers(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedSandbox(t)
	sale := s.knownSale(t, "--title", "旧浏览器里的茶具", "--stock", "3")
	v := visit(t, root, s.URL, "zh-CN")
	v.forgets()
	opened := 0
	opens := func(path string) {
		t.Helper()
		opened++
		v.goTo(strings.Replace(path, "#", fmt.Sprintf("?%d#", opened), 1)) // another hash alone would not load the page again
		v.until(path+" has started", settled)
		if lost := v.evaluates(`document.documentElement.dataset.lost ?? ''`); lost != "" {
			t.Errorf("%s says that it lost its %s", path, lost)
		}
	}
	opens("/")
	for _, gone := range []string{"AbortSignal.timeout", "[].toSorted", "window.Notification", "[].values().map", "Map.groupBy", "document.startViewTransition"} {
		if has := v.evaluates("typeof " + gone); has != "undefined" {
			t.Errorf("the browser still has %s: %s", gone, has)
		}
	}
	for _, path := range pagesOf(sale, "") {
		opens(path)
	}
	for _, part := range []string{"bench", "strategies", "race", "without", "2"} {
		opens("/lab.html#" + part)
	}

	v.isLoggedIn(s.user(t).Token)
	opens("/sale.html?id=" + sale)
	v.clicks("buy")
	v.solves(s, sale)
	v.sees(view("ordered"))
	v.clicks("pay-now")
	v.clicks("pay-confirm")
	v.sees(test("order-status") + `[data-status="paid"]`)
	order := strings.TrimPrefix(v.evaluates(`location.search`), "?id=")
	for _, path := range pagesOf(sale, order) {
		opens(path)
	}
	v.isLoggedIn(s.keeper(t))
	for _, path := range []string{"/", "/account.html", "/teach.html", "/lab.html", "/admin.html#sales/" + sale, "/admin.html#orders/" + order, "/admin.html#ticket/" + order, "/admin.html#live/" + sale} {
		opens(path)
	}
	for _, section := range staffPages {
		opens("/admin.html#" + section)
	}
	v.hasNoErrors()
}
