package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"miaosha/seckill/operator"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

// These tests use the built binary as an operator and buyers do: by its commands, over HTTP, and by
// killing it.

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// crowd returns n buyers who each want one unit of the sale and have no hidden address yet.
func crowd(t *testing.T, s *sandboxtest.Shop, n int, sale string) []*sandboxtest.Buyer {
	t.Helper()
	buyers := s.Buyers(t, n, "")
	for _, b := range buyers {
		b.Sale = sale
	}
	return buyers
}

// rush lets all buyers buy at once and waits for them, for as long as some of them get on.
func rush(buyers []*sandboxtest.Buyer) {
	var all sync.WaitGroup
	var done atomic.Int64
	for _, b := range buyers {
		all.Go(func() {
			for before := int64(-1); b.State == "" && before != done.Load(); {
				before = done.Load()
				b.Buy(time.Now().Add(sandboxtest.Hang))
			}
			done.Add(1)
		})
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

// units is how many units of a sale are in stock, and how many orders of each kind there are.
type units struct{ Stock, Live, Paid, Cancelled int }

func countUnits(t *testing.T, db *pgx.Conn, sale string) units {
	t.Helper()
	rows, _ := db.Query(t.Context(), `
		select stock,
		       (select count(*) from orders where sale_id = sales.id and status in ('pending', 'paid')) as live,
		       (select count(*) from orders where sale_id = sales.id and status = 'paid') as paid,
		       (select count(*) from orders where sale_id = sales.id and status = 'cancelled') as cancelled
		from   sales where id = $1`, sale)
	u, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[units])
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// checkAudit checks that every invariant holds.
func checkAudit(t *testing.T, env []string) {
	t.Helper()
	if out, errs, code := sandboxtest.Command(t, env, "audit"); code != 0 {
		t.Errorf("audit: exit %d\n%s%s", code, out, errs)
	}
}

// checkResults checks the results that the buyers received: n of them own an order, the others were
// refused as sold out, no ticket was forgotten, and the audit is clean.
func checkResults(t *testing.T, s *sandboxtest.Shop, env []string, sale string, buyers []*sandboxtest.Buyer, n int) {
	t.Helper()
	states := map[string]int{}
	for _, b := range buyers {
		states[b.State]++
		if b.Forgotten {
			t.Errorf("buyer %d had a ticket, and the shop denied it", b.ID)
		}
		if b.State != "ordered" {
			continue
		}
		if r := sandboxtest.Call("GET", s.URL+"/api/orders/"+b.OrderID, b.Token, ""); r.Code != "ok" {
			t.Errorf("buyer %d has the result order %s, which is %d %s", b.ID, b.OrderID, r.Status, r.Code)
		}
	}
	if states["ordered"] != n || states["ordered"]+states["sold_out"] != len(buyers) {
		t.Errorf("%d buyers of %d units have the results %v\n%s", len(buyers), n, states, s.Log)
	}
	u := countUnits(t, database(t, env), sale)
	if u.Live != n {
		t.Errorf("%d live orders, want %d", u.Live, n)
	}
	if u.Stock != 0 && n < len(buyers) {
		t.Errorf("%d units are left, want 0", u.Stock)
	}
	checkAudit(t, env)
	var page struct{ Left int }
	if !sandboxtest.Poll(func() bool { // it shows the units of the last tick of reconcile
		sandboxtest.Call("GET", s.URL+"/api/sales/"+sale, "", "").Read(t, &page)
		return page.Left == u.Stock
	}) {
		t.Errorf("the page says %d left, Postgres %d", page.Left, u.Stock)
	}
}

func TestCrowdBuysExactly(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	s := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 60)
	buyers := crowd(t, s, 400, sale)
	rush(buyers)
	checkResults(t, s, env, sale, buyers, 60)
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d after SIGTERM\n%s", code, s.Log)
	}
}

func TestCrowdBuysExactlyWithoutAGate(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off", "MIAOSHA_GATE=off")
	s := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 30)
	buyers := crowd(t, s, 150, sale)
	rush(buyers)
	checkResults(t, s, env, sale, buyers, 30)
}

// When the shop is stopped or killed and another starts, every buyer with a ticket still receives a
// result.
func TestShopEndsInTheMiddle(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
			s := sandboxtest.Open(t, env)
			sale := sandboxtest.Sale(t, env, 100)
			buyers := crowd(t, s, 300, sale)
			var mu sync.Mutex
			url := s.URL
			for _, b := range buyers {
				b.At(func() string { mu.Lock(); defer mu.Unlock(); return url })
			}
			var all sync.WaitGroup
			early, late := buyers[:90], buyers[90:] // too few for all units, however slow the test is
			all.Go(func() { rush(early) })
			db := database(t, env)
			sandboxtest.Until(t, "some units are sold", func() bool { return countUnits(t, db, sale).Live >= 20 })
			all.Go(func() { rush(late) })
			if code := s.End(sig); sig == syscall.SIGTERM && code != 0 {
				t.Errorf("exit code %d\n%s", code, s.Log)
			}
			again := sandboxtest.Open(t, env)
			mu.Lock()
			url = again.URL
			mu.Unlock()
			all.Wait()
			checkResults(t, again, env, sale, buyers, 100)
		})
	}
}

// Unpaid units return to the stock, other buyers buy them, and in the end exactly the stock is sold.
// A shop runs the statements of a purchase before a sale opens, and takes them back: see package warm.
func TestAShopWarmsItsConnections(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	sandboxtest.Open(t, env)
	db, tries := database(t, env), 0
	sandboxtest.Until(t, "an order is inserted, and taken back, before the sale opens", func() bool {
		if tries++; tries%500 == 1 { // a machine at its limit may miss one opening
			sandboxtest.Sale(t, env, 1, "--start", "18s")
		}
		inserted := 0
		if err := db.QueryRow(t.Context(), `select n_tup_ins from pg_stat_user_tables where relname = 'orders'`).Scan(&inserted); err != nil {
			t.Fatal(err)
		}
		return inserted > 0
	})
}

func TestUnpaidUnitsAreSoldAgain(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	s := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 20)
	buyers := crowd(t, s, 60, sale)
	unpaid, paying := buyers[:20], buyers[20:]
	rush(unpaid)
	if _, err := database(t, env).Exec(t.Context(), `update orders set expires_at = created_at`); err != nil { // the payment deadline has passed
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var paid atomic.Int64
	for _, b := range paying {
		all.Go(func() {
			sandboxtest.Poll(func() bool { // a buyer who finds the sale sold out comes again: other buyers have not paid
				if b.Buy(time.Now().Add(sandboxtest.Hang)); b.State != "ordered" {
					return paid.Load() == 20
				}
				if r := b.Pay(time.Now().Add(sandboxtest.Hang), b.OrderID); r.Code != "ok" {
					t.Errorf("pay order %s: %d %s %s", b.OrderID, r.Status, r.Code, r.Msg)
				}
				paid.Add(1)
				return true
			})
		})
	}
	all.Wait()
	if diff := cmp.Diff(units{Stock: 0, Live: 20, Paid: 20, Cancelled: 20}, countUnits(t, database(t, env), sale)); diff != "" {
		t.Errorf("%s\n%s", diff, s.Log)
	}
	checkAudit(t, env)
}

// Invalid settings are refused in one line that names the setting, before anything starts.
func TestStartRefusesWhatCantWork(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	with := func(over ...string) []string { return append(append([]string{}, env...), over...) }
	taken := sandboxtest.Open(t, env)
	url := strings.TrimPrefix(env[0], "DATABASE_URL=")
	without := func(name string, over ...string) []string {
		return append(slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, name+"=") }), over...)
	}
	half := without("DATABASE_URL", "MIAOSHA_SANDBOX=postgres")
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
		{"a port alone", `--addr (MIAOSHA_ADDR): "8080" is not a host and a port such as 127.0.0.1:8080`, env, []string{"--addr", "8080"}},
		{"a host alone", `--ops-addr (MIAOSHA_OPS_ADDR): "127.0.0.1" is not a host and a port such as 127.0.0.1:8081`, env, []string{"--ops-addr", "127.0.0.1"}},
		{"a URL for a name", `--allow-host (MIAOSHA_ALLOW_HOST): "https://shop.example" is not a name such as shop.example`, env, []string{"--allow-host", "https://shop.example"}},
		{"a name with a port", `"shop.example:443"`, env, []string{"--allow-host", "b.example,shop.example:443"}},
		{"a name for many", `"*.example"`, env, []string{"--allow-host", "*.example"}},
		{"a name with a dot behind it", `"shop.example."`, env, []string{"--allow-host", "shop.example."}},
		{"a name behind a space", `" shop.example"`, with("MIAOSHA_ALLOW_HOST=b.example, shop.example"), nil},
		{"a name in another script", `"秒杀.example"`, env, []string{"--allow-host", "秒杀.example"}},
		{"Postgres unreachable", "DATABASE_URL", with("DATABASE_URL=postgres://u:p@127.0.0.1:1/db"), nil},
		{"Postgres nonsense", "DATABASE_URL", with("DATABASE_URL=nonsense://"), nil},
		{"Postgres password", "DATABASE_URL", with("DATABASE_URL=" + strings.Replace(url, "@", "wrong@", 1)), nil},
		{"Redis unreachable", "REDIS_URL", with("REDIS_URL=redis://127.0.0.1:1"), nil},
		{"Redis nonsense", "REDIS_URL", with("REDIS_URL=nonsense"), nil},
		{"session Redis unreachable", "SESSION_REDIS_URL", with("SESSION_REDIS_URL=redis://127.0.0.1:1"), nil},
		{"newer schema", "schema version 1000", newer, nil},
		{"play money where others reach it", "--cashier sandbox", env, []string{"--addr", "0.0.0.0:0"}},
		{"play money on all networks", "MIAOSHA_NOTIFY_SECRET", env, []string{"--addr", ":0"}},
		{"play money behind a proxy", "--cashier sandbox", env, []string{"--trusted-proxies", "127.0.0.0/8"}},
		{"play money behind a proxy's name", "--cashier sandbox", env, []string{"--allow-host", "shop.example"}},
		{"a secret twice", "MIAOSHA_SECRET_FILE", with("MIAOSHA_SECRET_FILE=/dev/null"), nil},
		{"a provider's key twice", "MIAOSHA_PROVIDER_SECRET_FILE", with("MIAOSHA_PROVIDER_SECRET=x", "MIAOSHA_PROVIDER_SECRET_FILE=/dev/null"), nil},
		{"a provider by plain HTTP", "--provider-url", env, []string{"--provider-url", "http://pay.example"}},
		{"a provider without the shop's key", "--provider-secret", env, []string{"--provider-url", "https://pay.example"}},
		{"a provider without its own key", "--notify-secret", with("MIAOSHA_PROVIDER_SECRET=0123456789abcdef0123456789abcdef"), []string{"--provider-url", "https://pay.example"}},
		{"no file with the secret", "MIAOSHA_SECRET_FILE: no such file", without("MIAOSHA_SECRET", "MIAOSHA_SECRET_FILE=/nowhere"), nil},
		{"share of 0", "--max-conns-share", env, []string{"--max-conns-share", "0"}},
		{"share above 100", "--max-conns-share", env, []string{"--max-conns-share", "101"}},
		{"no secret", "--secret (MIAOSHA_SECRET): required", without("MIAOSHA_SECRET"), nil},
		{"an empty secret", "MIAOSHA_SECRET is set, but empty", with("MIAOSHA_SECRET="), nil},
		{"a blank secret", "MIAOSHA_SECRET is set, but empty", with("MIAOSHA_SECRET= \ufeff"), nil},
		{"an empty address of Redis", "REDIS_URL is set, but empty", with("REDIS_URL="), nil},
		{"an empty address of the sessions' Redis", "SESSION_REDIS_URL is set, but empty", with("SESSION_REDIS_URL="), nil},
		{"an empty address of the standby", "READ_DATABASE_URL is set, but empty", with("READ_DATABASE_URL="), nil},
		{"an empty provider's key", "MIAOSHA_NOTIFY_SECRET is set, but empty", with("MIAOSHA_NOTIFY_SECRET="), nil},
		{"an empty argument", "--redis-url is empty", env, []string{"--redis-url", ""}},
		{"a key that is guessed", "--notify-secret (MIAOSHA_NOTIFY_SECRET): 31 bytes are too short, at least 32", with("MIAOSHA_NOTIFY_SECRET=" + strings.Repeat("x", 31)), nil},
		{"a shop's key that is guessed", "--provider-secret (MIAOSHA_PROVIDER_SECRET): 1 bytes are too short", with("MIAOSHA_PROVIDER_SECRET=x", "MIAOSHA_PROVIDER_URL=https://pay.example"), nil},
		{"no Redis", "--redis-url (REDIS_URL): required, since the other store is given; --sandbox redis (MIAOSHA_SANDBOX)", without("REDIS_URL"), nil},
		{"no Redis for a command", "--redis-url (REDIS_URL): required", without("REDIS_URL"), []string{"sale", "--title", "T"}},
		{"no Redis to print", "--redis-url (REDIS_URL): required", without("REDIS_URL"), []string{"config"}},
		{"no Redis to list sales", "--redis-url (REDIS_URL): required", without("REDIS_URL"), []string{"sale", "list"}},
		{"no Redis for the sandbox's Postgres", "--redis-url (REDIS_URL): required with --sandbox postgres", []string{"MIAOSHA_SANDBOX=postgres"}, nil},
		{"no Postgres for the sandbox's Redis", "--database-url (DATABASE_URL): required with --sandbox redis", []string{"MIAOSHA_SANDBOX=redis"}, nil},
		{"a Postgres beside the sandbox's", "--sandbox postgres (MIAOSHA_SANDBOX): not together with --database-url (DATABASE_URL)", with("MIAOSHA_SANDBOX=postgres"), nil},
		{"a Redis beside the sandbox's", "--sandbox redis (MIAOSHA_SANDBOX): not together with --redis-url (REDIS_URL)", with("MIAOSHA_SANDBOX=redis"), nil},
		{"a store beside the sandbox", "--sandbox both (MIAOSHA_SANDBOX): not together with --redis-url (REDIS_URL)", without("DATABASE_URL", "MIAOSHA_SANDBOX=both"), nil},
		{"a proxy before a half sandbox", "--trusted-proxies (MIAOSHA_TRUSTED_PROXIES): the sandbox trusts no proxy", half, []string{"--trusted-proxies", "10.0.0.0/8"}},
		{"short secret", "MIAOSHA_SECRET", with("MIAOSHA_SECRET=short"), nil},
		{"rate 0", "--rate", env, []string{"--rate", "0"}},
		{"queue of 0", "--qmax", env, []string{"--qmax", "0"}},
		{"no worker", "--queue-workers: at least 1", env, []string{"--queue-workers", "0"}},
		{"more workers than connections", "--queue-workers (MIAOSHA_QUEUE_WORKERS): 5 workers need a connection each, and --pool-settle (MIAOSHA_POOL_SETTLE) has 4",
			with("MIAOSHA_QUEUE_WORKERS=5"), nil},
		{"pause below 0", "--settle-pause", env, []string{"--settle-pause=-1ms"}},
		{"captcha answers with an own store", "MIAOSHA_CAPTCHA_ANSWERS", with("MIAOSHA_CAPTCHA_ANSWERS=true"), nil},
		{"captcha answers with an own Redis", "--captcha-answers", half, []string{"--captcha-answers"}},
		{"a lane of one with an own store", "--lane-batch", env, []string{"--lane-batch", "1"}},
		{"settling one by one with an own Redis", "--settle-batch", half, []string{"--settle-batch", "1"}},
		{"no sold-out mark with an own store", "--sold-out-mark", env, []string{"--sold-out-mark", "1ns"}},
		{"no cache of sales with an own store", "--catalogue-life", env, []string{"--catalogue-life", "1ns"}},
		{"no copies of sessions with an own Redis for them", "--session-copies", []string{"MIAOSHA_SANDBOX=both", "SESSION_REDIS_URL=redis://127.0.0.1:1"},
			[]string{"--session-copies", "1ns"}},
		{"a lane of none", "--lane-batch: 1 to 256", env, []string{"--lane-batch", "0"}},
		{"settling none", "--settle-batch: 1 to 2000", env, []string{"--settle-batch", "0"}},
		{"a mark that lasts", "--sold-out-mark: 1ns to 50ms", env, []string{"--sold-out-mark", "51ms"}},
		{"a catalogue of no life", "--catalogue-life: 1ns to 1s", env, []string{"--catalogue-life", "0s"}},
		{"copies of no life", "--session-copies: 1ns to 900ms", env, []string{"--session-copies", "0s"}},
		{"in flight 0", "--max-in-flight", env, []string{"--max-in-flight", "0"}},
		{"gate factor 0", "--gate-factor", env, []string{"--gate-factor", "0"}},
		{"time zone", "--time-zone", env, []string{"--time-zone", "Mars/Olympus"}},
		{"pay within 0", "--pay-within", env, []string{"--pay-within", "0s"}},
		{"captcha", "--captcha", env, []string{"--captcha", "maybe"}},
		{"log level", "debug, info, warn or error", env, []string{"--log-level", "loud"}},
		{"strategy of the lab", "guard-unique", env, []string{"lab", "--strategies", "foo"}},
		{"fault of the lab", "redis-pause", env, []string{"lab", "--faults", "flood"}},
		{"flag", "--nonsense", env, []string{"--nonsense"}},
		{"half a certificate", "--tls-cert", env, []string{"--tls-cert", "x.pem"}},
		{"sale without stock", "--stock", env, []string{"sale", "--title", "T", "--stock", "0"}},
		{"sale with stock below 0", "--stock", env, []string{"sale", "--title", "T", "--stock=-1"}},
		{"sale with a price below 0", "--price", env, []string{"sale", "--title", "T", "--price=-1"}},
		{"sale that ends before it starts", "--end", env, []string{"sale", "--title", "T", "--start", "2h", "--end", "2020-01-01T00:00:00Z"}},
		{"sale with an invalid start", "--start", env, []string{"sale", "--title", "T", "--start", "sometime"}},
		{"sale with a picture that is not there", "goods/kettle.svg, goods/keyboard.svg", env, []string{"sale", "--title", "T", "--image", "goods/none.svg"}},
		{"draft with an upload that is not there", "--image", env, []string{"sale", "draft", "--title", "T", "--image", "/pictures/none.png"}},
		{"sale without a title", "--title", env, []string{"sale", "--title", ""}},
		{"no users", "-n", env, []string{"users", "-n", "0"}},
		{"users for no sale", "--sale", env, []string{"users", "-n", "1", "--sale", "12345"}},
		{"administrator without a phone", "--phone", env, []string{"admin", "--phone", "nonsense"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, errs, code := sandboxtest.Command(t, c.env, c.args...)
			if code == 0 || out != "" {
				t.Errorf("exit %d\nstdout: %s", code, out)
			}
			if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) {
				t.Errorf("stderr: %swant one line with %q", errs, c.says)
			}
		})
	}
	var n int
	if err := database(t, env).QueryRow(t.Context(), `select (select count(*) from sales) + (select count(*) from users)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows were created, %v", n, err)
	}
}

// Commands use the data of a sandbox folder whether its shop runs or not.
func TestCommandsShareTheSandbox(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir(), "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "PATH=" + os.Getenv("PATH"),
		"MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind()}
	t.Cleanup(func() { sandboxtest.Command(t, env, "reset", "--yes") })
	data := filepath.Join(strings.TrimPrefix(env[0], "HOME="), ".cache", "miaosha")
	for _, args := range [][]string{{"sale", "--title", "T"}, {"sale", "list"}, {"users", "-n", "1"}, {"admin", "--phone", "13911112222"},
		{"ban", "lift", "--phone", "13911112222"}, {"ticket", "01a1fcde-b4cc-7e32-a2ab-8b8f9f201656"}, {"audit"}} {
		out, errs, code := sandboxtest.Command(t, env, args...)
		if code == 0 || out != "" || !strings.Contains(errs, "there is no shop: no setting names one, and there is no sandbox in "+data) {
			t.Errorf("%v without a shop: exit %d %s%s", args, code, out, errs)
		}
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("commands without a shop left a data folder: %v", err)
	}
	sandboxtest.MustCommand(t, env, "lab", "--strategies", "guard-unique", "--buyers", "5", "--stock", "2")
	if left, _ := filepath.Glob(filepath.Join(data, "[a-z]*")); len(left) != 1 { // a lock
		t.Errorf("the lab makes a sandbox that stays: %v", left)
	}
	s := sandboxtest.Open(t, env)
	s.End(syscall.SIGTERM)
	before := sandboxtest.Sale(t, env, 7) // the shop is not running
	s = sandboxtest.Open(t, env)
	for _, args := range [][]string{{"sale", "--title", "T"}, {"sale", "pause", before}, {"sale", "resume", before}, {"users", "-n", "1"},
		{"admin", "--phone", "13911112222", "--by", demoAdmin}} {
		if _, errs, code := sandboxtest.Command(t, env, args...); code != 0 || !strings.Contains(errs, "the sandbox in "+data) {
			t.Errorf("%v does not say which shop it has changed: exit %d %s", args, code, errs)
		}
	}
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/"+before, "", ""); r.Code != "ok" {
		t.Errorf("the sale created before the start: %d %s", r.Status, r.Code)
	}
	second := sandboxtest.Open(t, env) // on the same folder, so another process of the same shop
	login := `{"phone":"` + demoBuyer + `","password":"` + demoPassword + `"}`
	var me struct{ Token string }
	sandboxtest.Call("POST", s.URL+"/api/login", "", login).Read(t, &me)
	if r := sandboxtest.Call("GET", second.URL+"/api/me", me.Token, ""); r.Code != "ok" {
		t.Errorf("the second process does not know the session of the first: %d %s", r.Status, r.Code)
	}
	for _, args := range [][]string{{"reset", "--yes"}, {"reset"}} {
		out, errs, code := sandboxtest.Command(t, env, args...)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "stop it first") {
			t.Errorf("%v while the shop runs: exit %d, asks %q, %s", args, code, out, errs)
		}
	}
	if out := sandboxtest.MustCommand(t, env, "audit"); !strings.Contains(out, "every invariant holds") {
		t.Errorf("audit: %s", out)
	}
	second.End(syscall.SIGTERM)
	if !strings.Contains(second.Say.String(), strconv.Itoa(s.PID())) {
		t.Errorf("the second process does not print that it shares: %s", second.Say)
	}
	s.End(syscall.SIGKILL)
	s = sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/"+before, "", ""); r.Code != "ok" {
		t.Errorf("the sale after a crash: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)
	sandboxtest.MustCommand(t, env, "reset", "--yes")
	if _, errs, code := sandboxtest.Command(t, env, "sale", "--title", "T"); code == 0 || !strings.Contains(errs, "there is no shop") {
		t.Errorf("a command after a reset: exit %d %s", code, errs)
	}
	s = sandboxtest.Open(t, env)
	if r := sandboxtest.Call("GET", s.URL+"/api/sales/999", "", ""); r.Code != "no_sale" {
		t.Errorf("after a reset: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)
}

// The sandbox, whose passwords are public, is chosen and never fallen into: beside a setting of a real shop nothing starts it, and no
// command makes one. The line names the setting as it was given.
func TestTheSandboxIsChosen(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	file := func(name, text string) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	const key = "0123456789abcdef0123456789abcdef"
	whole := file("whole", key)
	for _, c := range []struct {
		says string
		env  string // with blanks between
		args string
	}{
		{"DATABASE_URL_FILE: ", "DATABASE_URL_FILE=" + file("empty", "") + " MIAOSHA_SECRET_FILE=" + whole + " MIAOSHA_PROVIDER_URL=https://pay.example MIAOSHA_TRUSTED_PROXIES=10.0.0.0/8", ""},
		{"is empty: write the value into it", "DATABASE_URL_FILE=" + file("blank", "\ufeff \r\n"), ""},
		{"is in UTF-16: save it as UTF-8", "DATABASE_URL_FILE=" + file("wide", "\xff\xfep\x00o\x00"), ""},
		{"DATABASE_URL_FILE: read /: is a directory", "DATABASE_URL_FILE=/", ""},
		{"DATABASE_URL_FILE: /dev/zero has more than 64 KB", "DATABASE_URL_FILE=/dev/zero", ""},
		{"DATABASE_URL_FILE: it is set, but empty", "DATABASE_URL_FILE=", ""},
		{"DATABASE_URL is set, but empty", "DATABASE_URL=", ""},
		{"DATABASE_URL is set, but empty", "DATABASE_URL=", "admin --phone 13911112222"},
		{"MIAOSHA_NOTIFY_SECRET_FILE: ", "MIAOSHA_NOTIFY_SECRET_FILE=" + file("none", "\n"), ""},
		{"miaosha: MIAOSHA_SECRET: this is for a real shop, and DATABASE_URL is not set", "MIAOSHA_SECRET=" + key, ""},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, ""},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, "sale --title T"},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, "audit"},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, "lab"},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, "bench"},
		{"miaosha: MIAOSHA_SECRET_FILE: this is", "MIAOSHA_SECRET_FILE=" + whole, "config"},
		{"miaosha: --secret: this is", "", "--secret " + key},
		{"miaosha: MIAOSHA_NOTIFY_SECRET: this is", "MIAOSHA_NOTIFY_SECRET=" + key, ""},
		{"miaosha: MIAOSHA_NOTIFY_SECRET: this is", "MIAOSHA_NOTIFY_SECRET=" + key, "admin --phone 13911112222"},
		{"miaosha: MIAOSHA_PROVIDER_SECRET, MIAOSHA_PROVIDER_URL: this is", "MIAOSHA_PROVIDER_URL=https://pay.example MIAOSHA_PROVIDER_SECRET=" + key, ""},
		{"miaosha: MIAOSHA_LEGACY_SALT: this is", "MIAOSHA_LEGACY_SALT=1a2b3c4d", ""},
		{"miaosha: MIAOSHA_TRUSTED_PROXIES: this is", "MIAOSHA_TRUSTED_PROXIES=10.0.0.0/8", ""},
		{"MIAOSHA_TRUSTED_PROXIES is set, but empty", "MIAOSHA_TRUSTED_PROXIES=", ""},
		{"miaosha: MIAOSHA_TRUSTED_PROXIES: this is", "MIAOSHA_TRUSTED_PROXIES=", "admin --phone 13911112222"},
		{"miaosha: --trusted-proxies: this is", "", "--trusted-proxies 127.0.0.1/32"},
		{"the sandbox trusts no proxy", "MIAOSHA_SANDBOX=both", "--trusted-proxies 127.0.0.1/32"},
		{"miaosha: MIAOSHA_TLS_DOMAIN: this is", "MIAOSHA_TLS_DOMAIN=shop.example", ""},
		{"miaosha: REDIS_URL: this is for a real shop, and DATABASE_URL is not set", "REDIS_URL=redis://127.0.0.1:1", ""},
		{"add --sandbox postgres (MIAOSHA_SANDBOX)", "REDIS_URL=redis://127.0.0.1:1", "sale --title T"},
		{"miaosha: SESSION_REDIS_URL: this is", "SESSION_REDIS_URL=redis://127.0.0.1:1", ""},
		{"only with --database-url", "READ_DATABASE_URL=postgres://h/d", ""},
	} {
		env := append(strings.Fields(c.env), "HOME="+home, "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "PATH="+os.Getenv("PATH"))
		out, errs, code := sandboxtest.Command(t, env, strings.Fields(c.args)...)
		if code == 0 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.says) || strings.Contains(errs, key) {
			t.Errorf("%s miaosha %s: exit %d %s%swant one line with %q", c.env, c.args, code, out, errs, c.says)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// No variable may be empty: what it was to set got lost on its way, in a file of compose or in a script.
func TestAnEmptyVariableIsNamed(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	all := regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(sandboxtest.MustCommand(t, nil, "serve", "--help"), -1)
	if len(all) < 50 {
		t.Fatalf("the help names %d variables", len(all))
	}
	for _, m := range all {
		out, errs, code := sandboxtest.Command(t, append(slices.Clone(env), m[1]+"="))
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, m[1]+" is set, but empty: give it a value, or unset it") {
			t.Errorf("%s=: exit %d %s%s", m[1], code, out, errs)
		}
	}
}

// A variable whose name is nearly that of a setting stops everything: what it was to set would be missing without a word. Another one
// that begins as ours do is named, and hinders nothing.
func TestAMisspeltVariableIsNamed(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	for variable, meant := range map[string]string{
		"MIAOSHA_NOTIFY_SECRT": "MIAOSHA_NOTIFY_SECRET", "MIAOSHA_TRUSTED_PROXY": "MIAOSHA_TRUSTED_PROXIES", "MIAOSHA_SECRETFILE": "MIAOSHA_SECRET_FILE",
		"MIAOSHA_CASHEIR": "MIAOSHA_CASHIER", "MIAOSHA_DATABASE_URL": "DATABASE_URL", "MIAOSHA_REDIS_URL": "REDIS_URL", "miaosha_rate": "MIAOSHA_RATE",
		"MIAOSHA_PROVIDER": "MIAOSHA_PROVIDER_NAME", "\ufeffMIAOSHA_SMS": "MIAOSHA_SMS", "DATABASE_URI_FILE": "DATABASE_URL_FILE",
		"READ_DATABSE_URL": "READ_DATABASE_URL", "MIAOSHA-RATE": "MIAOSHA_RATE", "MIOASHA_RATE": "MIAOSHA_RATE", "MIAOSHASECRET": "MIAOSHA_SECRET", "SESSION_REDIS_URI": "SESSION_REDIS_URL",
	} {
		_, errs, code := sandboxtest.Command(t, append(slices.Clone(env), variable+"=sesame"), "sale", "list")
		if code != 2 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, variable+" is no setting, did you mean "+meant+"?") || strings.Contains(errs, "sesame") {
			t.Errorf("%s: exit %d %swant one line with %s", variable, code, errs, meant)
		}
	}
	if _, errs, code := sandboxtest.Command(t, append(slices.Clone(env), "MIAOSHA_ADDR_FILE=/x"), "sale", "list"); code != 2 || !strings.Contains(errs, "only a secret or a URL may be in a file: set MIAOSHA_ADDR") {
		t.Errorf("a file for an address: exit %d %s", code, errs)
	}
	// Kubernetes makes the first ones for a service miaosha; the last are another program's, beside ours that are set.
	others := []string{"MIAOSHA_PORT=tcp://10.0.0.1:80", "MIAOSHA_PORT_8080_TCP_ADDR=10.0.0.1", "MIAOSHA_SERVICE_HOST=10.0.0.1", "DATABASE_URI=x", "REDIS_PORT=x"}
	_, errs, code := sandboxtest.Command(t, append(slices.Clone(env), others...), "sale", "list")
	if code != 0 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "MIAOSHA_PORT, MIAOSHA_PORT_8080_TCP_ADDR, MIAOSHA_SERVICE_HOST") || strings.Contains(errs, "DATABASE_URI") {
		t.Errorf("beside unknown variables: exit %d %s", code, errs)
	}
}

// Both the word help and the flag --help print the help.
func TestHelpIsAlsoAWord(t *testing.T) {
	t.Parallel()
	env := []string{"HOME=" + t.TempDir()}
	for args, want := range map[string]string{"help": "audit", "--help": "audit", "help bench": "--baseline"} {
		if out := sandboxtest.MustCommand(t, env, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("miaosha %s does not mention %s:\n%s", args, want, out)
		}
	}
}

// The accounts of the sandbox are public, so it listens on loopback only, unless --allow-lan is set. It
// refuses other addresses before it starts anything. A shop on its own stores may listen anywhere.
func TestTheSandboxStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "MIAOSHA_DATA_DIR=" + dir + "/data"}
	const closed, off = "127.0.0.1:0", "off"
	for _, c := range []struct{ addr, ops, names string }{
		{"0.0.0.0:0", off, "--addr"}, {":0", off, "--addr"}, {"[::]:0", off, "--addr"}, {"192.0.2.1:8080", off, "--addr"}, {"shop.example:8080", off, "--addr"},
		{closed, "0.0.0.0:0", "--ops-addr"}, {closed, ":0", "--ops-addr"}, {closed, "[::]:0", "--ops-addr"},
	} {
		out, errs, code := sandboxtest.Command(t, env, "--addr", c.addr, "--ops-addr", c.ops)
		if code == 0 || out != "" {
			t.Fatalf("--addr %s --ops-addr %s: exit %d\n%s%s", c.addr, c.ops, code, out, errs)
		}
		if strings.Count(errs, "\n") != 1 {
			t.Fatalf("--addr %s --ops-addr %s: stderr %swant one line", c.addr, c.ops, errs)
		}
		for _, want := range []string{c.names + " ", "--allow-lan"} {
			if !strings.Contains(errs, want) {
				t.Fatalf("--addr %s --ops-addr %s: stderr %swant %s", c.addr, c.ops, errs, want)
			}
		}
	}
	if _, errs, code := sandboxtest.Command(t, env, "--addr", "8080", "--ops-addr", off); code == 0 || !strings.Contains(errs, "127.0.0.1:8080") {
		t.Errorf("--addr 8080: exit %d %swant a host and a port", code, errs)
	}
	// With an own Redis it is still the sandbox, since the accounts are in Postgres.
	stores := sandboxtest.Stores(t)
	half := append(slices.Clone(env), stores[1], "MIAOSHA_SANDBOX=postgres")
	if _, errs, code := sandboxtest.Command(t, half, "--addr", "0.0.0.0:0", "--ops-addr", "off"); code == 0 || !strings.Contains(errs, "--allow-lan") {
		t.Errorf("beside an own Redis: exit %d %s", code, errs)
	}
	if _, err := os.Stat(dir + "/data"); !os.IsNotExist(err) {
		t.Errorf("a refused sandbox left its data folder: %v", err)
	}

	t.Cleanup(func() { sandboxtest.Command(t, env, "reset", "--yes") })
	s := sandboxtest.Open(t, env, "--addr", "0.0.0.0:0", "--ops-addr", "0.0.0.0:0", "--allow-lan")
	if r := sandboxtest.Call("GET", s.URL+"/api/sales", "", ""); r.Code != "ok" {
		t.Errorf("with --allow-lan: %d %s", r.Status, r.Code)
	}
	if !strings.Contains(s.Say.String(), "the sandbox makes a database with Postgres") {
		t.Errorf("the first start does not say what it does: %s", s.Say)
	}
	demo := regexp.MustCompile(`demo shopkeeper     (\d+) / (\S+)`).FindStringSubmatch(s.Say.String())
	if demo == nil {
		t.Fatalf("the sandbox does not print its administrator: %s", s.Say)
	}
	login := `{"phone":"` + demo[1] + `","password":"` + demo[2] + `"}`
	if r := sandboxtest.Call("POST", s.URL+"/api/login", "", login); r.Code != "ok" {
		t.Errorf("the demo shopkeeper: %d %s", r.Status, r.Code)
	}
	s.End(syscall.SIGTERM)

	own := sandboxtest.Open(t, stores, "--addr", "0.0.0.0:0", "--cashier", "sandbox")
	if r := sandboxtest.Call("POST", own.URL+"/api/login", "", login); r.Code != "wrong_password" {
		t.Errorf("the demo shopkeeper of a shop on its own stores: %d %s", r.Status, r.Code)
	}

	// The data of a sandbox may be copied to a real shop, with the public password in it.
	const warning = "has the public password of the sandbox"
	if strings.Contains(own.Log.String(), warning) {
		t.Errorf("a warning without a reason: %s", own.Log)
	}
	db, err := pgxpool.New(t.Context(), strings.TrimPrefix(stores[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := demoAccounts(t.Context(), user.New(db, nil, nil, user.Config{}, slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	if own = sandboxtest.Open(t, stores); !strings.Contains(own.Log.String(), warning) {
		t.Errorf("the password of the sandbox in a shop on its own stores: %s", own.Log)
	}
}

// A shop that other machines reach on its own Postgres takes play money only if it is told to.
func TestPlayMoneyBeyondThisMachineIsSaid(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	for _, settings := range [][]string{{"MIAOSHA_CASHIER=sandbox"}, {"MIAOSHA_CASHIER=off"}, {"MIAOSHA_NOTIFY_SECRET=notify-notify-notify-notify-notify"},
		{"MIAOSHA_CASHIER=sandbox", "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8"}} {
		shop := sandboxtest.Open(t, slices.Concat(stores, []string{"MIAOSHA_ADDR=0.0.0.0:0"}, settings))
		if r := sandboxtest.Call("GET", shop.URL+"/api/sales", "", ""); r.Code != "ok" {
			t.Errorf("%v: %d %s", settings, r.Status, r.Code)
		}
		if said := strings.Contains(shop.Say.String(), "play money"); said != (settings[0] == "MIAOSHA_CASHIER=sandbox") {
			t.Errorf("%v: the shop says\n%s", settings, shop.Say)
		}
		shop.End(syscall.SIGTERM)
	}
}

// Secrets may be in files that the environment names. One that came as an argument is warned of, without
// being printed.
func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	inFile := func(name, text string) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, []byte("\ufeff"+text+"\r\n"), 0o600); err != nil { // as an editor on Windows saves it
			t.Fatal(err)
		}
		return "=" + at
	}
	const key = "notify-notify-notify-notify-notify"
	env := slices.DeleteFunc(slices.Clone(stores), func(s string) bool {
		return strings.HasPrefix(s, "DATABASE_URL=") || strings.HasPrefix(s, "MIAOSHA_SECRET=")
	})
	env = append(env, "DATABASE_URL_FILE"+inFile("url", strings.TrimPrefix(stores[0], "DATABASE_URL=")),
		"MIAOSHA_SECRET_FILE"+inFile("secret", "0123456789abcdef0123456789abcdef"), "MIAOSHA_NOTIFY_SECRET_FILE"+inFile("key", key))
	notice := func(shop *sandboxtest.Shop) string {
		body, now := `{"order_id":"00000000-0000-4000-8000-000000000000","amount":1,"provider_ref":"r"}`, strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(now + "." + body))
		return sandboxtest.Call("POST", shop.URL+"/api/payments/notify", "", body, "X-Timestamp", now, "X-Signature", hex.EncodeToString(mac.Sum(nil))).Code
	}
	shop := sandboxtest.Open(t, env)
	if code := notice(shop); code != "not_found" {
		t.Errorf("a notice for no order, signed with the key in the file: %s", code)
	}
	if log := shop.Log.String(); strings.Contains(log, "argument") {
		t.Errorf("a warning without a reason: %s", log)
	}
	out := sandboxtest.MustCommand(t, env, "config")
	if strings.Contains(out, key) || !regexp.MustCompile(`notify-secret +\*{4}`).MatchString(out) {
		t.Errorf("config prints\n%s", out)
	}

	shop = sandboxtest.Open(t, stores, "--notify-secret", key)
	if code := notice(shop); code != "not_found" {
		t.Errorf("a notice for no order, signed with the key in the argument: %s", code)
	}
	if log := shop.Log.String(); !strings.Contains(log, "MIAOSHA_NOTIFY_SECRET_FILE") || strings.Contains(log, key) || strings.Contains(log, "MIAOSHA_SECRET_FILE") {
		t.Errorf("the log of a shop with a key in its arguments: %s", log)
	}
	if _, errs, _ := sandboxtest.Command(t, stores, "audit", "--secret", key+key); !strings.Contains(errs, "MIAOSHA_SECRET_FILE") || strings.Contains(errs, key) {
		t.Errorf("a command with a secret in its arguments says %q", errs)
	}

	// A shop that the bench starts receives the secrets of the files, and not their names as well.
	if out, errs, code := sandboxtest.Command(t, env, "bench", "--shape", "second", "-n", "5", "--stock", "1"); code != 0 {
		t.Errorf("bench with secrets in files: exit %d %s%s", code, out, errs)
	}
}

// Whatever is set for the shop's role or database, a purchase has the same answers, and so has the audit.
func TestSettingsOfTheDatabaseChangeNothing(t *testing.T) {
	t.Parallel()
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")
	db := database(t, env)
	var known []string
	rows, _ := db.Query(t.Context(), `select name from pg_settings`)
	known, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"standard_conforming_strings": "off", "escape_string_warning": "off", "backslash_quote": "off", "quote_all_identifiers": "on", "transform_null_equals": "on", "array_nulls": "off",
		"client_encoding": "LATIN1", "datestyle": "SQL, DMY", "timezone": "Asia/Kathmandu", "intervalstyle": "iso_8601", "bytea_output": "escape", "extra_float_digits": "-15",
		"xmlbinary": "hex", "xmloption": "document", "default_text_search_config": "pg_catalog.german", "timezone_abbreviations": "India",
		"default_transaction_isolation": "serializable", "default_transaction_deferrable": "on", "statement_timeout": "1ms", "lock_timeout": "1ms",
		"idle_in_transaction_session_timeout": "1ms", "idle_session_timeout": "10s", "transaction_timeout": "10s", "exit_on_error": "on", "row_security": "off",
		"search_path": "pg_catalog, public", "lc_messages": "C", "lc_monetary": "C", "lc_numeric": "C", "lc_time": "C", "client_min_messages": "error", "log_min_messages": "panic",
		"plan_cache_mode": "force_generic_plan", "work_mem": "64kB", "from_collapse_limit": "1", "join_collapse_limit": "1",
		"geqo_threshold": "2", "constraint_exclusion": "on", "synchronize_seqscans": "off", "synchronous_commit": "off", "check_function_bodies": "off",
		"default_table_access_method": "heap", "default_toast_compression": "pglz", "track_activities": "off", "stats_fetch_consistency": "none", "cursor_tuple_fraction": "1",
		"plpgsql.extra_errors": "all", "plpgsql.extra_warnings": "all", "plpgsql.check_asserts": "off", "plpgsql.variable_conflict": "use_column",
	} {
		if strings.Contains(name, ".") || slices.Contains(known, name) { // others are of other versions
			if _, err := db.Exec(t.Context(), "alter database "+db.Config().Database+" set "+name+" = '"+strings.ReplaceAll(value, ", ", "', '")+"'"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	s := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 8)
	buyers := crowd(t, s, 20, sale)
	rush(buyers)
	look := append([]string{env[0] + "&statement_timeout=0&lock_timeout=0&transaction_timeout=0"}, env[1:]...) // of the test itself
	if !slices.Contains(known, "transaction_timeout") {
		look[0] = strings.TrimSuffix(look[0], "&transaction_timeout=0")
	}
	checkResults(t, s, look, sale, buyers, 8)
	for _, b := range buyers {
		if b.State == "ordered" {
			if r := b.Pay(time.Now().Add(sandboxtest.Hang), b.OrderID); r.Code != "ok" {
				t.Fatalf("pay: %d %s", r.Status, r.Raw)
			}
			break
		}
	}
	if out, errs, code := sandboxtest.Command(t, env, "audit"); code != 0 || !strings.Contains(out, "every invariant holds") {
		t.Errorf("audit: exit %d\n%s%s", code, out, errs)
	}
	if out := sandboxtest.MustCommand(t, env, "sale", "list"); !strings.Contains(out, "T") {
		t.Errorf("the sales are %s", out)
	}
	if log := s.Log.String(); strings.Contains(log, "internal error") {
		t.Errorf("the shop says %s", log)
	}
	if code := s.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.Log)
	}
}

// libpqs are variables of libpq with values under which no connection of a client that reads them would be the same.
var libpqs = []string{"PGSERVICE=none", "PGSERVICEFILE=/nowhere", "PGOPTIONS=-c search_path=none -c statement_timeout=1", "PGHOST=192.0.2.1", "PGPORT=1", "PGDATABASE=none", "PGUSER=none",
	"PGPASSWORD=wrong", "PGPASSFILE=/nowhere", "PGAPPNAME=none", "PGTZ=Nowhere/Never", "PGCONNECT_TIMEOUT=soon", "PGTARGETSESSIONATTRS=standby",
	"PGSSLMODE=verify-full", "PGSSLROOTCERT=/nowhere", "PGSSLCERT=/nowhere", "PGSSLKEY=/nowhere", "PGSSLPASSWORD=x", "PGSSLCERTMODE=require", "PGSSLSNI=2", "PGSSLNEGOTIATION=direct",
	"PGMINPROTOCOLVERSION=9", "PGMAXPROTOCOLVERSION=0", "PGCHANNELBINDING=require", "PGREQUIREAUTH=none", "PGCLIENTENCODING=LATIN1", "PGDATESTYLE=German"}

// The environment is no setting: variables of libpq change neither a sandbox nor a shop whose DATABASE_URL is
// complete. A variable that completes an address is read all the same: a password.
func TestTheEnvironmentOfLibpqIsNoSetting(t *testing.T) {
	t.Parallel()
	env := sandboxtest.Stores(t)
	s := sandboxtest.Open(t, append(slices.Clone(env), libpqs...))
	if log := s.Log.String(); !strings.Contains(log, "PGSERVICE") || strings.Contains(log, "wrong") {
		t.Errorf("the log has to name the variables that are not read: %s", log)
	}
	out, errs, code := sandboxtest.Command(t, append(slices.Clone(env), libpqs...), "audit")
	if code != 0 || !strings.Contains(out, "every invariant holds") {
		t.Errorf("audit: exit %d\n%s%s", code, out, errs)
	}
	at, err := url.Parse(strings.TrimPrefix(env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	at.User = url.User(at.User.Username())
	sandboxtest.MustCommand(t, append(slices.Clone(env), "DATABASE_URL="+at.String(), "PGPASSWORD="+password), "audit")

	own := append([]string{"HOME=" + sandboxtest.Home(t), "MIAOSHA_ADDR=127.0.0.1:0", "MIAOSHA_OPS_ADDR=off", "PATH=" + os.Getenv("PATH"),
		"MIAOSHA_SANDBOX_REDIS=" + sandboxtest.Kind(), "TZ=Nowhere/Never", "LC_ALL=tlh", "HTTP_PROXY=http://192.0.2.1:1", "HTTPS_PROXY=http://192.0.2.1:1", "http_proxy=http://192.0.2.1:1"}, libpqs...)
	t.Cleanup(func() { sandboxtest.Command(t, own, "reset", "--yes") })
	shop := sandboxtest.Open(t, own)
	if log := shop.Log.String(); strings.Contains(log, "PG") {
		t.Errorf("the sandbox, which needs none of them, says %s", log)
	}
	sandboxtest.MustCommand(t, own, "sale", "list")
	// Closing its terminal ends it as SIGTERM does, and other signals do nothing.
	for _, quiet := range operator.QuietSignals {
		shop.Signal(t, quiet)
	}
	if r := sandboxtest.Call("GET", shop.URL+"/api/sales", "", ""); r.Code != "ok" {
		t.Errorf("after signals that mean nothing: %d %s\n%s", r.Status, r.Raw, shop.Log)
	}
	end := syscall.SIGHUP
	if signal.Ignored(end) { // the tests run under nohup, and so does the shop: it has to stay
		end = syscall.SIGTERM
	}
	if code := shop.End(end); code != 0 || !strings.Contains(shop.Say.String(), "no ticket waits") {
		t.Errorf("exit code %d after %s\n%s%s", code, end, shop.Say, shop.Log)
	}
}
