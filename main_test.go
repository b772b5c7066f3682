package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// These tests run the built binary as an operator and its buyers would: over HTTP, by its commands, and by killing it.

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// buyer is one of a crowd, with all he was told.
type buyer struct {
	id        int64
	token     string
	queued    bool   // he was told 202
	forgotten bool   // and then that he has no ticket
	state     string // his last word: ordered, sold_out, ...
	order     string
}

func crowd(t *testing.T, env []string, n int) []*buyer {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(sandboxtest.MustCommand(t, env, "users", "-n", strconv.Itoa(n)))).ReadAll()
	if err != nil || len(rows) != n+1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	buyers := make([]*buyer, 0, n)
	for _, r := range rows[1:] {
		id, _ := strconv.ParseInt(r[0], 10, 64)
		buyers = append(buyers, &buyer{id: id, token: r[2]})
	}
	return buyers
}

func newSale(t *testing.T, env []string, stock int, more ...string) string {
	t.Helper()
	args := append([]string{"sale", "--title", "T", "--price", "990", "--stock", strconv.Itoa(stock), "--start", "now", "--end", "1h"}, more...)
	return strings.TrimSpace(sandboxtest.MustCommand(t, env, args...))
}

// pause waits as long as the shop asked, or a moment.
func pause(r sandboxtest.Reply) {
	d := 50 * time.Millisecond
	if s, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil {
		d = time.Duration(s) * time.Second / 2 // an impatient one
	}
	time.Sleep(d)
}

// buy does what a person does, with two clicks at once, until he knows: an address, buy, poll. url gives the shop's
// address, which may change.
func (b *buyer) buy(url func() string, sale string, until time.Time) {
	for time.Now().Before(until) {
		base := url() + "/api/sales/" + sale
		if !b.queued {
			r := sandboxtest.Call("POST", base+"/path", b.token, "")
			if r.Code == "sold_out" {
				b.state = "sold_out"
				return
			}
			if r.Code != "ok" {
				pause(r)
				continue
			}
			var at struct{ Path string }
			json.Unmarshal(r.Data, &at)
			var clicks sync.WaitGroup
			var answers [2]sandboxtest.Reply
			for i := range answers {
				clicks.Go(func() { answers[i] = sandboxtest.Call("POST", base+"/buy/"+at.Path, b.token, "") })
			}
			clicks.Wait()
			for _, a := range answers {
				b.queued = b.queued || a.Status == 202
			}
		}
		r := sandboxtest.Call("GET", base+"/result", b.token, "")
		var st struct {
			State   string
			OrderID string `json:"order_id"`
			Next    int    `json:"next_poll_ms"`
		}
		json.Unmarshal(r.Data, &st)
		switch st.State {
		case "ordered", "sold_out", "closed", "invalid":
			b.state, b.order = st.State, st.OrderID
			return
		case "none":
			b.forgotten = b.forgotten || b.queued
			b.queued = false
		}
		time.Sleep(time.Duration(max(20, st.Next)) * time.Millisecond)
	}
}

// rush lets all buyers buy at once and waits for them.
func rush(buyers []*buyer, url func() string, sale string, limit time.Duration) {
	var all sync.WaitGroup
	until := time.Now().Add(limit)
	for _, b := range buyers {
		all.Go(func() { b.buy(url, sale, until) })
	}
	all.Wait()
}

func database(t *testing.T, env []string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

func at(s *sandboxtest.Shop) func() string { return func() string { return s.URL } }

// settled checks what a crowd was told against what is: n hold an order that is theirs, the others heard sold out, and
// the audit is clean.
func settled(t *testing.T, s *sandboxtest.Shop, env []string, sale string, buyers []*buyer, n int) {
	t.Helper()
	states := map[string]int{}
	for _, b := range buyers {
		states[b.state]++
		if b.forgotten {
			t.Errorf("buyer %d held a ticket, and was told that he has none", b.id)
		}
		if b.state != "ordered" {
			continue
		}
		if r := sandboxtest.Call("GET", s.URL+"/api/orders/"+b.order, b.token, ""); r.Code != "ok" {
			t.Errorf("buyer %d was told of order %s, which is %d %s", b.id, b.order, r.Status, r.Code)
		}
	}
	if states["ordered"] != n || states["ordered"]+states["sold_out"] != len(buyers) {
		t.Errorf("%d buyers for %d units heard %v\n%s", len(buyers), n, states, s.Log)
	}
	var out struct {
		Left  int
		State string
	}
	db := database(t, env)
	var stock, orders int
	if err := db.QueryRow(t.Context(), `select stock, (select count(*) from orders where sale_id = sales.id and status in ('pending', 'paid'))
		from sales where id = $1`, sale).Scan(&stock, &orders); err != nil {
		t.Fatal(err)
	}
	if orders != n || stock != 0 && n < len(buyers) {
		t.Errorf("stock %d, %d live orders, want %d", stock, orders, n)
	}
	if out, errs, code := sandboxtest.Command(t, env, "audit"); code != 0 {
		t.Errorf("audit: exit %d\n%s%s", code, out, errs)
	}
	sandboxtest.Call("GET", s.URL+"/api/sales/"+sale, "", "").Read(t, &out)
	if out.Left != stock {
		t.Errorf("the page says %d left, Postgres %d", out.Left, stock)
	}
}

func TestCrowdBuysExactly(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	s := sandboxtest.Open(t, env)
	sale := newSale(t, env, 100)
	buyers := crowd(t, env, 1000)
	began := time.Now()
	rush(buyers, at(s), sale, sandboxtest.Within(60*time.Second))
	t.Logf("1,000 buyers with two clicks each for 100 units: %v", time.Since(began))
	settled(t, s, env, sale, buyers, 100)
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d after SIGTERM\n%s", code, s.Log)
	}
}

func TestCrowdBuysExactlyWithoutAGate(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off", "MIAOSHA_GATE=off")
	s := sandboxtest.Open(t, env)
	sale := newSale(t, env, 50)
	buyers := crowd(t, env, 300)
	rush(buyers, at(s), sale, sandboxtest.Within(60*time.Second))
	settled(t, s, env, sale, buyers, 50)
}

// Nobody who was told that he is queued is without an answer when the shop stops and another begins, be it asked to
// or killed.
func TestShopEndsInTheMiddle(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
			s := sandboxtest.Open(t, env)
			sale := newSale(t, env, 200)
			buyers := crowd(t, env, 600)
			var mu sync.Mutex
			url := s.URL
			here := func() string { mu.Lock(); defer mu.Unlock(); return url }
			done := make(chan struct{})
			go func() { defer close(done); rush(buyers, here, sale, sandboxtest.Within(60*time.Second)) }()
			db := database(t, env)
			for n := 0; n < 20; time.Sleep(time.Millisecond) { // in the middle: some are sold
				if err := db.QueryRow(t.Context(), `select count(*) from orders`).Scan(&n); err != nil {
					t.Fatal(err)
				}
			}
			ended := time.Now()
			if code := s.End(sig); sig == syscall.SIGTERM && code != 0 {
				t.Errorf("exit code %d\n%s", code, s.Log)
			}
			stopped := time.Since(ended)
			again := sandboxtest.Open(t, env)
			mu.Lock()
			url = again.URL
			mu.Unlock()
			<-done
			t.Logf("stopped in %v, everybody knows after %v", stopped, time.Since(ended))
			settled(t, again, env, sale, buyers, 200)
		})
	}
}

// Units that nobody pays for go back on sale, others buy them, and the sale ends exactly sold.
func TestUnpaidUnitsAreSoldAgain(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off", "MIAOSHA_PAY_WITHIN=3s")
	s := sandboxtest.Open(t, env)
	sale := newSale(t, env, 20)
	buyers := crowd(t, env, 60)
	idle, keen := buyers[:20], buyers[20:]
	rush(idle, at(s), sale, sandboxtest.Within(20*time.Second))
	var all sync.WaitGroup
	var paid atomic.Int64
	until := time.Now().Add(sandboxtest.Within(40 * time.Second))
	for _, b := range keen {
		all.Go(func() {
			for b.state != "ordered" && time.Now().Before(until) {
				if b.buy(at(s), sale, until); b.state == "sold_out" {
					time.Sleep(200 * time.Millisecond) // perhaps somebody doesn't pay
				}
				if b.state == "ordered" {
					payFor(t, s, b)
					paid.Add(1)
				} else if paid.Load() >= 20 {
					return
				}
			}
		})
	}
	all.Wait()
	db := database(t, env)
	var stock, bought, cancelled int
	err := db.QueryRow(t.Context(), `select stock, (select count(*) from orders where status = 'paid'),
		(select count(*) from orders where status = 'cancelled') from sales where id = $1`, sale).Scan(&stock, &bought, &cancelled)
	if err != nil || stock != 0 || bought != 20 || cancelled != 20 {
		t.Errorf("stock %d, paid %d, cancelled %d, %v; want 0, 20, 20\n%s", stock, bought, cancelled, err, s.Log)
	}
	if out, errs, code := sandboxtest.Command(t, env, "audit"); code != 0 {
		t.Errorf("audit: exit %d\n%s%s", code, out, errs)
	}
}

// payFor pays at the sandbox cashier.
func payFor(t *testing.T, s *sandboxtest.Shop, b *buyer) {
	r := sandboxtest.Call("POST", s.URL+"/api/orders/"+b.order+"/pay", b.token, "")
	if r.Code != "ok" {
		t.Errorf("pay for order %s: %d %s", b.order, r.Status, r.Code)
		return
	}
	var p struct {
		ID string `json:"payment_id"`
	}
	r.Read(t, &p)
	if r := sandboxtest.Call("POST", s.URL+"/api/cashier/"+p.ID, b.token, `{"action":"confirm"}`); r.Code != "ok" {
		t.Errorf("confirm payment %s: %d %s %s", p.ID, r.Status, r.Code, r.Msg)
		return
	}
}

// What can't work is told in one line that names the setting, before anything is begun.
func TestStartRefusesWhatCantWork(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	with := func(over ...string) []string { return append(append([]string{}, env...), over...) }
	taken := sandboxtest.Open(t, env)
	url := strings.TrimPrefix(env[0], "DATABASE_URL=")
	newer := sandboxtest.Stores(t)
	if _, err := database(t, newer).Exec(t.Context(), `update schema_version set version = 1000`); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		env, args  []string
	}{
		{"port taken", "--addr", env, []string{"--addr", strings.TrimPrefix(taken.URL, "http://")}},
		{"ops port taken", "--ops-addr", env, []string{"--ops-addr", strings.TrimPrefix(taken.URL, "http://")}},
		{"no address", "--addr", env, []string{"--addr", "nonsense"}},
		{"Postgres away", "DATABASE_URL", with("DATABASE_URL=postgres://u:p@127.0.0.1:1/db"), nil},
		{"Postgres nonsense", "DATABASE_URL", with("DATABASE_URL=nonsense://"), nil},
		{"Postgres password", "DATABASE_URL", with("DATABASE_URL=" + strings.Replace(url, "@", "wrong@", 1)), nil},
		{"Redis away", "REDIS_URL", with("REDIS_URL=redis://127.0.0.1:1"), nil},
		{"Redis nonsense", "REDIS_URL", with("REDIS_URL=nonsense"), nil},
		{"session Redis away", "SESSION_REDIS_URL", with("SESSION_REDIS_URL=redis://127.0.0.1:1"), nil},
		{"newer schema", "schema version 1000", newer, nil},
		{"no secret", "MIAOSHA_SECRET", with("MIAOSHA_SECRET="), nil},
		{"short secret", "MIAOSHA_SECRET", with("MIAOSHA_SECRET=short"), nil},
		{"rate 0", "--rate", env, []string{"--rate", "0"}},
		{"queue of 0", "--qmax", env, []string{"--qmax", "0"}},
		{"pause below 0", "--settle-pause", env, []string{"--settle-pause=-1ms"}},
		{"answers told beside an own store", "MIAOSHA_CAPTCHA_ANSWERS", with("MIAOSHA_CAPTCHA_ANSWERS=true"), nil},
		{"answers told beside an own Redis", "--captcha-answers", with("DATABASE_URL="), []string{"--captcha-answers"}},
		{"in flight 0", "--max-in-flight", env, []string{"--max-in-flight", "0"}},
		{"gate factor 0", "--gate-factor", env, []string{"--gate-factor", "0"}},
		{"time zone", "--time-zone", env, []string{"--time-zone", "Mars/Olympus"}},
		{"pay within 0", "--pay-within", env, []string{"--pay-within", "0s"}},
		{"captcha", "--captcha", env, []string{"--captcha", "maybe"}},
		{"flag", "--nonsense", env, []string{"--nonsense"}},
		{"half a certificate", "--tls-cert", env, []string{"--tls-cert", "x.pem"}},
		{"sale without stock", "--stock", env, []string{"sale", "--title", "T", "--stock", "0"}},
		{"sale with stock below 0", "--stock", env, []string{"sale", "--title", "T", "--stock=-1"}},
		{"sale with a price below 0", "--price", env, []string{"sale", "--title", "T", "--price=-1"}},
		{"sale that ends before it starts", "--end", env, []string{"sale", "--title", "T", "--start", "2h", "--end", "2020-01-01T00:00:00Z"}},
		{"sale that starts sometime", "--start", env, []string{"sale", "--title", "T", "--start", "sometime"}},
		{"sale without a title", "--title", env, []string{"sale", "--title", ""}},
		{"no users", "-n", env, []string{"users", "-n", "0"}},
		{"users for no sale", "--sale", env, []string{"users", "-n", "1", "--sale", "12345"}},
		{"administrator without a phone", "--phone", env, []string{"admin", "--phone", "nonsense"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := sandboxtest.Command(t, c.env, c.args...)
			if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d\nstdout: %sstderr: %swant one line with %q", code, out, errs, c.says)
			}
		})
	}
	var n int
	if err := database(t, env).QueryRow(t.Context(), `select (select count(*) from sales) + (select count(*) from users)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows were made, %v", n, err)
	}
}

// The commands work on the sandbox of a folder whether the shop runs or not, and see the same data.
func TestCommandsShareTheSandbox(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir(), "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "PATH=" + os.Getenv("PATH"),
		"MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind()}
	t.Cleanup(func() { sandboxtest.Command(t, env, "reset", "--yes") })
	before := newSale(t, env, 7) // not running
	s := sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/"+before, "", ""); r.Code != "ok" {
		t.Errorf("the sale made before: %d %s", r.Status, r.Code)
	}
	second := sandboxtest.Open(t, env) // on the same folder: another process of the same shop
	login := `{"phone":"` + demoBuyer + `","password":"` + demoPassword + `"}`
	var me struct{ Token string }
	sandboxtest.Call("POST", s.URL+"/api/login", "", login).Read(t, &me)
	if r := sandboxtest.Call("GET", second.URL+"/api/me", me.Token, ""); r.Code != "ok" {
		t.Errorf("the second process does not know the first one's session: %d %s", r.Status, r.Code)
	}
	if _, errs, code := sandboxtest.Command(t, env, "reset", "--yes"); code == 0 || strings.Count(errs, "\n") != 1 {
		t.Errorf("reset beside a running shop: exit %d, %s", code, errs)
	}
	if out := sandboxtest.MustCommand(t, env, "audit"); !strings.Contains(out, "every invariant holds") {
		t.Errorf("audit: %s", out)
	}
	second.End(syscall.SIGTERM)
	if !strings.Contains(second.Say.String(), strconv.Itoa(s.PID())) {
		t.Errorf("the second process does not say that it shares: %s", second.Say)
	}
	s.End(syscall.SIGKILL)
	s = sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/"+before, "", ""); r.Code != "ok" {
		t.Errorf("the sale after a crash: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)
	sandboxtest.MustCommand(t, env, "reset", "--yes")
	s = sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/999", "", ""); r.Code != "no_sale" {
		t.Errorf("after a reset: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)
}

func TestSettingsAreMasked(t *testing.T) {
	t.Parallel()
	env := append(os.Environ(), "DATABASE_URL=postgres://me:sesame@h/db", "REDIS_URL=redis://:sesame@h:1,redis://:sesame@i:2",
		"MIAOSHA_SECRET=sesame-sesame-sesame-sesame-sesame", "MIAOSHA_NOTIFY_SECRET=sesame", "MIAOSHA_LEGACY_SALT=sesame")
	out := sandboxtest.MustCommand(t, env, "config", "--rate", "7")
	if strings.Contains(out, "sesame") || !strings.Contains(out, "rate               7") || !strings.Contains(out, "me:****@h/db") {
		t.Error(out)
	}
}

// Help is there for who asks in a word, as for who knows the flag.
func TestHelpIsAWordToo(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir()}
	for args, want := range map[string]string{"help": "audit", "--help": "audit", "help bench": "--yardstick"} {
		if out := sandboxtest.MustCommand(t, env, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("miaosha %s says nothing of %s:\n%s", args, want, out)
		}
	}
}
