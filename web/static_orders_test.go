package web_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A buyer says where the parcel goes and pays. The staff finds the order, ships it and refunds it, and the buyer sees both. Then
// the staff opens each section: none is wider than the screen or writes an error into the console.
func TestStaffWorkOnOrders(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	shop := openMatrixShop(t)
	const phone = "13900003333"
	_, made, _ := strings.Cut(sandboxtest.MustCommand(t, shop.env, "admin", "--phone", phone, "--by", "13900001111"), "password: ")
	if _, err := shop.connect().Exec(t.Context(), `update users set password_due = false where phone = $1`, phone); err != nil {
		t.Fatal(err)
	}
	buyer := visit(t, root, shop.URL, "zh-CN")
	buyer.emulates(320, 900, "prefers-color-scheme", "light")
	buyer.isLoggedIn(shop.tokens[owner])
	buyer.goTo("/order.html?id=" + shop.order)
	buyer.clicks("save-address")
	buyer.sees("#name-error")
	for field, text := range map[string]string{"name": "李雷", "phone": "13811112222", "address": "北京市海淀区中关村大街 1 号"} {
		buyer.enters(chromedp.CSS("#"+field), text, "")
	}
	buyer.fits(320)
	buyer.shoots("order-address-phone-zh-light")
	buyer.clicks("save-address")
	buyer.sees(test("address"))
	if r := shop.ask("POST", "/api/cashier/"+shop.payment, shop.tokens[owner], `{"action":"confirm"}`); r.Status != 200 {
		t.Fatal(outcome(r))
	}
	for i, device := range []struct {
		name, language, color string
		width                 int64
	}{{"phone-en-dark", "en-GB", "dark", 320}, {"desktop-zh-light", "zh-CN", "light", 1280}} {
		v := visit(t, root, shop.URL, device.language)
		v.emulates(device.width, 900, "prefers-color-scheme", device.color)
		v.goTo("/login.html?next=/admin.html")
		v.types("phone", phone)
		v.types("password", strings.TrimSpace(made)+"\r")
		v.clicks("section-orders")
		v.chooses("status", "paid")
		v.clicks("search")
		v.until("the filter is in the address", `location.hash === '#orders?status=paid'`)
		v.sees(chromedp.CSS(`[data-order="` + shop.order + `"][data-status="paid"]`))
		v.fits(device.width)
		v.shoots("admin-orders-" + device.name)
		v.do("open the order", click(chromedp.CSS(`[data-order="`+shop.order+`"] a`)))
		if got := v.reads(test("address")); !strings.Contains(got, "中关村") {
			t.Errorf("the staff sees the address %q", got)
		}
		v.fits(device.width)
		v.shoots("admin-order-" + device.name)
		if i == 0 {
			v.enters("#carrier", "SF", "")
			v.enters("#tracking", "SF1", "")
			v.clicks("ship")
			v.sees(test("shipped"))
			buyer.goTo("/order.html?id=" + shop.order)
			if got := buyer.reads(test("shipped")); !strings.Contains(got, "SF1") {
				t.Errorf("the buyer sees %q", got)
			}
			buyer.shoots("order-shipped-phone-zh-light")
		} else {
			v.clicks("refund")
			v.clicks("refund-yes")
			v.sees(`[data-test="order-file"][data-status="refunded"]`)
		}
		sections := strings.Fields(v.evaluates(`[...document.querySelectorAll('nav.parts a')].map((a) => a.dataset.test).join(' ')`))
		if len(sections) < 8 {
			t.Errorf("the sections are %v, want 8 or more", sections)
		}
		for _, section := range sections {
			v.clicks(section)
			v.until(section+" is there", `document.querySelector('nav.parts [aria-current]').dataset.test === '`+section+`'
				&& document.querySelector('nav.parts').nextElementSibling !== null && !document.querySelector('main p.blank[role="status"]')`)
			v.fits(device.width)
			v.shoots("admin-" + section + "-" + device.name)
		}
		v.hasNoErrors()
	}
	buyer.goTo("/order.html?id=" + shop.order)
	buyer.sees(`[data-test="order-status"][data-status="refunded"]`)
	buyer.hasNoErrors()
}
