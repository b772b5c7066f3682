package web_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// bots are programs that want one unit of the same sale each.
type bots struct {
	sync.WaitGroup // of what they do now
	buyers         []*sandboxtest.Buyer
	deadline       time.Time // a guard
}

// bots makes 300 of them, with sessions and hidden addresses.
func (shop testShop) bots(sale string) *bots {
	shop.t.Helper()
	return &bots{buyers: shop.Buyers(shop.t, 300, sale)}
}

// rush lets every buyer who has no order try to buy. It returns at once. An earlier rush must be over.
func (all *bots) rush() {
	all.deadline = time.Now().Add(2 * sandboxtest.Hang)
	for _, b := range all.buyers {
		if b.OrderID == "" {
			all.Go(func() { b.Buy(all.deadline) })
		}
	}
}

// buyAll lets those without an order try again until n have one: some have left before the last units came to the gate.
func (all *bots) buyAll(t *testing.T, n int) {
	t.Helper()
	sandboxtest.Until(t, fmt.Sprintf("%d buyers have an order", n), func() bool {
		all.rush()
		all.Wait()
		have := 0
		for _, b := range all.buyers {
			if b.OrderID != "" {
				have++
			}
		}
		return have == n
	})
}

// An evening of the shopkeeper, without SQL: a draft is published, 300 programs buy while the staff pauses, resumes
// and adds units, then the orders go into a file and the paid ones are refunded. The audit finds nothing.
func TestAWholeEvening(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	admin := shop.staff("13900001111", "admin", "")
	do := func(path, body string) sandboxtest.Reply {
		t.Helper()
		r := shop.insist("/api/admin/"+path, admin, body) // a row that the crowd keeps locked for too long changes nothing
		if r.Code != "ok" {
			t.Fatalf("%s: %d %s", path, r.Status, r.Raw)
		}
		return r
	}
	var sale struct{ ID int64 }
	window := fmt.Sprintf(`"start_at":%q,"end_at":%q`, time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	do("sales", `{"title":"青瓷茶具","state":"draft","price":990,"stock":100,`+window+`}`).Read(t, &sale)
	at := fmt.Sprintf("sales/%d/", sale.ID)
	do(at+"publish", "")
	bots := shop.bots(fmt.Sprint(sale.ID))
	bots.rush()
	do(at+"pause", "")
	do(at+"units", `{"delta":20}`)
	do(at+"resume", "")
	bots.Wait()
	bots.buyAll(t, 120)
	for i, b := range bots.buyers {
		if b.OrderID == "" {
			continue
		}
		if i%2 == 0 {
			if r := b.Pay(bots.deadline, b.OrderID); r.Status != 200 {
				t.Errorf("pay: %d %s", r.Status, r.Raw)
			}
		}
	}
	do(at+"close", "")
	file := string(shop.call("GET", fmt.Sprintf("/api/admin/orders.csv?sale=%d", sale.ID), admin, "").Raw)
	if lines := strings.Count(file, "\r\n"); lines != 120+1 {
		t.Errorf("the file has %d lines, want one for each of 120 orders and a header", lines)
	}
	for query, begins := range map[string]string{"": "\ufeff订单 ID,", "&lang=en": "\ufefforder,sale,", "&lang=zh": "\ufeff订单 ID,", "&lang=zh&raw=true": "order,sale,", "&raw=1": `{"code":"bad_request"`, "&lang=fr": `{"code":"bad_request"`} {
		if text := string(shop.call("GET", fmt.Sprintf("/api/admin/orders.csv?sale=%d%s", sale.ID, query), admin, "").Raw); !strings.HasPrefix(text, begins) {
			t.Errorf("the file with %q begins with %.60s", query, text)
		}
	}
	var cursor string
	for {
		var refunds struct{ Next string }
		do("refunds", fmt.Sprintf(`{"sale":%d%s}`, sale.ID, cursor)).Read(t, &refunds)
		if refunds.Next == "" {
			break
		}
		cursor = fmt.Sprintf(`,"cursor":%q`, refunds.Next)
	}
	var paid struct{ Orders []struct{} }
	shop.call("GET", fmt.Sprintf("/api/admin/orders?sale=%d&status=paid", sale.ID), admin, "").Read(t, &paid)
	if len(paid.Orders) > 0 {
		t.Errorf("%d orders are still paid", len(paid.Orders))
	}
	if out, errs, code := sandboxtest.Command(t, shop.env, "audit"); code != 0 {
		t.Errorf("the audit: exit %d\n%s%s", code, out, errs)
	}
}
