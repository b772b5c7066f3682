package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	queued  = `{"code":"ok","data":{"state":"queued","next_poll_ms":1}}`
	ordered = `{"code":"ok","data":{"state":"ordered","order_id":"o1","next_poll_ms":0}}`
	busy    = `{"code":"busy"}`
	soldout = `{"code":"sold_out"}`
)

// fakeShop is a shop whose sale 7 is open, with or without a captcha. Its other routes are those given.
func fakeShop(t *testing.T, captcha bool, routes map[string]http.HandlerFunc, change ...func(*http.Server)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/sales/7", replyWith(200, `{"code":"ok","data":{"state":"open","captcha":`+strconv.FormatBool(captcha)+`}}`))
	for pattern, h := range routes {
		mux.HandleFunc(pattern, h)
	}
	s := httptest.NewUnstartedServer(mux)
	for _, c := range change {
		c(s.Config)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func replyWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// shopWithReplies is a fake shop that answers a click on the hidden address n with the nth of the
// replies. A reply is a status and a body, or one of the words below.
func shopWithReplies(t *testing.T, replies ...string) (url string, clicks *atomic.Int64) {
	clicks = &atomic.Int64{}
	s := fakeShop(t, false, map[string]http.HandlerFunc{
		"GET /api/sales/7/result": replyWith(200, ordered),
		"POST /api/orders/o1/pay": replyWith(200, `{"code":"ok","data":{"payment_id":"p1"}}`),
		"POST /api/cashier/p1":    replyWith(200, `{"code":"ok","data":{}}`),
		"POST /api/sales/7/path":  replyWith(200, `{"code":"ok","data":{"path":"0","expires_at":""}}`),
		"POST /api/sales/7/buy/{n}": func(w http.ResponseWriter, r *http.Request) {
			clicks.Add(1)
			n, _ := strconv.Atoi(r.PathValue("n"))
			switch status, body, _ := strings.Cut(replies[n%len(replies)], " "); status {
			case "CUT":
				panic(http.ErrAbortHandler)
			case "BUSY-ONCE":
				if clicks.Load() > 2 {
					io.WriteString(w, queued)
					return
				}
				replyWith(503, busy)(w, r)
			case "ENDLESS": // neither a length nor chunks
				c, _, _ := http.NewResponseController(w).Hijack()
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+body)
				c.Close()
			default:
				code, _ := strconv.Atoi(status)
				replyWith(code, body)(w, r)
			}
		},
	})
	return s.URL, clicks
}

// In a closed loop every click is accepted, refused or failed, each under its kind, and no click is
// repeated.
func TestEachResponseIsCountedByKind(t *testing.T) {
	url, clicks := shopWithReplies(t, "202 "+queued, "410 "+soldout, "503 "+busy, `500 {"code":"internal"}`, `CUT`, `ENDLESS {}`, `200 hello`)
	var buyers []Buyer
	for i := range 700 {
		buyers = append(buyers, Buyer{Token: "t", Path: strconv.Itoa(i)})
	}
	turns, err := Run(t.Context(), Config{URL: url, Sale: 7, Shape: "capacity", Seconds: 20, Conns: 4, Poll: 100, Pay: 100}, buyers, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := turns[0]
	want := Counts{Offered: 700, Requests: 100 + 200 + 300, Accepted: 100, Refused: 200, Failed: 400, Known: 100, Paid: 100}
	if diff := cmp.Diff(want, r.Counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"sold_out": 100, "busy": 100}, r.RefusedBy); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"500 internal": 100, "cut off": 100, "malformed answer": 100, "200 ": 100}, r.FailedBy); diff != "" {
		t.Error(diff)
	}
	if n := clicks.Load(); n != 700 {
		t.Errorf("%d clicks, want 700", n)
	}
	if !r.RanOut {
		t.Error("the report does not say that the buyers ran out")
	}
	if diff := cmp.Diff([]int64{100, 200, 100}, []int64{r.Accept.Count, r.Refusal.Count, r.Result.Count}); diff != "" {
		t.Errorf("latencies of accepted clicks, refusals, results: %s", diff)
	}
}

func TestValidate(t *testing.T) {
	good := Config{URL: "http://127.0.0.1:8080", Shape: "capacity", Seconds: 1, Conns: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*Config){
		"--url":     func(c *Config) { c.URL = "http://192.0.2.1:8080" },
		"--url: \"": func(c *Config) { c.URL = "ftp://127.0.0.1" },
		"--shape":   func(c *Config) { c.Shape = "round" },
		"--seconds": func(c *Config) { c.Seconds = 601 },
		"--conns":   func(c *Config) { c.Conns = 0 },
		"--rate":    func(c *Config) { c.Shape = "open" },
		"--poll":    func(c *Config) { c.Poll = 101 },
		"--pay":     func(c *Config) { c.Pay = -1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("got %v, want an error that begins with %s", err, flag)
		}
	}
	remote := good
	remote.URL, remote.AllowRemote = "https://shop.example", true
	if err := remote.Validate(); err != nil {
		t.Error(err)
	}
}
