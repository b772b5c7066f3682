package web_test

import (
	"strings"
	"testing"
)

func TestPagesAreCachedAndCompressed(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	for _, page := range []string{"/", "/sale.html", "/login.html", "/orders.html", "/order.html", "/pay.html"} {
		r := shop.call("GET", page, "", "", "Accept-Encoding", "gzip")
		etag := r.Header.Get("ETag")
		if r.Status != 200 || etag == "" {
			t.Errorf("%s: %d, ETag %q", page, r.Status, etag)
		}
		wantHeaders(t, page, r.Header, map[string]string{"Content-Encoding": "gzip", "Cache-Control": "no-cache"})
		if r := shop.call("GET", page, "", "", "If-None-Match", etag); r.Status != 304 || len(r.Raw) != 0 {
			t.Errorf("%s again: %d", page, r.Status)
		}
		plain := shop.call("GET", page, "", "", "Accept-Encoding", "identity")
		if plain.Header.Get("Content-Encoding") != "" || !strings.Contains(string(plain.Raw), "</html>") {
			t.Errorf("%s plain: %v", page, plain.Header)
		}
		assets := 0
		for _, part := range strings.Split(string(plain.Raw), `"`) {
			if !strings.HasPrefix(part, "/static/") {
				continue
			}
			assets++
			for _, coding := range []string{"zstd", "gzip", "identity", "zstd;q=0, gzip"} {
				a := shop.call("GET", part, "", "", "Accept-Encoding", coding)
				want := strings.TrimPrefix(coding, "zstd;q=0, ")
				if a.Status != 200 {
					t.Errorf("%s as %s: %d", part, coding, a.Status)
				}
				got := a.Header.Get("Content-Encoding")
				if small := len(a.Raw) < 500; got != want && !(got == "" && (want == "identity" || small)) {
					t.Errorf("%s as %s: encoding %q", part, coding, got)
				}
				if !strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
					t.Errorf("%s: %v", part, a.Header)
				}
			}
		}
		if assets == 0 {
			t.Errorf("%s has no assets", page)
		}
	}
	r := shop.call("GET", "/", "", "", "Accept-Encoding", "identity")
	for _, part := range []string{" style=", "<script>", " onclick=", "javascript:"} {
		if strings.Contains(string(r.Raw), part) {
			t.Errorf("the page has %s, which its policy forbids", part)
		}
	}
}
