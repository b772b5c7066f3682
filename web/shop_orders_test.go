package web_test

import (
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

func TestOrderIsPaidOnce(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	sale := shop.sale("--stock", "10")
	me := shop.tokens(1)[0]
	order := shop.order(sale, me)
	var p, again struct {
		ID  string `json:"payment_id"`
		URL string `json:"pay_url"`
	}
	shop.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &p)
	shop.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &again)
	if p != again || !strings.HasPrefix(p.URL, "/pay.html?") {
		t.Errorf("two payments: %v and %v", p, again)
	}
	if r := shop.call("POST", "/api/cashier/"+p.ID, me, `{"action":"decline"}`); r.Code != "ok" || shop.status(order, me) != "pending" {
		t.Errorf("decline: %d %s, order %s", r.Status, r.Raw, shop.status(order, me))
	}
	shop.call("POST", "/api/orders/"+order+"/pay", me, "").Read(t, &again)
	if p.ID == again.ID {
		t.Errorf("a declined payment is opened again")
	}
	for range 2 { // a second confirm changes nothing
		if r := shop.call("POST", "/api/cashier/"+again.ID, me, `{"action":"confirm"}`); r.Code != "ok" || string(r.Data) != `{"status":"captured"}` {
			t.Errorf("confirm: %d %s", r.Status, r.Raw)
		}
	}
	if shop.status(order, me) != "paid" {
		t.Errorf("order is %s", shop.status(order, me))
	}
	for _, act := range []string{"/pay", "/cancel"} {
		if r := shop.call("POST", "/api/orders/"+order+act, me, ""); r.Code != "wrong_status" {
			t.Errorf("%s a paid order: %d %s", act, r.Status, r.Code)
		}
	}
}

// The unit of a cancelled order is on sale again, also the unit of the order that was bought with it.
func TestACancelledUnitIsOnSaleAgain(t *testing.T) {
	t.Parallel()
	sharedShop(t).sellAgain(3)
}

// sellAgain sells one unit n times, each time after the order before was cancelled, and returns how long the unit was
// gone.
func (shop testShop) sellAgain(n int) (took []time.Duration) {
	t := shop.t
	t.Helper()
	sale := shop.sale("--stock", "1")
	tokens := shop.tokens(n + 1)
	left := func() (n int) {
		var page struct{ Left int }
		shop.call("GET", "/api/sales/"+sale, "", "").Read(t, &page)
		return page.Left
	}
	order := shop.order(sale, tokens[0])
	for i, next := range tokens[1:] {
		if r := shop.insist("/api/sales/"+sale+"/path", next, ""); r.Code != "sold_out" {
			t.Errorf("the next buyer: %d %s", r.Status, r.Code)
		}
		if r := shop.insist("/api/orders/"+order+"/cancel", tokens[i], ""); r.Code != "ok" {
			t.Fatalf("cancel: %d %s", r.Status, r.Code)
		}
		began := time.Now()
		sandboxtest.Until(t, "the unit is on sale again", func() bool {
			return shop.call("POST", "/api/sales/"+sale+"/path", next, "").Code == "ok" && left() == 1
		})
		took = append(took, time.Since(began))
		order = shop.order(sale, next)
	}
	if r := shop.insist("/api/sales/"+sale+"/buy/"+shop.address(sale, tokens[n]), tokens[n], ""); r.Status != 202 || !strings.Contains(string(r.Data), order) {
		t.Errorf("the last buyer buys again: %d %s; want the old order", r.Status, r.Raw)
	}
	return took
}

func TestShopNamesAreChecked(t *testing.T) {
	for name, right := range map[string]bool{"": true, "小店": true, strings.Repeat("店", 40): true,
		strings.Repeat("店", 41): false, "a\nb": false, "\u202eb": false} {
		cfg := web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", ShopName: name}
		if err := cfg.Validate(); (err == nil) != right {
			t.Errorf("--shop-name %q: %v", name, err)
		}
	}
}
