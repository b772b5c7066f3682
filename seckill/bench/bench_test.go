package bench

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// moody is a shop that answers each click in another way, by the number in the buyer's address.
func moody(t *testing.T, answers ...string) (url string, clicks *atomic.Int64) {
	clicks = &atomic.Int64{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/sales/7", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"code":"ok","data":{"state":"open"}}`)
	})
	mux.HandleFunc("GET /api/sales/7/result", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"code":"ok","data":{"state":"ordered","order_id":"o1","next_poll_ms":0}}`)
	})
	mux.HandleFunc("POST /api/orders/o1/pay", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"code":"ok","data":{"payment_id":"p1"}}`)
	})
	mux.HandleFunc("POST /api/cashier/p1", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"code":"ok","data":{}}`) })
	mux.HandleFunc("POST /api/sales/7/path", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"code":"ok","data":{"path":"0","expires_at":""}}`)
	})
	mux.HandleFunc("POST /api/sales/7/buy/{n}", func(w http.ResponseWriter, r *http.Request) {
		clicks.Add(1)
		n, _ := strconv.Atoi(r.PathValue("n"))
		switch status, body, _ := strings.Cut(answers[n%len(answers)], " "); status {
		case "cut":
			panic(http.ErrAbortHandler)
		case "BUSY-ONCE":
			if clicks.Load() > 2 {
				io.WriteString(w, `{"code":"ok","data":{"state":"queued","next_poll_ms":1}}`)
				return
			}
			w.WriteHeader(503)
			io.WriteString(w, `{"code":"busy"}`)
		case "endless": // neither a length nor pieces
			c, _, _ := http.NewResponseController(w).Hijack()
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+body)
			c.Close()
		default:
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, clicks
}

// Every click of a closed loop is accepted, refused or failed, each by its kind, and nothing is tried again.
func TestEachAnswerIsCountedByKind(t *testing.T) {
	url, clicks := moody(t, `202 {"code":"ok","data":{"state":"queued","next_poll_ms":1}}`, `410 {"code":"sold_out"}`, `503 {"code":"busy"}`,
		`500 {"code":"internal"}`, `cut`, `endless {}`, `200 hello`)
	var buyers []Buyer
	for i := range 700 {
		buyers = append(buyers, Buyer{Token: "t", Path: strconv.Itoa(i)})
	}
	turns, err := Run(t.Context(), Config{URL: url, Sale: 7, Shape: "capacity", Seconds: 20, Conns: 4, Poll: 100, Pay: 100}, buyers, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r := turns[0]
	want := counts{Offered: 700, Requests: 100 + 200 + 300, Accepted: 100, Refused: 200, Failed: 400, Known: 100, Paid: 100}
	if diff := cmp.Diff(want, r.counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"sold_out": 100, "busy": 100}, r.RefusedBy); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"500 internal": 100, "cut off": 100, "malformed answer": 100, "200 ": 100}, r.FailedBy); diff != "" {
		t.Error(diff)
	}
	if n := clicks.Load(); n != 700 {
		t.Errorf("%d clicks", n)
	}
	if !r.RanOut || r.Accept.Count != 100 || r.Refusal.Count != 200 || r.Result.Count != 100 {
		t.Errorf("%t; latencies of %d, %d, %d", r.RanOut, r.Accept.Count, r.Refusal.Count, r.Result.Count)
	}
}

// Whoever has no address asks for one; whoever hears that the shop is busy comes back, in a shape of people who do.
func TestWhoIsToldToWaitComesBack(t *testing.T) {
	url, clicks := moody(t, `202 {"code":"ok","data":{"state":"queued","next_poll_ms":1}}`, `BUSY-ONCE`)
	turns, err := Run(t.Context(), Config{URL: url, Sale: 7, Shape: "second", Seconds: 1, Conns: 2, Poll: 100}, []Buyer{{Token: "t"}, {Token: "t", Path: "1"}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if want := (counts{Offered: 2, Requests: 6, Accepted: 2, Refused: 1, Known: 2}); turns[0].counts != want || clicks.Load() != 3 {
		t.Errorf("%d clicks, %+v, want %+v", clicks.Load(), turns[0].counts, want)
	}
}

// The command against the built shop: what buyers heard is what the books say.
func TestBenchOfTheBuiltShop(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(t.Context()) })
	page := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		args           string
		accepted, paid int64
	}{
		{"--shape second -n 300 --stock 40 --conns 50 --pay 100 --html " + page, 40, 40},
		{"--shape capacity -n 200 --seconds 2 --conns 8 --poll 100 --yardstick", 200, 0},
		{"--shape soldout -n 20 --seconds 1 --conns 4", 1, 0},
	} {
		t.Run(strings.Fields(c.args)[1], func(t *testing.T) {
			var before, orders, paid int64
			count := func(orders *int64) {
				if err := db.QueryRow(t.Context(), `select count(*), count(*) filter (where status = 'paid') from orders`).Scan(orders, &paid); err != nil {
					t.Fatal(err)
				}
			}
			count(&before)
			paidBefore := paid
			var r Report
			out := sandboxtest.MustCommand(t, env, append([]string{"bench", "--json"}, strings.Fields(c.args)...)...)
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			count(&orders)
			orders -= before
			var accepted, failed, ordered, sold, busy int64
			for _, turn := range r.Turns {
				busy += turn.RefusedBy["busy"]
				accepted, failed, ordered, sold = accepted+turn.Accepted, failed+turn.Failed, ordered+turn.Outcomes["ordered"], sold+int64(turn.Sold)
			}
			if busy > 0 {
				t.Logf("the machine was so slow that %d heard busy", busy) // and some of them may have a ticket
				c.accepted, accepted, ordered = orders, orders, orders
			}
			if orders != c.accepted || accepted != orders || ordered != orders || sold != orders || int64(*r.Orders) != orders || failed != 0 {
				t.Errorf("%d orders; the report has %d accepted, %d ordered, %d sold, %d orders, %d failed; want %d", orders, accepted, ordered, sold, *r.Orders, failed, c.accepted)
			}
			if paid-paidBefore != c.paid && busy == 0 {
				t.Errorf("%d paid, want %d", paid-paidBefore, c.paid)
			}
			if !r.Audit.Clean {
				t.Error(r.Audit.Said)
			}
			last := r.Turns[len(r.Turns)-1]
			if r.Shape == "soldout" && (last.RefusedBy["sold_out"] != last.Offered || last.Offered < 20) {
				t.Errorf("%d refusals of %d: %v", last.Refused, last.Offered, last.RefusedBy)
			}
			if y := r.Yardstick; strings.Contains(c.args, "--yardstick") && (y == nil || y.Before < 100 || y.After < 100 || y.Ratio <= 0) {
				t.Errorf("yardstick %+v", y)
			}
		})
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<polyline") {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
}

// A percentage of those who pay is one of any part of the crowd.
func TestPayersAreSpread(t *testing.T) {
	for _, percent := range []int{0, 10, 50, 100} {
		n := 0
		for k := range 1000 {
			if (&buyer{k: k}).pays(percent) {
				n++
			}
		}
		if n < 10*percent-50 || n > 10*percent+50 || percent%100 == 0 && n != 10*percent {
			t.Errorf("%d of the first 1,000 pay, want %d %%", n, percent)
		}
	}
}

// What can't be is refused before anything is begun.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	for flag, args := range map[string]string{"--url": "--url http://192.0.2.1:8080", "--rate": "--shape open", "-n": "-n 1000001",
		"--sale": "--url http://127.0.0.1:1 --buyers x.csv", "--shape": "--shape round", "--ops": "--ops http://127.0.0.1:1"} {
		out, errs, code := sandboxtest.Command(t, env, append([]string{"bench"}, strings.Fields(args)...)...)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, flag) {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errs)
		}
	}
}
