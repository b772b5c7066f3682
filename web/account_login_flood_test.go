package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// A door that is full asks for a sum, so these tests see who was not let in: one that was let in, on a busy machine,
// may still wait too long for a password to be hashed, and hears that the shop is busy.
func atTheDoor(r sandboxtest.Reply) bool { return strings.Contains(string(r.Raw), `"captcha":true`) }

// One address that tries passwords without end leaves places for others.
func TestOneAddressDoesNotShutTheDoor(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8", "MIAOSHA_CAPTCHA=math")
	shop.account("13811112222")
	try := func(addr, phone, password string) sandboxtest.Reply {
		return shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password), "X-Forwarded-For", addr)
	}
	over := make(chan struct{})
	var refused atomic.Int64
	var flood sync.WaitGroup
	for i := range 30 {
		flood.Go(func() {
			for n := 0; ; n++ {
				if try("203.0.113.1", fmt.Sprintf("1390%03d%04d", i, n), "x").Status != http.StatusUnauthorized {
					refused.Add(1)
				}
				select {
				case <-over:
					return
				case <-time.After(5 * time.Millisecond): //timing: how often the attacker tries
				}
			}
		})
	}
	defer flood.Wait()
	defer close(over)
	sandboxtest.Until(t, "the address is refused", func() bool { return refused.Load() >= 100 })
	for range 3 {
		sandboxtest.Until(t, "another address logs in beside a flood of log-ins", func() bool {
			r := try("198.51.100.1", "13811112222", firstPassword)
			if r.Code != "ok" && r.Code != "busy" || atTheDoor(r) {
				t.Fatalf("another address beside a flood of log-ins: %d %s", r.Status, r.Raw)
			}
			return r.Code == "ok"
		})
	}
}

// crowd fills the door: each of 24 addresses without an account has one try at a time, without end.
// It returns when the door has refused one, and ends with the test.
func crowd(t *testing.T, shop testShop) {
	t.Helper()
	over := make(chan struct{})
	var refused atomic.Int64
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				r := shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"1390%03d%04d","password":"x"}`, i, n),
					"X-Forwarded-For", fmt.Sprint("203.0.113.", i))
				if r.Status == http.StatusServiceUnavailable {
					refused.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { close(over); all.Wait() })
	if !sandboxtest.Poll(func() bool { return refused.Load() > 0 }) {
		t.Fatal("the door is never full")
	}
}

// cookies returns the cookies of an answer as a header.
func cookies(r sandboxtest.Reply) string {
	var all []string
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

// An owner logs in from the browser of an earlier log-in, whatever strangers do: a crowd fills the door,
// and a neighbour behind the same address tries passwords of the owner's account.
func TestTheOwnersDeviceIsNotLockedOut(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8", "MIAOSHA_CAPTCHA=math")
	shop.account("13811112222")
	login := func(password, cookie string) sandboxtest.Reply {
		return shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, password),
			"X-Forwarded-For", "198.51.100.1", "Cookie", cookie)
	}
	first := shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q}`, firstPassword), "X-Forwarded-For", "198.51.100.1")
	if first.Code != "ok" {
		t.Fatalf("%d %s", first.Status, first.Code)
	}
	var device string // without the session, as after a log-out
	for _, c := range strings.Split(cookies(first), "; ") {
		if strings.HasPrefix(c, "device=") {
			device = c
		}
	}
	owner := func(beside string) {
		t.Helper()
		for range 2 {
			sandboxtest.Until(t, "the owner logs in beside "+beside, func() bool {
				r := login(firstPassword, device)
				if r.Code != "ok" && r.Code != "busy" || atTheDoor(r) {
					t.Fatalf("the owner beside %s: %d %s; want ok", beside, r.Status, r.Raw)
				}
				return r.Code == "ok"
			})
		}
	}
	sandboxtest.Until(t, "the neighbour has tried too often", func() bool { return login("x", "").Code == "too_many" })
	owner("a neighbour who tries passwords")
	crowd(t, shop)
	owner("a crowd that fills the door")
}

// sum draws a sum of the log-in and returns the browser's cookie, and the answer that Redis keeps.
func (s testShop) sum(kind string) (cookie, answer string) {
	s.t.Helper()
	rdb := s.redis()
	rdb.Del(s.t.Context(), rdb.Keys(s.t.Context(), "ms:{0}:login_sum:*").Val()...)
	r := s.call("GET", "/api/login/captcha"+kind, "", "", "X-Forwarded-For", "198.51.100.1", "Accept-Language", "en")
	keys := rdb.Keys(s.t.Context(), "ms:{0}:login_sum:*").Val()
	if r.Status != 200 || len(keys) != 1 {
		s.t.Fatalf("captcha: %d %s, keys %v", r.Status, r.Code, keys)
	}
	answer, _, _ = strings.Cut(rdb.Get(s.t.Context(), keys[0]).Val(), " ")
	return cookies(r), answer
}

// A visitor without a known device who finds the door full solves a sum, and goes in.
func TestASumOpensTheFullDoor(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8", "MIAOSHA_CAPTCHA=math")
	shop.account("13811112222")
	login := func(captcha, cookie string) sandboxtest.Reply {
		return shop.call("POST", "/api/login", "", fmt.Sprintf(`{"phone":"13811112222","password":%q%s}`, firstPassword, captcha),
			"X-Forwarded-For", "198.51.100.1", "Cookie", cookie)
	}
	cookie, answer := shop.sum("")
	if r := login(`,"captcha":"0"`, cookie); r.Code != "wrong_captcha" {
		t.Errorf("a wrong answer: %d %s", r.Status, r.Code)
	}
	if r := login(fmt.Sprintf(`,"captcha":%q`, answer), cookie); r.Code != "wrong_captcha" {
		t.Errorf("a second answer to the same sum: %d %s", r.Status, r.Code)
	}
	if _, answer = shop.sum(""); login(fmt.Sprintf(`,"captcha":%q`, answer), "").Code != "wrong_captcha" {
		t.Error("a sum of another browser was accepted")
	}
	crowd(t, shop)
	for _, kind := range []string{"", "?kind=words"} {
		sandboxtest.Until(t, "a sum"+kind+" opens the full door", func() bool {
			r := login("", "")
			if !atTheDoor(r) {
				return false // a place was free
			}
			if outcome(r) != "503 busy" {
				t.Errorf("at the full door: %s, want busy", outcome(r))
			}
			cookie, answer := shop.sum(kind)
			r = login(fmt.Sprintf(`,"captcha":%q`, answer), cookie)
			if r.Code != "ok" && r.Code != "busy" || atTheDoor(r) {
				t.Fatalf("with a solved sum: %d %s", r.Status, r.Raw)
			}
			return r.Code == "ok"
		})
	}
}

// When strangers have used up the shop's budgets of codes, visitors solve a sum for a code and for the
// registration. No one is refused, and a shop without sums asks for none.
func TestASumGoesAheadOfUsedUpBudgets(t *testing.T) {
	t.Parallel()
	for _, captcha := range []string{"math", "off"} {
		shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES=127.0.0.0/8", "MIAOSHA_CAPTCHA="+captcha)
		ask := func(path, form, sum, cookie string) sandboxtest.Reply {
			if sum != "" {
				form += fmt.Sprintf(`,"captcha":%q`, sum)
			}
			return shop.call("POST", path, "", "{"+form+"}", "X-Forwarded-For", "198.51.100.1", "Cookie", cookie)
		}
		// step sends a form and, if sums are on, expects to be asked for one first.
		step := func(path, form, cookie string) sandboxtest.Reply {
			t.Helper()
			if captcha == "off" {
				return ask(path, form, "", cookie)
			}
			if r := ask(path, form, "", cookie); r.Status != 503 || r.Code != "busy" || !strings.Contains(string(r.Raw), `"captcha":true`) {
				t.Errorf("%s without a sum: %d %s, want busy and captcha", path, r.Status, r.Raw)
			}
			sumCookie, answer := shop.sum("")
			if r := ask(path, form, answer+"0", cookie+"; "+sumCookie); r.Code != "wrong_captcha" {
				t.Errorf("%s with a wrong answer: %d %s", path, r.Status, r.Code)
			}
			sumCookie, answer = shop.sum("?kind=words")
			return ask(path, form, answer, cookie+"; "+sumCookie)
		}
		for _, budget := range []string{"ms:limit:otp:all", "ms:limit:register:all"} {
			if err := shop.redis().Set(t.Context(), budget, time.Now().Add(time.Hour).UnixMilli(), 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		sent := step("/api/otp", `"phone":"13811112222"`, "")
		if sent.Code != "ok" {
			t.Fatalf("captcha %s: the code: %d %s", captcha, sent.Status, sent.Raw)
		}
		var printed []string
		sandboxtest.Until(t, "the code is printed", func() bool {
			printed = consoleLine.FindStringSubmatch(shop.Log.String())
			return printed != nil
		})
		if r := step("/api/register", fmt.Sprintf(`"phone":"13811112222","code":%q,"password":"correct horse","nickname":"x"`, printed[1]), cookies(sent)); r.Code != "ok" {
			t.Errorf("captcha %s: the registration: %d %s", captcha, r.Status, r.Raw)
		}
	}
}
