package operator

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"miaosha/seckill/bench"
	"miaosha/seckill/sandbox/sandboxtest"
)

// The command against a running shop: its report must match the orders in Postgres. Where it starts a shop of its own, the
// running one must not see it.
func TestBenchOfTheBuiltShop(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off", "MIAOSHA_CAPTCHA=off")
	shop := sandboxtest.Open(t, env)
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	count := func() (orders, paid int64) {
		err := db.QueryRow(t.Context(), `select count(*), count(*) filter (where status = 'paid') from orders`).Scan(&orders, &paid)
		if err != nil {
			t.Fatal(err)
		}
		return orders, paid
	}
	page := filepath.Join(t.TempDir(), "report.html")
	for _, c := range []struct {
		name, args string
		own        bool // a shop of its own
		want       func(t *testing.T, r bench.Report, orders, paid int64)
	}{
		// All buyers retry until they know their result, so none is left without one.
		{"second", "--shape second -n 300 --stock 40 --conns 50 --pay 100 --html " + page, false, func(t *testing.T, r bench.Report, orders, paid int64) {
			turn := r.Turns[0]
			got := map[string]int64{"orders": orders, "paid orders": paid, "offered": turn.Offered, "accepted": turn.Accepted, "known": turn.Known,
				"ordered": turn.Outcomes["ordered"], "sold": int64(turn.Sold), "paid": turn.Paid}
			want := map[string]int64{"orders": 40, "paid orders": 40, "offered": 300, "accepted": 40, "known": 40, "ordered": 40, "sold": 40, "paid": 40}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}},
		// A buyer who is refused as busy may have a ticket all the same, and does not poll.
		{"capacity", "--shape capacity -n 200 --seconds 20 --conns 8 --poll 100", false, func(t *testing.T, r bench.Report, orders, paid int64) {
			turn := r.Turns[0]
			accepted, busy := turn.Accepted, turn.RefusedBy["busy"]
			got := map[string]int64{"offered": turn.Offered, "accepted or busy": accepted + busy, "refused": turn.Refused,
				"ordered": turn.Outcomes["ordered"], "known": turn.Known, "paid orders": paid}
			want := map[string]int64{"offered": 200, "accepted or busy": 200, "refused": busy, "ordered": accepted, "known": accepted, "paid orders": 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if orders < accepted || orders > accepted+busy {
				t.Errorf("%d orders for %d accepted and %d busy", orders, accepted, busy)
			}
			if sold := int64(turn.Sold); sold < accepted || sold > orders {
				t.Errorf("%d sold, for %d accepted and %d orders", sold, accepted, orders)
			}
		}},
		{"soldout", "--shape soldout -n 20 --seconds 1 --conns 4", false, func(t *testing.T, r bench.Report, orders, _ int64) {
			first, rest := r.Turns[0], r.Turns[1]
			got := []int64{orders, first.Accepted, rest.Accepted, rest.RefusedBy["sold_out"]}
			if diff := cmp.Diff([]int64{1, 1, 0, rest.Offered}, got); diff != "" {
				t.Errorf("orders, accepted, accepted later, sold_out: %s", diff)
			}
			if rest.Offered == 0 {
				t.Error("no clicks after the last unit")
			}
		}},
		{"polls", "--shape polls -n 50 --seconds 1 --conns 4 --baseline", false, func(t *testing.T, r bench.Report, orders, _ int64) {
			first, polls := r.Turns[0], r.Turns[1]
			if diff := cmp.Diff([]int64{50, 50, 50}, []int64{orders, first.Accepted, first.Known}); diff != "" {
				t.Errorf("orders, accepted, known: %s", diff)
			}
			if diff := cmp.Diff([]int64{polls.Offered, polls.Offered, 0}, []int64{polls.Outcomes["ordered"], polls.Known, polls.Accepted}); diff != "" {
				t.Errorf("polls: ordered, known, accepted: %s", diff)
			}
			if polls.Offered == 0 {
				t.Error("no polls")
			}
			if y := r.Baseline; y == nil || y.Ratio <= 0 || y.Before <= 0 || y.After <= 0 {
				t.Errorf("the baseline is %+v", y)
			}
		}},
		{"polls of many sales", "--shape polls -n 50 --seconds 1 --conns 4 --sales 7", false, func(t *testing.T, r bench.Report, orders, _ int64) {
			polls := r.Turns[0]
			if diff := cmp.Diff([]int64{0, polls.Offered, polls.Offered, 0}, []int64{orders, polls.Outcomes["none"], polls.Known, polls.Failed}); diff != "" {
				t.Errorf("orders, none, known, failed: %s", diff)
			}
			if polls.Offered == 0 {
				t.Error("no polls")
			}
		}},
		{"streams", "--shape streams -n 30 --seconds 1 --conns 4 --sales 7", false, func(t *testing.T, r bench.Report, orders, _ int64) {
			turn := r.Turns[0]
			if turn.Told == nil {
				t.Fatal("nothing was told")
			}
			if diff := cmp.Diff([]int64{30, 30, 30}, []int64{orders, turn.Accepted, turn.Told.Count}); diff != "" {
				t.Errorf("orders, accepted, told: %s", diff)
			}
		}},
		{"list", "--shape list --seconds 1 --conns 4", true, func(t *testing.T, r bench.Report, orders, _ int64) {
			turn := r.Turns[0]
			if diff := cmp.Diff([]int64{0, turn.Offered, turn.Offered}, []int64{orders, turn.Pages, turn.Page.Count}); diff != "" {
				t.Errorf("orders, pages, latencies: %s", diff)
			}
			if turn.Offered == 0 {
				t.Error("no lists")
			}
			size := *turn.List
			if size.Sales != 1 {
				t.Errorf("the list has %d sales, want that of the run alone", size.Sales)
			}
			if size.Bytes < 100 || size.Plain < 100*size.Sales {
				t.Errorf("the list has %d bytes, %d plain, for %d sales", size.Bytes, size.Plain, size.Sales)
			}
		}},
		// The other sales get a hundred buyers a second. A busy machine may not serve all of them
		// in the three seconds.
		{"cold", "--shape capacity -n 50 --seconds 3 --conns 4 --sales 5", false, func(t *testing.T, r bench.Report, orders, _ int64) {
			turn, cold := r.Turns[0], r.Turns[0].Cold
			busy := cold.RefusedBy["busy"]
			got := []int64{turn.Offered, turn.Accepted + turn.RefusedBy["busy"], int64(cold.Sales), cold.Accepted + busy, cold.Accept.Count}
			if diff := cmp.Diff([]int64{50, 50, 5, cold.Offered, cold.Accepted}, got); diff != "" {
				t.Errorf("offered, accepted or busy; other sales, accepted or busy, latencies: %s", diff)
			}
			if cold.Offered == 0 || cold.Offered > 300 {
				t.Errorf("%d buyers at the other sales, want some, and 300 at most", cold.Offered)
			}
			n := int64(*r.Cold)
			if n < cold.Accepted || n > cold.Accepted+busy {
				t.Errorf("%d orders at the other sales, for %d accepted and %d busy", n, cold.Accepted, busy)
			}
			if orders != n+int64(*r.Orders) {
				t.Errorf("%d orders, want %d and %d", orders, n, *r.Orders)
			}
		}},
		// Without --settle-pause the shop would settle 500 tickets in 0.7 s.
		{"ramp", "--shape ramp -n 1000 --rate 20 --seconds 2 --conns 16", true, func(t *testing.T, r bench.Report, orders, _ int64) {
			accepted, busy := int64(0), int64(0)
			var names []string
			for _, turn := range r.Turns {
				names, accepted, busy = append(names, turn.Name), accepted+turn.Accepted, busy+turn.RefusedBy["busy"]
				if turn.Goodput <= 0 || turn.Goodput > 800 {
					t.Errorf("%s: goodput %.1f/s, want at most 800", turn.Name, turn.Goodput)
				}
				if turn.OfPeak <= 0 || turn.OfPeak > 100 {
					t.Errorf("%s: %.1f %% of the peak", turn.Name, turn.OfPeak)
				}
			}
			if diff := cmp.Diff([]string{"1x", "10x", "100x"}, names); diff != "" {
				t.Error(diff)
			}
			if orders < accepted || orders > accepted+busy {
				t.Errorf("%d orders for %d accepted and %d busy", orders, accepted, busy)
			}
		}},
		{"conns", "--shape conns --seconds 1 --conns 300", true, func(t *testing.T, r bench.Report, orders, _ int64) {
			turn, memory := r.Turns[0], *r.Turns[0].Memory
			got := []int64{orders, turn.Pages, int64(memory.Conns), int64(memory.ClosedByShop)}
			if diff := cmp.Diff([]int64{0, 300, 300, 0}, got); diff != "" {
				t.Errorf("orders, pages, connections, closed by the shop: %s", diff)
			}
			if memory.Before < 1<<20 || memory.Open < 1<<20 { // which is more depends on what the shop returns to the system meanwhile
				t.Errorf("%d bytes before, %d with the connections", memory.Before, memory.Open)
			}
			if memory.After < 1<<20 || memory.Seconds < 1 {
				t.Errorf("%d bytes, %.2f s after closing", memory.After, memory.Seconds)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "conns" && runtime.GOOS != "linux" {
				t.Skip("the memory of a process is read on Linux only")
			}
			args := append([]string{"bench", "--json"}, strings.Fields(c.args)...)
			if !c.own {
				args = append(args, "--url", shop.URL)
			}
			before, paidBefore := count()
			stored := everything(t, env)
			var r bench.Report
			out := sandboxtest.MustCommand(t, env, args...)
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			orders, paid := count()
			orders, paid = orders-before, paid-paidBefore
			if c.own {
				if diff := cmp.Diff(stored, everything(t, env)); diff != "" {
					t.Errorf("the running shop's stores: %s", diff)
				}
				orders = int64(*r.Orders)
			}
			if !r.Audit.Clean {
				t.Error(r.Audit.Said)
			}
			if r.Cold == nil && int64(*r.Orders) != orders {
				t.Errorf("the report has %d orders, Postgres %d", *r.Orders, orders)
			}
			for _, turn := range r.Turns {
				if turn.Failed != 0 {
					t.Errorf("%s: failed %v", turn.Name, turn.FailedBy)
				}
			}
			c.want(t, r, orders, paid)
			if t.Failed() {
				for _, turn := range r.Turns {
					t.Logf("%s: %+v refused %v failed %v outcomes %v", turn.Name, turn.Counts, turn.RefusedBy, turn.FailedBy, turn.Outcomes)
				}
			}
		})
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<polyline") {
		t.Errorf("the page: %v, %d bytes", err, len(html))
	}
}

// --captcha and --fill need the sandbox: only there does a shop reveal captcha answers, and only
// there are old orders made up.
func TestBenchInTheSandbox(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + sandboxtest.Home(t), "PATH=" + os.Getenv("PATH"), "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind()}
	t.Cleanup(func() { sandboxtest.MustCommand(t, env, "reset", "--yes") })
	shop := sandboxtest.Open(t, append(env, "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off"))
	t.Cleanup(func() { shop.End(syscall.SIGTERM) }) // before the reset
	data := filepath.Join(strings.TrimPrefix(env[0], "HOME="), ".cache", "miaosha")
	end(startBench(t, env), syscall.SIGKILL)
	if left, _ := filepath.Glob(filepath.Join(data, "temporary-*")); len(left) != 1 {
		t.Fatalf("a killed run left %v, want a folder", left)
	}
	sandboxtest.Until(t, "the shop of the killed run closes its servers", func() bool {
		running, _ := filepath.Glob(filepath.Join(data, "temporary-*", "state.json"))
		return len(running) == 0
	})
	var r bench.Report
	out := sandboxtest.MustCommand(t, env, "bench", "--json", "--shape", "second", "-n", "30", "--stock", "20", "--captcha", "--fill", "70")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	turn := r.Turns[0]
	got := []int64{int64(*r.Orders), turn.Accepted, turn.Failed, turn.RefusedBy["wrong_captcha"]}
	if diff := cmp.Diff([]int64{20, 20, 0, 0}, got); diff != "" {
		t.Errorf("orders, accepted, failed, wrong captchas: %s\n%v %v", diff, turn.RefusedBy, turn.FailedBy)
	}
	// Each buyer requests a captcha, an address and a unit, unless an earlier refusal ends it.
	if turn.Requests < 3*20+10 {
		t.Errorf("only %d requests", turn.Requests)
	}
	if !r.Captcha || r.Filled != 70 {
		t.Errorf("captcha %t, %d filled; want true, 70", r.Captcha, r.Filled)
	}
	if !r.Audit.Clean {
		t.Error(r.Audit.Said)
	}
	if left, _ := filepath.Glob(filepath.Join(data, "temporary-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	list := sandboxtest.Call("GET", shop.URL+"/api/sales", "", "")
	if list.Code != "ok" || strings.Contains(string(list.Data), "bench") {
		t.Errorf("the running shop shows %s %s", list.Code, list.Data)
	}
	if users := sandboxtest.MustCommand(t, env, "users", "-n", "1"); !strings.Contains(users, "\n3,") {
		t.Errorf("the demo accounts are users 1 and 2, and the next one is\n%s", users)
	}
}

// Invalid flags are refused before anything starts. The old name of --baseline is still accepted.
func TestBenchRefuses(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	for flag, args := range map[string]string{"--sales: not": "--sales 5 --shape second", "--sales: 0": "--sales=-1", "--fill": "--fill 5", "--captcha": "--captcha",
		"--baseline": "--yardstick --shape conns", "--conns": "--conns 20001", "--url": "--url http://192.0.2.1:8080", "--rate": "--shape open", "-n": "-n 1000001",
		"--sale": "--url http://127.0.0.1:1 --buyers x.csv", "--sale: only": "--sale 7", "--sale: not with --sales": "--url http://127.0.0.1:1 --sale 7 --sales 5 --shape streams", "--sales: 0 to": "--sales 1001 --shape polls",
		"--ladder: only": "--ladder", "--shape: not": "--ladder --shape polls", "--rounds": "--rounds 0", "--shape": "--shape round", "--ops": "--ops http://127.0.0.1:1"} {
		out, errs, code := sandboxtest.Command(t, env, append([]string{"bench"}, strings.Fields(args)...)...)
		if code == 0 || out != "" {
			t.Errorf("%s: exit %d, stdout %s", args, code, out)
		}
		if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, flag) {
			t.Errorf("%s: stderr %swant one line with %s", args, errs, flag)
		}
	}
}
