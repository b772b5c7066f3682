package web_test

import (
	"strings"
	"testing"
)

// The title and the description of a sale are shown as text on every page, even if they look like
// code.
func TestHostileNamesAreTextOnEveryPage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	const shop = `"><i onclick=window.pwned=1>小店`
	s := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_SHOP_NAME="+shop) // three purchases in a second or two
	const detail = `"><script>window.pwned=1</script><svg onload=window.pwned=1><a href="javascript:window.pwned=1">x</a>` +
		`{{pwned}}${window.pwned=1}`
	names := []string{`<img src=x onerror=window.pwned=1>`, `=cmd()`, `'"></h1><iframe srcdoc="<script>parent.pwned=1</script>">`}
	var sales []string
	for _, name := range names {
		sales = append(sales, s.sale("--title", name, "--detail", detail))
	}
	v := visit(t, root, s.URL, "en-GB")
	intact := func(page string) {
		t.Helper()
		for _, bad := range []string{`window.pwned !== undefined`, // the content policy alone prevents it
			`document.querySelector('img[src="x"], svg[onload], iframe, a[href^="javascript:"], main script') !== null`} {
			if ask(v, "look for code", here[bool](bad)) {
				t.Errorf("%s: %s", page, bad)
			}
		}
	}
	shows := func(page, text string) {
		t.Helper()
		v.until(page+" shows "+text, `document.body.innerText.includes(`+quoted(text)+`)`)
		intact(page)
	}
	buyer := s.newBuyers(1)[0]
	if _, err := s.connect().Exec(t.Context(), `update users set nickname = $2 where id = $1`, buyer.ID, `<img src=x onerror=pwned=1>`); err != nil {
		t.Fatal(err)
	}
	v.isLoggedIn(buyer.Token)
	v.goTo("/")
	v.sees(test("sale-card"))
	shows("the header", `<img src=x onerror=pwned=1>`)
	for _, name := range names {
		shows("the list", name)
	}
	for i, sale := range sales {
		v.goTo("/sale.html?id=" + sale)
		v.sees(view("open"))
		shows("the sale", names[i])
		shows("the sale", detail)
		v.clicks("buy")
		v.sees(view("ordered"))
		shows("the sale, ordered", names[i])
		v.clicks("pay-now")
		v.sees(test("pay-confirm"))
		shows("the cashier", names[i])
		v.clicks("pay-confirm")
		v.sees(test("order-status") + `[data-status="paid"]`)
		shows("the order", names[i])
		shows("the order", "Seller\n"+shop)
		v.goTo("/orders.html")
		v.sees(test("order"))
		shows("the orders", names[i])
	}
	for _, at := range []string{"/login.html?next=javascript:window.pwned=1", "/login.html?next=//evil.example",
		"/sale.html?id=%3Cimg%20src=x%20onerror=window.pwned=1%3E", "/order.html?id=%22%3E%3Cimg%20src=x%20onerror=window.pwned=1%3E",
		"/pay.html?payment=%3Cscript%3Ewindow.pwned=1%3C/script%3E&order=x"} {
		v.goTo(at)
		v.until("the page is there", `document.querySelector('main') !== null && document.querySelector('main').innerText !== ''`)
		intact(at)
		here := v.evaluates(`location.href`)
		if !strings.HasPrefix(here, s.URL) {
			t.Errorf("%s leads to %s", at, here)
		}
	}
}
