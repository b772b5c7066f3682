package web_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestOpsAreBesideTheShop(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.order(shop.sale(), shop.tokens(1)[0])
	ops := shop.opsURL()
	for path, want := range map[string]string{"/": `href="/debug/pprof/"`, "/metrics": "miaosha_tickets_granted_total 1\n", "/healthz": "ok", "/readyz": `"postgres":"ok"`, "/hot": `"sales":[]`, "/debug/pprof/": "goroutine"} {
		if r := sandboxtest.Call("GET", ops+path, "", ""); r.Status != 200 || !strings.Contains(string(r.Raw), want) {
			t.Errorf("%s%s: %d, want 200 with %q", ops, path, r.Status, want)
		}
	}
	if r := sandboxtest.Call("GET", ops+"/nothing", "", ""); r.Status != 404 {
		t.Errorf("an unknown address: %d, want 404", r.Status)
	}
	if r := sandboxtest.Call("GET", ops+"/debug/pprof/cmdline", "", ""); r.Status != 404 {
		t.Errorf("the command line, which may have secrets: %d %s", r.Status, r.Raw)
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/hot", "/debug/pprof/"} {
		if r := shop.call("GET", path, "", ""); r.Status != 404 {
			t.Errorf("%s on the shop's own address: %d, want 404", path, r.Status)
		}
	}
}

// A sale that receives many clicks is shown to the operator as hot, and its log line comes once. When it is paused, it is gone,
// and when it goes on, its former clicks do not make it hot again.
func TestHotSaleIsShownToTheOperator(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0", "MIAOSHA_RATE=off", "MIAOSHA_HOT_CLICKS=2", "MIAOSHA_HOT_FACTOR=2", "MIAOSHA_LOG_FORMAT=text")
	shop.sale() // a cold one
	sale, buyer := shop.sale("--stock", "1"), shop.tokens(1)[0]
	ops, path := shop.opsURL(), shop.address(sale, buyer)
	report := func() (r struct {
		Sales []struct {
			Sale   int64
			Clicks float64 `json:"clicks_per_second"`
			Left   int
		}
		Open int
	}) {
		if err := json.Unmarshal(sandboxtest.Call("GET", ops+"/hot", "", "").Raw, &r); err != nil {
			t.Error(err)
		}
		return r
	}
	const series = "miaosha_hot_sale_clicks_per_second{"
	metrics := func() string { return string(sandboxtest.Call("GET", ops+"/metrics", "", "").Raw) }
	if r := report(); len(r.Sales) != 0 || strings.Contains(metrics(), series) {
		t.Errorf("%+v before the first click", r)
	}
	var clicks sync.WaitGroup
	enough := make(chan struct{})
	for range 4 { // without a pause, so that the sale stays hot once it is
		clicks.Go(func() {
			for {
				shop.call("POST", "/api/sales/"+sale+"/buy/"+path, buyer, "")
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	sandboxtest.Until(t, "the sale is hot", func() bool {
		r := report()
		if len(r.Sales) == 0 {
			return false
		}
		if fmt.Sprint(r.Sales[0].Sale) != sale || r.Sales[0].Clicks < 2 || r.Open != 2 {
			t.Errorf("%+v, want sale %s of two", r, sale)
		}
		return true
	})
	if got := metrics(); !strings.Contains(got, series+`sale="`+sale+`"} `) || strings.Count(got, series) != 1 {
		t.Errorf("the metrics do not show sale %s alone", sale)
	}
	close(enough)
	clicks.Wait()
	set := func(state string) {
		if _, err := shop.connect().Exec(t.Context(), `update sales set state = $2 where id = $1`, sale, state); err != nil {
			t.Fatal(err)
		}
	}
	set("paused")
	sandboxtest.Until(t, "the sale is not hot any more", func() bool { return len(report().Sales) == 0 })
	if strings.Contains(metrics(), series) {
		t.Error("the metrics show a paused sale")
	}
	set("published")
	sandboxtest.Until(t, "the sale is measured again", func() bool { return report().Open == 2 })
	if r := report(); len(r.Sales) != 0 {
		t.Errorf("%+v after a pause, and no click since", r)
	}
	for _, line := range []string{`msg="a sale is hot" sale=` + sale, `msg="a hot sale has cooled down" sale=` + sale} {
		if n := strings.Count(shop.Log.String(), line); n != 1 {
			t.Errorf("%d log lines %s, want 1:\n%s", n, line, shop.Log)
		}
	}
}
