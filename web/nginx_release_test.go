package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"miaosha/seckill/sandbox/sandboxtest"
)

var filesOfPage = regexp.MustCompile(`/static/([0-9a-f]{16})/early\.js`)

// release is a shop as a process of another release shows it: its files have another hash, and it does not know those of the shop.
// What takes the place of an answer to a request, if it is not nil, is written by instead.
type release struct {
	*httptest.Server
	own, hash string // of the shop, and of this release

	mu      sync.Mutex
	instead func(w http.ResponseWriter, r *http.Request) bool
}

// anotherRelease returns a release of the shop at shopURL.
func anotherRelease(t *testing.T, shopURL, hash string) *release {
	t.Helper()
	found := filesOfPage.FindSubmatch(sandboxtest.Call("GET", shopURL+"/", "", "", "Accept-Encoding", "identity").Raw)
	if found == nil {
		t.Fatal("the page does not name early.js")
	}
	target, err := url.Parse(shopURL)
	if err != nil {
		t.Fatal(err)
	}
	o := &release{own: string(found[1]), hash: hash}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.URL.Path = strings.Replace(r.In.URL.Path, "/static/"+o.own+"/", "/static/none/", 1)
		r.Out.URL.Path = strings.Replace(r.Out.URL.Path, "/static/"+o.hash+"/", "/static/"+o.own+"/", 1)
		r.Out.Header.Set("Accept-Encoding", "identity")
		r.Out.Header.Del("If-None-Match")
	}, ModifyResponse: func(r *http.Response) error {
		if kind := r.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/html") && !strings.HasPrefix(kind, "application/json") {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		body = bytes.ReplaceAll(body, []byte(o.own), []byte(o.hash))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }} // the browser went away
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		instead := o.instead
		o.mu.Unlock()
		if instead == nil || !instead(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(o.Close)
	return o
}

// answers sets what is answered instead: instead writes the answer to a request, or returns false.
func (o *release) answers(instead func(w http.ResponseWriter, r *http.Request) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.instead = instead
}

// keepsNoFiles makes the visitor's browser ask for each file each time.
func (v *visitor) keepsNoFiles() {
	v.t.Helper()
	v.do("keep no files", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
		return err
	}))
}

// While two releases run beside each other, deploy/nginx.conf serves each page with its files, whichever process nginx asks first.
// The files of a page that neither has are a 404.
func TestTwoReleasesBehindNginx(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	root := chromium(t)
	shop := sharedSandbox(t)
	other := anotherRelease(t, shop.URL, "0123456789abcdef")
	sale := shop.sale(t, "--title", "两版茶具")
	now, next := strings.TrimPrefix(shop.URL, "http://"), other.Listener.Addr().String()
	for _, servers := range [][]string{{now, next}, {next, now}} {
		at := "http://" + sandboxtest.Nginx(t, string(conf), servers...)[0]
		v := visit(t, root, at, "en-GB")
		v.keepsNoFiles()
		seen := map[string]int{}
		for n := 0; n < 5 || len(seen) < 2 && n < 50; n++ { // it is nginx that chooses
			sandboxtest.Call("GET", at+"/api/slots", "", "")
			for _, page := range []string{"/", "/sale.html?id=" + sale} {
				v.goTo(page)
				v.until(page+" has started", `document.getElementById('main') !== null && document.querySelector('[data-test="countdown"]') !== null`)
				seen[v.evaluates(`document.querySelector('script[src$="early.js"]').src.split('/')[4]`)]++
			}
		}
		if len(seen) != 2 || seen[other.hash] == 0 {
			t.Errorf("pages of each release: %v, want both %s and %s", seen, other.own, other.hash)
		}
		for _, hash := range []string{other.own, other.hash} {
			for range 4 {
				if r := sandboxtest.Call("GET", at+"/static/"+hash+"/app.css", "", ""); r.Status != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
					t.Errorf("a file of %s: %d %v", hash, r.Status, r.Header)
				}
			}
		}
		for _, path := range []string{"/static/fedcba9876543210/app.css", "/static/" + other.hash + "/none.css"} {
			if r := sandboxtest.Call("GET", at+path, "", ""); r.Status != 404 || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %d %v", path, r.Status, r.Header)
			}
		}
		// The 404s have taken neither process away: both are still asked.
		seen = map[string]int{}
		sandboxtest.Until(t, "pages of both releases come after the 404s, too", func() bool {
			seen[string(filesOfPage.FindSubmatch(sandboxtest.Call("GET", at+"/", "", "", "Accept-Encoding", "identity").Raw)[1])]++
			return len(seen) == 2
		})
		v.hasNoErrors()
	}
}
