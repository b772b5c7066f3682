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
	shop := openShop(t, "MIAOSHA_RATE=off")
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
	shop.checkAudit()
}

func TestLatencyUntilACancelledUnitIsOnSale(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off")
	sale := shop.sale("--stock", "1")
	tokens := shop.tokens(6)
	left := func() (n int) {
		var page struct{ Left int }
		shop.call("GET", "/api/sales/"+sale, "", "").Read(t, &page)
		return page.Left
	}
	order := shop.order(sale, tokens[0])
	limit := 2 * time.Second // the first time, because the gate may still have the ticket in flight
	for _, next := range tokens[1:] {
		if r := shop.call("POST", "/api/sales/"+sale+"/path", next, ""); r.Code != "sold_out" {
			t.Errorf("the next buyer: %d %s", r.Status, r.Code)
		}
		if r := shop.call("POST", "/api/orders/"+order+"/cancel", tokens[0], ""); r.Code != "ok" {
			t.Fatalf("cancel: %d %s", r.Status, r.Code)
		}
		began := time.Now()
		address := shop.call("POST", "/api/sales/"+sale+"/path", next, "")
		for ; address.Code != "ok" || left() != 1; address = shop.call("POST", "/api/sales/"+sale+"/path", next, "") {
			if time.Since(began) > sandboxtest.Within(limit) {
				t.Fatalf("the unit is not on sale again after %v: %s, %d left", time.Since(began), address.Code, left())
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("back on sale after %v", time.Since(began))
		order, tokens[0], limit = shop.order(sale, next), next, 100*time.Millisecond
	}
	if r := shop.call("POST", "/api/sales/"+sale+"/buy/"+shop.address(sale, tokens[0]), tokens[0], ""); r.Status != 202 || !strings.Contains(string(r.Data), order) {
		t.Errorf("the last buyer buys again: %d %s; want the old order", r.Status, r.Raw)
	}
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
