package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// In an outage a page has one headline, which names the cause, and says how old its figures are. All of it goes when it is over. A
// buyer sees the place in a long queue. In the end the buyer pays too late, and reads where the money went.
func TestAnOutageHasOneVoice(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := sharedShop(t)
	sale := s.sale()
	shop, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	var outage atomic.Value // what the shop answers to each request of a script
	outage.Store("")
	proxy := httputil.NewSingleHostReverseProxy(shop)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(status int, body string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
		switch cause := outage.Load().(string); {
		case !strings.HasPrefix(r.URL.Path, "/api/") || cause == "":
			proxy.ServeHTTP(w, r)
		case strings.HasPrefix(cause, "ahead "): // a long queue
			if strings.HasSuffix(r.URL.Path, "/result") {
				answer(200, `{"code":"ok","data":{"state":"queued","ahead":`+strings.TrimPrefix(cause, "ahead ")+`,"next_poll_ms":100}}`)
			} else if strings.HasSuffix(r.URL.Path, "/events") {
				answer(404, `{"code":"not_found"}`)
			} else {
				proxy.ServeHTTP(w, r)
			}
		case cause == "old":
			w.Header().Set("Age", "30")
			w.Header().Set("Warning", `110 - "Response is Stale"`)
			proxy.ServeHTTP(w, r)
		case cause == "busy":
			answer(503, `{"code":"busy"}`)
		case cause == "broken":
			answer(500, `{"code":"internal"}`)
		default: // offline: a proxy in front of a shop that is down
			answer(502, "<html>")
		}
	}))
	t.Cleanup(server.Close)
	v := visit(t, root, server.URL, "en-GB")
	reads := func(cause string) { // now, and not with the next poll
		outage.Store(cause)
		v.evaluates(`document.dispatchEvent(new Event('visibilitychange')); ''`)
	}
	const headline = `[data-test="trouble"] b`
	headlines := map[string]string{"offline": "The shop cannot be reached", "busy": "The shop cannot answer right now", "broken": "Something went wrong on our side"}

	v.isLoggedIn(s.tokens(1)[0])
	v.goTo("/")
	v.sees(test("sale-card"))
	reads("old")
	v.until("the age is shown", `/3\d s old/.test(document.querySelector('[data-test="age"]')?.innerText)`)
	for _, page := range []string{"/", "/orders.html", "/sale.html?id=" + sale} {
		outage.Store("")
		v.goTo(page)
		v.until("it has what it needs", `document.querySelector('main [data-test="sale-card"], main .blank a, [data-view="open"]') !== null`)
		for cause, want := range headlines {
			reads(cause)
			v.becomes("the headline of "+page, `[...document.querySelectorAll('`+headline+`')].map((b) => b.innerText).join()`, want)
		}
		v.until("the age is shown", `/ \d+ s old/.test(document.querySelector('[data-test="age"]')?.innerText)`)
		reads("")
		v.until("no note is left", `document.querySelector('.note:not([hidden])') === null`)
	}
	// The place in a queue, a bar that falls with it, and an estimate.
	const place = `(q => q.innerText.trim().replace(/\d+ s/, '# s') + ' ' + (document.querySelector('[data-view="queue"] .bar i')?.style.width ?? ''))(document.querySelector('[data-test="queue"]'))`
	outage.Store("ahead 200")
	v.goTo("/sale.html?id=" + sale)
	v.becomes("the place", place, "200 people ahead of you 100%")
	outage.Store("ahead 50")
	v.becomes("the place", place, "50 people ahead of you about # s to go 25%")
	other := v.tab("en-GB")
	other.goTo("/orders.html")
	other.becomes("the badge of another page", `document.querySelector('[data-test="badge"]')?.innerText.trim().replace(/\s+/g, ' ')`, "In the queue 50 people ahead of you")
	outage.Store("ahead 0")
	v.becomes("the place", place, "You are next ")
	outage.Store("")
	other.goTo("/")
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("open"))

	outage.Store("busy")
	v.clicks("buy")
	v.sees(view("busy"))
	v.becomes("the panel", `document.querySelector('[data-view="busy"] h2')?.innerText`, headlines["busy"])
	outage.Store("offline")
	v.becomes("the panel", `document.querySelector('[data-view="busy"] h2')?.innerText`, headlines["offline"])
	v.until("the panel alone names the cause", `document.querySelector('[data-test="trouble"]') === null`)
	outage.Store("")
	v.sees(view("ordered"))
	v.until("no note is left", `document.querySelector('.note:not([hidden])') === null`)

	// Money that comes after the order was cancelled goes back, and the order says so.
	v.clicks("pay-now")
	v.sees(test("pay-confirm"))
	v.until("the order is cancelled", `fetch('/api/orders/' + new URLSearchParams(location.search).get('order') + '/cancel', { method: 'POST' }).then((r) => r.ok)`)
	v.clicks("pay-confirm")
	v.sees(test("payment") + `[data-status="refunded"]`)
	if text := v.reads("article"); !strings.Contains(text, "arrived too late") || !strings.Contains(text, "¥9.90 received after the order was cancelled. Refunded at ") {
		t.Errorf("the order whose money went back says %q", text)
	}
	v.hasNoErrors()
}
