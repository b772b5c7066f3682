package bench

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// With captchas each buyer, even one with a hidden address, requests a picture and solves it.
func TestCaptchasAreSolved(t *testing.T) {
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
		"POST /api/sales/7/buy/new": replyWith(202, `{"code":"ok","data":{"state":"ordered","next_poll_ms":0}}`),
	}
	buyers := []Buyer{{Token: "a", Path: "old"}, {Token: "b"}, {Token: "c"}}
	cfg := Config{URL: fakeShop(t, true, routes).URL, Sale: 7, Shape: "capacity", Seconds: 10, Conns: 1, Captcha: true}
	turns, err := Run(t.Context(), cfg, buyers, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := []int64{turns[0].Accepted, turns[0].Requests, drawn.Load(), wrong.Load()}
	// The fourth picture was drawn to see whether the shop reveals the answer.
	if diff := cmp.Diff([]int64{3, 9, 4, 0}, got); diff != "" {
		t.Errorf("accepted, requests, pictures, wrong answers: %s", diff)
	}
	if buyers[0].Path != "old" {
		t.Errorf("the caller's buyer has the path %q, want old", buyers[0].Path)
	}

	// A refusal as busy uses the captcha up, too.
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
			replyWith(503, busy)(w, r)
			return
		}
		io.WriteString(w, `{"code":"ok","data":{"path":"new","expires_at":""}}`)
	}
	cfg.URL, cfg.Shape = fakeShop(t, true, routes).URL, "second"
	if turns, err = Run(t.Context(), cfg, buyers[1:2], io.Discard); err != nil {
		t.Fatal(err)
	}
	got = []int64{turns[0].Accepted, turns[0].RefusedBy["busy"], drawn.Load(), wrong.Load()}
	if diff := cmp.Diff([]int64{1, 1, 3, 0}, got); diff != "" {
		t.Errorf("accepted, busy, pictures, wrong answers: %s", diff)
	}

	silent := map[string]http.HandlerFunc{"GET /api/sales/7/captcha": replyWith(200, "\x89PNG")}
	for want, c := range map[string]struct {
		captcha, solve bool
		buyers         []Buyer
	}{
		"does not reveal the captcha answers": {true, true, buyers},
		"without an address":                  {true, false, buyers},
		"has no captcha":                      {false, true, buyers},
	} {
		cfg.URL, cfg.Captcha = fakeShop(t, c.captcha, silent).URL, c.solve
		if _, err := Run(t.Context(), cfg, c.buyers, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
