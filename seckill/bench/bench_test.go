package bench

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
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
	books := func() (orders, paid int64) {
		err := db.QueryRow(t.Context(), `select count(*), count(*) filter (where status = 'paid') from orders`).Scan(&orders, &paid)
		if err != nil {
			t.Fatal(err)
		}
		return orders, paid
	}
	page := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		name, args string
		want       func(t *testing.T, r Report, orders, paid int64)
	}{
		// All come back until they know, so nobody is left over.
		{"second", "--shape second -n 300 --stock 40 --conns 50 --pay 100 --html " + page, func(t *testing.T, r Report, orders, paid int64) {
			one := r.Turns[0]
			if orders != 40 || paid != 40 || one.Accepted != 40 || one.Outcomes["ordered"] != 40 || one.Known != 40 || one.Sold != 40 || one.Paid != 40 || one.Offered != 300 {
				t.Errorf("%d orders, %d paid, of 40: %+v %v", orders, paid, one.counts, one.Outcomes)
			}
		}},
		// Who hears busy may have a ticket all the same, and doesn't come back to see.
		{"capacity", "--shape capacity -n 200 --seconds 20 --conns 8 --poll 100 --yardstick", func(t *testing.T, r Report, orders, paid int64) {
			one := r.Turns[0]
			busy := one.RefusedBy["busy"]
			if one.Offered != 200 || one.Accepted+busy != 200 || one.Refused != busy || one.Outcomes["ordered"] != one.Accepted || one.Known != one.Accepted {
				t.Errorf("%+v %v %v", one.counts, one.RefusedBy, one.Outcomes)
			}
			if orders < one.Accepted || orders > one.Accepted+busy || int64(one.Sold) < one.Accepted || int64(one.Sold) > orders || paid != 0 {
				t.Errorf("%d accepted, %d busy, %d sold; %d orders, %d paid", one.Accepted, busy, one.Sold, orders, paid)
			}
			if y := r.Yardstick; y == nil || y.Before < 100 || y.After < 100 || y.Ratio <= 0 {
				t.Errorf("yardstick %+v", y)
			}
		}},
		{"soldout", "--shape soldout -n 20 --seconds 1 --conns 4", func(t *testing.T, r Report, orders, _ int64) {
			first, storm := r.Turns[0], r.Turns[1]
			if orders != 1 || first.Accepted != 1 || storm.Accepted != 0 || storm.RefusedBy["sold_out"] != storm.Offered || storm.Offered < 20 {
				t.Errorf("%d orders; %+v, %+v %v", orders, first.counts, storm.counts, storm.RefusedBy)
			}
		}},
		{"polls", "--shape polls -n 50 --seconds 1 --conns 4 --yardstick", func(t *testing.T, r Report, orders, _ int64) {
			first, asked := r.Turns[0], r.Turns[1]
			if orders != 50 || first.Accepted != 50 || first.Known != 50 {
				t.Errorf("%d orders, %+v", orders, first.counts)
			}
			if asked.Offered < 200 || asked.Outcomes["ordered"] != asked.Offered || asked.Known != asked.Offered || asked.Accepted != 0 {
				t.Errorf("%+v %v %v", asked.counts, asked.Outcomes, asked.RefusedBy)
			}
			if r.Yardstick == nil || r.Yardstick.Ratio <= 0 {
				t.Errorf("yardstick %+v", r.Yardstick)
			}
		}},
		{"list", "--shape list --seconds 1 --conns 4", func(t *testing.T, r Report, orders, _ int64) {
			one := r.Turns[0]
			if orders != 0 || one.Offered < 100 || one.Pages != one.Offered || one.Loaded.Count != one.Pages {
				t.Errorf("%d orders, %+v %v %v", orders, one.counts, one.RefusedBy, one.FailedBy)
			}
			// What was sold here before, and the sale of this run.
			if p := one.Page; p == nil || p.Sales < 5 || p.Bytes < 100 || p.Plain < 100*p.Sales {
				t.Errorf("%+v", p)
			}
		}},
		// A hundred a second come to the other sales; a busy machine has not done with all when the three are over.
		{"cold", "--shape capacity -n 50 --seconds 3 --conns 4 --sales 5", func(t *testing.T, r Report, orders, _ int64) {
			one := r.Turns[0]
			if one.Offered != 50 || one.Accepted+one.RefusedBy["busy"] != 50 {
				t.Errorf("%+v %v", one.counts, one.RefusedBy)
			}
			cold, busy := one.Cold, one.Cold.RefusedBy["busy"]
			if cold.Sales != 5 || cold.Offered < 100 || cold.Offered > 300 || cold.Accepted+busy != cold.Offered || cold.Accept.Count != cold.Accepted {
				t.Errorf("%+v", cold)
			}
			if n := int64(*r.Cold); n < cold.Accepted || n > cold.Accepted+busy || orders != n+int64(*r.Orders) {
				t.Errorf("%d orders, %d of them at other sales; %+v", orders, n, cold)
			}
		}},
		// The pause alone would make it 500 tickets in 0.7 s.
		{"ramp", "--shape ramp -n 1000 --rate 20 --seconds 2 --conns 16", func(t *testing.T, r Report, orders, _ int64) {
			accepted, busy := int64(0), int64(0)
			for i, turn := range r.Turns {
				accepted, busy = accepted+turn.Accepted, busy+turn.RefusedBy["busy"]
				if turn.Goodput <= 0 || turn.Goodput > 800 || turn.OfPeak <= 0 || turn.OfPeak > 100 || turn.Name != []string{"1x", "10x", "100x"}[i] {
					t.Errorf("%s: %.1f/s, %.1f %%", turn.Name, turn.Goodput, turn.OfPeak)
				}
			}
			if len(r.Turns) != 3 || orders < accepted || orders > accepted+busy {
				t.Errorf("%d turns, %d accepted, %d busy, %d orders", len(r.Turns), accepted, busy, orders)
			}
		}},
		{"conns", "--shape conns --seconds 1 --conns 300", func(t *testing.T, r Report, orders, _ int64) {
			one := r.Turns[0]
			if orders != 0 || one.Pages != 300 || one.Held.Conns != 300 || one.Held.Cut != 0 {
				t.Errorf("%d orders, %+v %v %+v", orders, one.counts, one.FailedBy, one.Held)
			}
			if h := one.Held; h.Before < 1<<20 || h.Open <= h.Before || h.After < 1<<20 || h.Seconds < 1 {
				t.Errorf("%+v", h)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "conns" && runtime.GOOS != "linux" {
				t.Skip("what a process costs is read on Linux only")
			}
			before, paidBefore := books()
			var r Report
			out := sandboxtest.MustCommand(t, env, append([]string{"bench", "--json"}, strings.Fields(c.args)...)...)
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			orders, paid := books()
			orders, paid = orders-before, paid-paidBefore
			if !r.Audit.Clean {
				t.Error(r.Audit.Said)
			}
			if r.Cold == nil && int64(*r.Orders) != orders {
				t.Errorf("the report has %d orders of %d", *r.Orders, orders)
			}
			for _, turn := range r.Turns {
				if turn.Failed != 0 {
					t.Errorf("%s: failed %v", turn.Name, turn.FailedBy)
				}
			}
			c.want(t, r, orders, paid)
		})
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<polyline") {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
}

// In the sandbox, where alone a shop tells the answers to its sums and old orders are made up.
func TestBenchInTheSandbox(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind()}
	t.Cleanup(func() { sandboxtest.MustCommand(t, env, "reset", "--yes") })
	var r Report
	out := sandboxtest.MustCommand(t, env, "bench", "--json", "--shape", "second", "-n", "30", "--stock", "20", "--captcha", "--fill", "70")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	// Each has asked for a sum, an address and a unit, if not a refusal came first.
	if one := r.Turns[0]; one.Accepted != 20 || one.Failed != 0 || one.RefusedBy["wrong_captcha"] != 0 || one.Requests < 3*20+10 || *r.Orders != 20 {
		t.Errorf("%d orders, %+v %v %v", *r.Orders, one.counts, one.RefusedBy, one.FailedBy)
	}
	if !r.Captcha || r.Filled != 70 || !r.Audit.Clean {
		t.Errorf("captcha %t, %d filled, %s", r.Captcha, r.Filled, r.Audit.Said)
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
	for flag, args := range map[string]string{"--sales": "--sales 5 --shape polls", "--sales: 0": "--sales=-1", "--fill": "--fill 5", "--captcha": "--captcha",
		"--yardstick": "--yardstick --shape conns", "--conns": "--conns 20001", "--url": "--url http://192.0.2.1:8080", "--rate": "--shape open", "-n": "-n 1000001",
		"--sale": "--url http://127.0.0.1:1 --buyers x.csv", "--shape": "--shape round", "--ops": "--ops http://127.0.0.1:1"} {
		out, errs, code := sandboxtest.Command(t, env, append([]string{"bench"}, strings.Fields(args)...)...)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, flag) {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errs)
		}
	}
}
