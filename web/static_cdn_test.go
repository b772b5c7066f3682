package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"miaosha/web"
)

// A CDN that passes on what the shop answers, and nothing else, serves all files of the pages.
func TestPagesLoadTheirFilesFromTheCDN(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	var shopURL atomic.Pointer[url.URL]
	cdn := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/shop")
		r.SetURL(shopURL.Load())
	}})
	t.Cleanup(cdn.Close)
	shop := openShop(t, "MIAOSHA_ASSET_URL="+cdn.URL+"/shop/")
	at, err := url.Parse(shop.URL)
	if err != nil {
		t.Fatal(err)
	}
	shopURL.Store(at)
	sale := shop.sale("--image", "goods/teaset.svg")
	v := visit(t, root, shop.URL, "zh-CN")
	for page, part := range map[string]string{"/": "countdown", "/sale.html?id=" + sale: "countdown", "/lab.html": ""} {
		v.goTo(page)
		if part != "" {
			v.sees(test(part))
		}
		v.until(page+" has loaded its files from the CDN", `document.querySelector('main:not([aria-busy])') !== null &&
			[...document.images].filter(i => i.loading !== 'lazy').every(i => i.naturalWidth > 0 && !i.src.includes('parcel'))`)
		v.until(page+" loads no file from the shop", `performance.getEntriesByType('resource').filter(r => r.name.includes('/static/')).length > 3 &&
			performance.getEntriesByType('resource').filter(r => r.name.includes('/static/')).every(r => r.name.startsWith('`+cdn.URL+`/shop/static/'))`)
	}
	v.hasNoErrors()
}

// The policy names the CDN for what it serves, and the shop alone for the rest. Only files may be read by other origins.
func TestThePolicyFollowsTheCDN(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_ASSET_URL=https://cdn.example/shop")
	page := shop.call("GET", "/", "", "")
	const files = "'self' https://cdn.example/shop/static/"
	want := "default-src 'none'; script-src " + files + "; style-src " + files + "; img-src " + files + " data: blob:; connect-src 'self'; " +
		"font-src " + files + "; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if got := page.Header.Get("Content-Security-Policy"); got != want {
		t.Errorf("the policy is %s", got)
	}
	_, file, found := strings.Cut(string(page.Raw), `src="https://cdn.example/shop`)
	file, _, _ = strings.Cut(file, `"`)
	if !found {
		t.Fatalf("the page has no script from the CDN: %s", page.Raw)
	}
	for path, want := range map[string]string{file: "*", "/": "", "/api/sales": "", "/api/slots": ""} {
		r := shop.call("GET", path, "", "")
		if got := r.Header.Get("Access-Control-Allow-Origin"); r.Status != http.StatusOK || got != want {
			t.Errorf("%s: %d, Access-Control-Allow-Origin %q, want %q", path, r.Status, got, want)
		}
	}
}

func TestAssetURLsAreChecked(t *testing.T) {
	t.Parallel()
	for at, good := range map[string]bool{"": true, "https://cdn.example": true, "https://cdn.example/": true, "http://10.0.0.1:8080/a/b": true,
		"cdn.example": false, "//cdn.example": false, "https://cdn.example/?a=b": false, "https://cdn.example/a;b": false,
		"https://me:x@cdn.example": false, "https://cdn.example 'unsafe-inline'": false, "https://CDN.example": false, "/": false} {
		cfg := web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", AssetURL: at}
		if err := cfg.Validate(); (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), "--asset-url (MIAOSHA_ASSET_URL): ") {
			t.Errorf("%q: %v", at, err)
		}
	}
}
