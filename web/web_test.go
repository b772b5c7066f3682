package web_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

func TestMain(m *testing.M) { sandboxtest.Main(m, endBrowser) }

const notifySecret = "notify-notify-notify-notify-notify"

// testShop is a running shop and its environment. Its methods end the test on a failure.
type testShop struct {
	*sandboxtest.Shop
	t   *testing.T
	env []string
}

// openShop opens a shop on stores of its own, without captchas and with the sandbox cashier. env
// overrides its settings.
func openShop(t *testing.T, env ...string) testShop {
	t.Helper()
	all := append(append(sandboxtest.Stores(t), shopSettings...), env...)
	return testShop{sandboxtest.Open(t, all), t, all}
}

var shopSettings = []string{"MIAOSHA_CAPTCHA=off", "MIAOSHA_NOTIFY_SECRET=" + notifySecret, "MIAOSHA_CASHIER=sandbox"}

// sharedShop returns the shop that the tests of this package share: see sandboxtest.Shared. Its settings are those of
// openShop, without limits of rates, because all tests come from one address.
func sharedShop(t *testing.T) testShop {
	t.Helper()
	shop, env := sandboxtest.Shared(t, append(slices.Clone(shopSettings), "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off")...)
	return testShop{shop, t, env}
}

// another opens a second process on the same stores.
func (shop testShop) another() testShop {
	shop.t.Helper()
	shop.Shop = sandboxtest.Open(shop.t, shop.env)
	return shop
}

// redis returns a client of the shop's Redis. The end of the test closes it.
func (shop testShop) redis() *redis.Client {
	shop.t.Helper()
	opts, err := redis.ParseURL(strings.TrimPrefix(shop.env[1], "REDIS_URL="))
	if err != nil {
		shop.t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	shop.t.Cleanup(func() { rdb.Close() })
	return rdb
}

// sale creates a sale with the flags of miaosha sale, and returns its id. It waits until the shop knows the sale: for
// a second a shop may think that an older one is the newest.
func (shop testShop) sale(flags ...string) string {
	shop.t.Helper()
	id := sandboxtest.Sale(shop.t, shop.env, 100, flags...)
	shop.knows(id)
	return id
}

// knows waits until this process knows a sale.
func (shop testShop) knows(sale string) {
	shop.t.Helper()
	sandboxtest.Until(shop.t, "the shop knows sale "+sale, func() bool { return shop.ask("GET", "/api/sales/"+sale, "", "").Status == 200 })
}

// tokens creates n users and returns the tokens of their sessions.
func (shop testShop) tokens(n int) (tokens []string) {
	shop.t.Helper()
	for _, b := range shop.newBuyers(n) {
		tokens = append(tokens, b.Token)
	}
	return tokens
}

// newBuyers creates n users whose sessions the shop has not used yet.
func (shop testShop) newBuyers(n int) []*sandboxtest.Buyer {
	shop.t.Helper()
	return shop.Buyers(shop.t, n, "")
}

// staff makes a member of the staff on behalf of the administrator by ("" for the first), who has chosen a password, and
// returns the token of a session.
func (shop testShop) staff(phone, role, by string) (token string) {
	shop.t.Helper()
	args := []string{"admin", "--phone", phone, "--role", role}
	if by != "" {
		args = append(args, "--by", by)
	}
	_, password, _ := strings.Cut(sandboxtest.MustCommand(shop.t, shop.env, args...), "password: ")
	password = strings.TrimSpace(password)
	var in struct{ Token, Role string }
	shop.insist("/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password)).Read(shop.t, &in)
	shop.insist("/api/password", in.Token, fmt.Sprintf(`{"old":%q,"new":%q}`, password, staffPassword)).Read(shop.t, &in)
	if in.Role != role {
		shop.t.Fatalf("the %s is %q", role, in.Role)
	}
	return in.Token
}

const staffPassword = "chosen by its owner"

// call makes one request.
func (shop testShop) call(method, path, token, body string, headers ...string) sandboxtest.Reply {
	return sandboxtest.Call(method, shop.URL+path, token, body, headers...)
}

// ask is call for a shop with a certificate that no authority has signed.
func (shop testShop) ask(method, path, token, body string, headers ...string) sandboxtest.Reply {
	return sandboxtest.CallBy(anyCertificate, method, shop.URL+path, token, body, headers...)
}

// insist posts until the shop is not busy: while a machine is, a password that is to be hashed waits too long.
func (shop testShop) insist(path, token, body string, headers ...string) (r sandboxtest.Reply) {
	shop.t.Helper()
	sandboxtest.Until(shop.t, path+" is answered", func() bool {
		if r = shop.ask("POST", path, token, body, headers...); r.Code != "busy" {
			return true
		}
		time.Sleep(r.RetryAfter() / 2) //timing: as the shop asks, since each try takes from a bucket
		return false
	})
	return r
}

// anyCertificate is a client that accepts every certificate.
var anyCertificate = &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64}}

// address returns the hidden address of a sale.
func (shop testShop) address(sale, token string) string {
	shop.t.Helper()
	var at struct{ Path string }
	shop.insist("/api/sales/"+sale+"/path", token, "").Read(shop.t, &at)
	return at.Path
}

// order buys a unit of a sale and returns the order's id.
func (shop testShop) order(sale, token string) string {
	shop.t.Helper()
	b := &sandboxtest.Buyer{Token: token, Sale: sale}
	return b.At(func() string { return shop.URL }).Order(shop.t)
}

// status returns the status of an order.
func (shop testShop) status(order, token string) string {
	shop.t.Helper()
	var o struct{ Status string }
	shop.call("GET", "/api/orders/"+order, token, "").Read(shop.t, &o)
	return o.Status
}

// checkAudit runs miaosha audit, which checks every invariant.
func (shop testShop) checkAudit() {
	shop.t.Helper()
	if out := sandboxtest.MustCommand(shop.t, shop.env, "audit"); !strings.Contains(out, "holds") {
		shop.t.Error(out)
	}
}

// connect opens a connection to the shop's database, for as long as the test.
func (shop testShop) connect() *pgx.Conn {
	shop.t.Helper()
	db, err := pgx.Connect(shop.t.Context(), strings.TrimPrefix(shop.env[0], "DATABASE_URL="))
	if err != nil {
		shop.t.Fatal(err)
	}
	shop.t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// opsURL waits until the shop has printed the URL for the operator, and returns it.
func (shop testShop) opsURL() (url string) {
	shop.t.Helper()
	sandboxtest.Until(shop.t, "the URL for the operator is printed", func() bool {
		_, rest, _ := strings.Cut(shop.Say.String(), "metrics, health")
		url, _, _ = strings.Cut(strings.TrimSpace(rest), "\n")
		return url != ""
	})
	return url
}

// The word attached among the trusted proxies stands for the networks of this machine, and not for loopback: a
// container has no other name for the network that it shares with a proxy.
func TestAttachedNetworksMayBeTrusted(t *testing.T) {
	t.Parallel()
	cfg := web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", TrustedProxies: []string{"192.0.2.0/24", "attached"}}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"192.0.2.0/24"}
	for _, a := range own {
		if n, is := a.(*net.IPNet); is && !n.IP.IsLoopback() {
			ones, _ := n.Mask.Size()
			want = append(want, fmt.Sprintf("%v/%d", n.IP.Mask(n.Mask), ones))
		}
	}
	err = cfg.Validate()
	if len(want) == 1 {
		if err == nil || !strings.Contains(err.Error(), "--trusted-proxies: attached: this machine has no network") {
			t.Errorf("without a network: %v", err)
		}
		return
	}
	if err != nil || !slices.Equal(cfg.TrustedProxies, want) {
		t.Errorf("trusted: %v, %v; want %v", cfg.TrustedProxies, err, want)
	}
}
