package web_test

import (
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestOpsAreBesideTheShop(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_OPS_ADDR=127.0.0.1:0")
	shop.order(shop.sale(), shop.tokens(1)[0])
	ops := shop.opsURL()
	for path, want := range map[string]string{"/metrics": "miaosha_tickets_granted_total 1\n", "/healthz": "ok", "/readyz": `"postgres":"ok"`, "/debug/pprof/": "goroutine"} {
		if r := sandboxtest.Call("GET", ops+path, "", ""); r.Status != 200 || !strings.Contains(string(r.Raw), want) {
			t.Errorf("%s%s: %d, want 200 with %q", ops, path, r.Status, want)
		}
	}
	if r := sandboxtest.Call("GET", ops+"/debug/pprof/cmdline", "", ""); r.Status != 404 {
		t.Errorf("the command line, which may have secrets: %d %s", r.Status, r.Raw)
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/pprof/"} {
		if r := shop.call("GET", path, "", ""); r.Status != 404 {
			t.Errorf("%s on the shop's own address: %d, want 404", path, r.Status)
		}
	}
}
