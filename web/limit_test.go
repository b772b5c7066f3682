package web_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// Buckets of these tests get a token in some minutes, so that a slow machine does not change the counts.
func TestOneUserIsLimited(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t).slower("MIAOSHA_RATE=10/hour")
	sale := shop.sale("--stock", "1")
	tokens := shop.tokens(2)
	codes := map[string]int{}
	var refused sandboxtest.Reply
	for range 30 {
		r := shop.call("GET", "/api/sales/"+sale+"/result", tokens[0], "")
		if codes[r.Code]++; r.Code == "too_many" {
			refused = r
		}
	}
	if codes["ok"] != 10 || codes["too_many"] != 20 {
		t.Errorf("30 polls at once: %v, want 10 and 20", codes)
	}
	if refused.Status != 429 || refused.Header.Get("Retry-After") == "" {
		t.Errorf("a refused poll: %d %v", refused.Status, refused.Header)
	}
	if r := shop.call("GET", "/api/sales/"+sale+"/result", tokens[1], ""); r.Code != "ok" {
		t.Errorf("another user: %d %s", r.Status, r.Code)
	}
}

// polls asks n times for a result and counts the codes of the answers.
func (shop testShop) polls(n int, sale, token string, headers ...string) map[string]int {
	codes := map[string]int{}
	for range n {
		r := shop.call("GET", "/api/sales/"+sale+"/result", token, "", headers...)
		codes[r.Code]++
		if shop.checkHeaders("a poll", "/api/sales/"+sale+"/result", r); r.Code != "ok" && r.Code != "too_many" {
			shop.t.Errorf("poll: %d %s", r.Status, r.Raw)
		}
	}
	return codes
}

func TestUsersAndAddressesHaveBucketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	t.Run("a user's", func(t *testing.T) {
		t.Parallel()
		shop := sharedShop(t).slower("MIAOSHA_RATE=1/hour", "MIAOSHA_IP_RATE=5/hour")
		sale, buyers := shop.sale(), shop.tokens(2)
		if got := shop.polls(30, sale, buyers[0]); got["ok"] != 1 || got["too_many"] != 29 {
			t.Errorf("one user: %v", got)
		}
		if got := shop.polls(1, sale, buyers[1]); got["ok"] != 1 {
			t.Errorf("another, from the same address: %v", got)
		}
	})
	t.Run("an address's", func(t *testing.T) {
		t.Parallel()
		shop := sharedShop(t).slower("MIAOSHA_RATE=5/hour", "MIAOSHA_IP_RATE=1/hour", "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8")
		sale, buyers := shop.sale(), shop.tokens(3)
		if got := shop.polls(1, sale, buyers[0], "X-Forwarded-For", "192.0.2.1"); got["ok"] != 1 {
			t.Errorf("the first: %v", got)
		}
		if got := shop.polls(4, sale, buyers[1], "X-Forwarded-For", "192.0.2.1"); got["too_many"] != 4 {
			t.Errorf("another user from the same address: %v", got)
		}
		if got := shop.polls(1, sale, buyers[1], "X-Forwarded-For", "192.0.2.2"); got["ok"] != 1 {
			t.Errorf("the same user from another address: %v", got)
		}
	})
}

// openSlowMatrixShop returns a second process of a matrix shop, with buckets of one token in an hour.
func openSlowMatrixShop(t *testing.T) matrixShop {
	t.Helper()
	shop := openMatrixShop(t)
	shop.testShop = shop.slower("MIAOSHA_RATE=1/hour")
	return shop
}

// Each route that a logged-in user can call asks a store, so it takes from a bucket of the user.
func TestEveryRouteTakesFromABucket(t *testing.T) {
	t.Parallel()
	shop := openSlowMatrixShop(t)
	callers, counted := shop.newBuyers(len(accessMatrix)), 0
	for i, row := range accessMatrix {
		switch _, path, _ := strings.Cut(row.route, " "); {
		case row.want[anonymous] != "401 not_logged_in" && row.want[anonymous] != "401":
			continue // not for users alone
		case strings.HasPrefix(path, "/api/lab"):
			continue // one run at a time; for administrators
		case strings.HasPrefix(path, "/api/admin"):
			continue // a bucket of the staff, of 100 requests
		case path == "/api/logout":
			continue // the session is over after the first
		case path == "/api/password", path == "/api/account/phone":
			continue // counted in Redis: a thief who has the session must not use up the owner's bucket with other requests
		}
		counted++
		b := callers[i]
		method, path := shop.at(row.route, "")
		path = strings.Replace(path, shop.path, signPath(t, b, shop.sale, time.Minute), 1)
		first := shop.ask(method, path, b.Token, row.body)
		second := shop.ask(method, path, b.Token, row.body)
		if first.Status == 429 || second.Status != 429 || second.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, then %s; want 429 the second time alone", row.route, outcome(first), outcome(second))
		}
	}
	if counted < 10 {
		t.Errorf("%d routes take from a bucket, want 10 at least", counted)
	}
}

// Asking for results uses up nothing that paying needs.
func TestPollingLeavesPaymentsAlone(t *testing.T) {
	t.Parallel()
	fast := sharedShop(t)
	shop := fast.slower("MIAOSHA_RATE=1/hour")
	sale, buyers := shop.sale(), shop.newBuyers(2)
	fast.knows(sale)
	me, order := buyers[0].Token, fast.order(sale, buyers[1].Token)
	for range 3 {
		shop.call("GET", "/api/sales/"+sale+"/result", me, "")
	}
	if r := shop.call("GET", "/api/sales/"+sale+"/result", me, ""); r.Status != 429 {
		t.Errorf("a poll: %s, want 429", outcome(r))
	}
	if r := shop.call("POST", "/api/orders/"+order+"/pay", me, ""); outcome(r) != "404 not_found" {
		t.Errorf("a payment of another's order: %s", outcome(r))
	}
}

// The client's address comes from the connection, or from a proxy that the shop trusts.
func TestForwardedForCountsFromTrustedProxiesAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted  string
		forwards []string
		want     int // requests that pass: one per address
	}{
		"no proxy is trusted":        {"", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", ""}, 1},
		"another proxy is trusted":   {"10.0.0.0/8", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", ""}, 1},
		"each has its own":           {"127.0.0.0/8", []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.1"}, 3},
		"made up on the left":        {"127.0.0.0/8", []string{"198.51.100.1, 192.0.2.1", "198.51.100.2,192.0.2.1", "198.51.100.3, , 192.0.2.1"}, 1},
		"two proxies":                {"127.0.0.0/8,10.0.0.0/8", []string{"1.1.1.1, 192.0.2.1, 10.0.0.1", "1.1.1.2, 192.0.2.1, 10.0.0.2"}, 1},
		"an untrusted proxy between": {"127.0.0.0/8", []string{"192.0.2.1, 10.0.0.1", "192.0.2.2, 10.0.0.1"}, 1},
		"one IPv6 network":           {"127.0.0.0/8", []string{"2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::"}, 1},
		"two IPv6 networks":          {"127.0.0.0/8", []string{"2001:db8:0:1::1", "2001:db8:0:2::1"}, 2},
		"IPv4 in IPv6":               {"127.0.0.0/8", []string{"192.0.2.1", "::ffff:192.0.2.1"}, 1},
		"rubbish":                    {"127.0.0.0/8", []string{"x", "192.0.2.1, y", "1", ""}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := web.Config{Rate: "off", IPRate: "1/hour", TimeZone: "UTC", Cashier: "off"}
			if c.trusted != "" {
				cfg.TrustedProxies = strings.Split(c.trusted, ",")
			}
			s, err := web.New(cfg, web.Deps{Log: slog.New(slog.DiscardHandler)}, "")
			if err != nil {
				t.Fatal(err)
			}
			passed := 0
			for _, f := range c.forwards {
				r := httptest.NewRequest("GET", "/api/live", http.NoBody)
				r.RemoteAddr = "127.0.0.1:40000"
				r.Header.Set("X-Forwarded-For", f)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				switch w.Code { // the limit stands before the check of the link, which is missing
				case http.StatusForbidden:
					passed++
				case http.StatusTooManyRequests:
				default:
					t.Errorf("%q: %d %s", f, w.Code, w.Body)
				}
			}
			if passed != c.want {
				t.Errorf("%d of %q passed, want %d", passed, c.forwards, c.want)
			}
		})
	}
}
