package bench

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake is a shop whose sale 7 is open. It asks sums where told, and has the routes that are given.
func fake(t *testing.T, captcha bool, routes map[string]http.HandlerFunc, change ...func(*http.Server)) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/sales/7", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"code":"ok","data":{"state":"open","captcha":`+strconv.FormatBool(captcha)+`}}`)
	})
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

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// Who has bought asks for his result, and one whom the shop has forgotten is a fault.
func TestPolls(t *testing.T) {
	t.Parallel()
	var polls atomic.Int64
	s := fake(t, false, map[string]http.HandlerFunc{
		"POST /api/sales/7/buy/{n}": says(202, `{"code":"ok","data":{"state":"ordered","order_id":"o1","next_poll_ms":0}}`),
		"GET /api/sales/7/result": func(w http.ResponseWriter, r *http.Request) {
			if polls.Add(1)%3 == 0 {
				io.WriteString(w, `{"code":"ok","data":{"state":"none","next_poll_ms":0}}`)
				return
			}
			io.WriteString(w, `{"code":"ok","data":{"state":"ordered","order_id":"o1","next_poll_ms":0}}`)
		},
	})
	turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "polls", Seconds: 1, Conns: 2, Pay: 0}, []Buyer{{Token: "a", Path: "1"}, {Token: "b", Path: "2"}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	n := polls.Load()
	if one := turns[1]; turns[0].Accepted != 2 || n < 10 || one.Offered != n || one.Requests != n || one.Failed != n/3 || one.FailedBy["ticket forgotten"] != n/3 || one.Known != n-n/3 {
		t.Errorf("%d polls: %+v %v", n, one.counts, one.FailedBy)
	}
}

// Polls prove nothing where some have no order.
func TestPollsWantOrders(t *testing.T) {
	t.Parallel()
	s := fake(t, false, map[string]http.HandlerFunc{"POST /api/sales/7/buy/{n}": says(410, `{"code":"sold_out"}`)})
	_, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "polls", Seconds: 1, Conns: 1}, []Buyer{{Token: "a", Path: "1"}}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("%v", err)
	}
}

// A list counts if it is a 200 in the encoding that was looked into; the size is that of what was sent.
func TestList(t *testing.T) {
	t.Parallel()
	var asked, plain, busy atomic.Int64
	s := fake(t, false, map[string]http.HandlerFunc{"GET /api/sales": func(w http.ResponseWriter, r *http.Request) {
		body := `{"code":"ok","data":[` + strings.Repeat(`{"id":7,"title":"tea"},`, 99) + `{"id":8}]}`
		n := asked.Add(1)
		switch {
		case n > 2 && n%4 == 0:
			busy.Add(1)
			w.WriteHeader(503)
			io.WriteString(w, `{"code":"busy"}`)
		case n > 2 && n%4 == 1:
			plain.Add(1)
			io.WriteString(w, body)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, body)
			z.Close()
		default:
			io.WriteString(w, body)
		}
	}})
	turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "list", Seconds: 1, Conns: 2}, []Buyer{{}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	one, n := turns[0], asked.Load()-2
	if n < 10 || one.Offered != n || one.Pages != n-plain.Load()-busy.Load() || one.FailedBy["not the page"] != plain.Load() || one.RefusedBy["busy"] != busy.Load() {
		t.Errorf("%d lists, %d busy, %d plain: %+v %v %v", n, busy.Load(), plain.Load(), one.counts, one.FailedBy, one.RefusedBy)
	}
	if p := one.Page; p.Sales != 100 || p.Encoding != "gzip" || p.Plain != 2308 || p.Bytes < 30 || p.Bytes > 200 {
		t.Errorf("%+v", p)
	}
}

// What isn't a list is an error and not a figure.
func TestListIsLookedInto(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"fault":      says(500, `{"code":"ok","data":[]}`),
		"other code": says(200, `{"code":"busy"}`),
		"no JSON":    says(200, `hello`),
		"not packed": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "identity" {
				w.Header().Set("Content-Encoding", "gzip")
			}
			io.WriteString(w, `{"code":"ok","data":[]}`)
		},
	} {
		s := fake(t, false, map[string]http.HandlerFunc{"GET /api/sales": h})
		if _, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "list", Seconds: 1, Conns: 1}, []Buyer{{}}, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The memory is read before, with and after the connections, and those that the shop closed are told.
func TestConns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		idle time.Duration
		cut  int
	}{"patient": {time.Minute, 0}, "impatient": {time.Second, 40}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			open, most := 0, 0
			s := fake(t, false, nil, func(s *http.Server) {
				s.IdleTimeout = c.idle
				s.ConnState = func(_ net.Conn, state http.ConnState) {
					mu.Lock()
					defer mu.Unlock()
					switch state {
					case http.StateNew:
						open++
						most = max(most, open)
					case http.StateClosed:
						open--
					}
				}
			})
			memory := []int64{1000, 9000, 3000}
			turns, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "conns", Seconds: 1, Conns: 40, Usage: func(context.Context) (Usage, error) {
				if len(memory) == 0 {
					return Usage{}, errors.New("asked too often")
				}
				u := Usage{Resident: memory[0]}
				memory = memory[1:]
				return u, nil
			}}, []Buyer{{}}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			one := turns[0]
			if h := one.Held; h.Conns != 40 || h.Cut != c.cut || h.Before != 1000 || h.Open != 9000 || h.After != 3000 || h.Each() != 200 || h.Seconds < 1 {
				t.Errorf("%+v", h)
			}
			mu.Lock()
			defer mu.Unlock()
			if most < 40 || open > 0 || one.Pages != 40 || one.Loaded.Count != 40 {
				t.Errorf("%d were open at once, %d still are; %+v", most, open, one.counts)
			}
		})
	}
	s := fake(t, false, nil)
	if _, err := Run(t.Context(), Config{URL: s.URL, Sale: 7, Shape: "conns", Seconds: 1, Conns: 1}, []Buyer{{}}, io.Discard); err == nil || !strings.Contains(err.Error(), "--ops") {
		t.Errorf("%v, want one that tells of --ops", err)
	}
}

// With sums each buyer, also one who has an address, looks at a picture and solves it.
func TestSumsAreSolved(t *testing.T) {
	t.Parallel()
	var drawn, wrong atomic.Int64
	routes := map[string]http.HandlerFunc{
		"GET /api/sales/7/captcha": func(w http.ResponseWriter, r *http.Request) {
			drawn.Add(1)
			w.Header().Set("X-Captcha-Answer", "41 "+r.Header.Get("Authorization"))
			io.WriteString(w, "\x89PNG")
		},
		"POST /api/sales/7/path": func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if string(body) != `{"captcha":"41 `+r.Header.Get("Authorization")+`"}` || r.Header.Get("Content-Type") != "application/json" {
				wrong.Add(1)
			}
			io.WriteString(w, `{"code":"ok","data":{"path":"new","expires_at":""}}`)
		},
		"POST /api/sales/7/buy/new": says(202, `{"code":"ok","data":{"state":"ordered","next_poll_ms":0}}`),
	}
	buyers := []Buyer{{Token: "a", Path: "old"}, {Token: "b"}, {Token: "c"}}
	cfg := Config{URL: fake(t, true, routes).URL, Sale: 7, Shape: "capacity", Seconds: 10, Conns: 1, Captcha: true}
	turns, err := Run(t.Context(), cfg, buyers, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	// One more is drawn to see whether the answer is told.
	if one := turns[0]; one.Accepted != 3 || one.Requests != 9 || drawn.Load() != 4 || wrong.Load() != 0 || buyers[0].Path != "old" {
		t.Errorf("%d pictures, %d wrong answers, %+v", drawn.Load(), wrong.Load(), one.counts)
	}

	// A sum is used up by whoever hears that the shop is busy, too.
	drawn.Store(0)
	wrong.Store(0)
	var asked atomic.Int64
	routes["GET /api/sales/7/captcha"] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Captcha-Answer", strconv.FormatInt(drawn.Add(1), 10))
		io.WriteString(w, "\x89PNG")
	}
	routes["POST /api/sales/7/path"] = func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != fmt.Sprintf(`{"captcha":"%d"}`, drawn.Load()) || drawn.Load() != asked.Add(1)+1 {
			wrong.Add(1)
		}
		if asked.Load() == 1 {
			w.WriteHeader(503)
			io.WriteString(w, `{"code":"busy"}`)
			return
		}
		io.WriteString(w, `{"code":"ok","data":{"path":"new","expires_at":""}}`)
	}
	cfg.URL, cfg.Shape = fake(t, true, routes).URL, "second"
	if turns, err = Run(t.Context(), cfg, buyers[1:2], io.Discard); err != nil {
		t.Fatal(err)
	}
	if one := turns[0]; one.Accepted != 1 || one.RefusedBy["busy"] != 1 || drawn.Load() != 3 || wrong.Load() != 0 {
		t.Errorf("after a busy path: %d pictures, %d wrong answers, %+v %v", drawn.Load(), wrong.Load(), one.counts, one.RefusedBy)
	}

	silent := map[string]http.HandlerFunc{"GET /api/sales/7/captcha": says(200, "\x89PNG")}
	for why, c := range map[string]struct {
		asks, solve bool
		buyers      []Buyer
	}{
		"doesn't tell the answers": {true, true, buyers},
		"without addresses":        {true, false, buyers},
		"asks no sums":             {false, true, buyers},
	} {
		cfg.URL, cfg.Captcha = fake(t, c.asks, silent).URL, c.solve
		if _, err := Run(t.Context(), cfg, c.buyers, io.Discard); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want: %s", err, why)
		}
	}
}

// A slow shop commits in lumps. What it sells is counted between them, and the tail is left out.
func TestGoodput(t *testing.T) {
	var lumps Turn
	lumps.Seconds, lumps.Committed = 3, 1
	for i := range 50 { // 100 units each half second, from 0.7 s on; buyers come for 3 s, and the last unit is sold much later
		lumps.Samples = append(lumps.Samples, Sample{At: float64(i) / 10, Sold: 100*max(0, (min(i, 30)-2)/5) + i/49})
	}
	if got := lumps.goodput(); got < 199 || got > 201 {
		t.Errorf("%.1f/s, want 200", got)
	}
	lumps.Samples = lumps.Samples[:8]
	if got := lumps.goodput(); got != 1 {
		t.Errorf("%.1f/s of one lump, want what was committed over all", got)
	}
	turns := []Turn{lumps, lumps}
	turns[1].Committed = 4
	if ofPeak(turns); turns[0].OfPeak != 25 || turns[1].OfPeak != 100 {
		t.Errorf("%.1f %% and %.1f %%, want 25 and 100", turns[0].OfPeak, turns[1].OfPeak)
	}
}
