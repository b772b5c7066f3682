package web_test

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
)

// slower opens a second process on the same stores, with settings of its own.
func (shop testShop) slower(env ...string) testShop {
	shop.env = append(append([]string{}, shop.env...), env...)
	return shop.another()
}

// A user who goes on against refusals cannot buy in any process, is told so, and keeps the orders. The others behind
// the address can. A command ends the ban.
func TestABannedUserCannotBuy(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_BAN=20/hour", "MIAOSHA_BAN_FOR=1h")
	slow := shop.slower("MIAOSHA_RATE=1/hour")
	sale, later := shop.sale("--stock", "5"), shop.sale("--stock", "5")
	slow.knows(sale)
	buyers := shop.newBuyers(2)
	bot, other := buyers[0], buyers[1]
	order := shop.order(sale, bot.Token)
	for _, b := range buyers {
		if r := shop.insist("/api/sales/"+later+"/path", b.Token, ""); r.Code != "ok" {
			t.Fatalf("before the ban: %s", outcome(r))
		}
	}
	began := time.Now()
	slow.polls(30, sale, bot.Token)
	sandboxtest.Until(t, "every process knows the ban", func() bool {
		return shop.call("POST", "/api/sales/"+later+"/path", bot.Token, "").Code == "banned" &&
			slow.call("POST", "/api/sales/"+later+"/path", bot.Token, "").Code == "banned"
	})
	for route, path := range map[string]string{"sum": "GET /captcha", "sum in words": "GET /captcha?kind=words", "address": "POST /path", "buy": "POST /buy/" + signPath(t, bot, later, time.Hour)} {
		method, path, _ := strings.Cut(path, " ")
		for language, want := range map[string]string{"zh-CN": "暂时不能抢购", "en-GB": "cannot buy for a while"} {
			r := shop.call(method, "/api/sales/"+later+path, bot.Token, "", "Accept-Language", language)
			var told struct {
				Left int64 `json:"retry_after_ms"`
			}
			if err := json.Unmarshal(r.Raw, &told); err != nil || outcome(r) != "429 banned" || !strings.Contains(r.Msg, want) {
				t.Errorf("%s, banned: %s %s, %v", route, outcome(r), r.Raw, err)
			}
			left, least := time.Duration(told.Left)*time.Millisecond, time.Hour-time.Since(began)-time.Second // Redis has another clock
			if left < least || left > time.Hour || r.RetryAfter() < least || r.RetryAfter() > time.Hour {
				t.Errorf("%s: the ban ends in %v, Retry-After is %v; want %v to an hour", route, left, r.RetryAfter(), least)
			}
		}
	}
	for _, path := range []string{"GET /api/sales/" + sale + "/result", "GET /api/orders", "POST /api/orders/" + order + "/pay", "POST /api/orders/" + order + "/cancel"} {
		method, path, _ := strings.Cut(path, " ")
		if r := shop.call(method, path, bot.Token, ""); r.Code != "ok" {
			t.Errorf("%s by a banned user: %s", path, outcome(r))
		}
	}
	if r := shop.insist("/api/sales/"+later+"/path", other.Token, ""); r.Code != "ok" {
		t.Errorf("another user behind the address: %s", outcome(r))
	}
	list := strings.Fields(sandboxtest.MustCommand(t, shop.env, "ban", "list"))
	if len(list) != 3 || list[0] != strconv.FormatInt(bot.ID, 10) {
		t.Fatalf("ban list prints %q", list)
	}
	if says := sandboxtest.MustCommand(t, shop.env, "ban", "lift", "--phone", list[1]); !strings.Contains(says, "can buy again") {
		t.Errorf("ban lift prints %q", says)
	}
	sandboxtest.Until(t, "the ban has ended", func() bool {
		return shop.call("POST", "/api/sales/"+later+"/path", bot.Token, "").Code == "ok"
	})
}

// Refusals of an address ban no one, however many they are.
func TestAnAddressIsNeverBanned(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=10/hour", "MIAOSHA_IP_RATE=1/hour", "MIAOSHA_BAN=1/hour")
	sale, buyers := shop.sale(), shop.tokens(2)
	if got := shop.polls(9, sale, buyers[0]); got["too_many"] != 8 { // the user's own bucket has ten tokens
		t.Fatalf("one address: %v", got)
	}
	shop.polls(30, sale, buyers[1])
	path := "/api/sales/" + sale + "/path"
	sandboxtest.Until(t, "a user with refusals of the user's own is banned", func() bool {
		return shop.call("POST", path, buyers[1], "").Code == "banned"
	})
	if r := shop.call("POST", path, buyers[0], ""); r.Code != "too_many" {
		t.Errorf("a user whom the address refused: %s", outcome(r))
	}
}

// The limits of a minute are of all processes together. Without Redis each process goes on with its own count.
func TestLimitsOfAMinuteAreShared(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(stores[1], "REDIS_URL="))
	shop := openShop(t, "MIAOSHA_RATE=1000", "MIAOSHA_IP_RATE=off", stores[0], "REDIS_URL="+through)
	other := shop.another()
	me := shop.tokens(1)[0]
	cancels := func(shop testShop, n int) (allowed int) {
		for range n {
			switch r := shop.call("POST", "/api/orders/00000000-0000-4000-8000-000000000000/cancel", me, ""); outcome(r) {
			case "404 not_found":
				allowed++
			case "429 too_many":
			default:
				t.Errorf("cancel: %s", outcome(r))
			}
		}
		return allowed
	}
	began := time.Now()
	refilled := func() int { return int(time.Since(began).Seconds()) + 1 }
	one, two := cancels(shop, 40), cancels(other, 40)
	if one != 40 || one+two < 60 || one+two > 60+refilled() {
		t.Errorf("two processes allow %d and %d, want 40 and 20", one, two)
	}
	proxy.Cut()
	if alone := cancels(shop, 40); alone < 20 || alone > 20+refilled() {
		t.Errorf("without Redis the first process allows %d more, want the 20 that are left in its own bucket", alone)
	}
}

// The page tells a banned buyer how long the ban lasts, and that the orders stay.
func TestABanIsToldOnThePage(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	sale := s.sale(t, "--title", "T", "--stock", "5")
	in := sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"13800000000","password":"miaosha-demo"}`)
	var demo struct {
		ID    float64 `json:"user_id"`
		Token string
	}
	in.Read(t, &demo)
	ends := time.Now().Add(time.Hour)
	if err := s.redis.ZAdd(t.Context(), "ms:bans", redis.Z{Member: int64(demo.ID), Score: float64(ends.UnixMilli())}).Err(); err != nil {
		t.Fatal(err)
	}
	sandboxtest.Until(t, "the shop knows the ban", func() bool {
		return sandboxtest.Call("GET", s.URL+"/api/sales/"+sale+"/captcha", demo.Token, "").Code == "banned"
	})
	for language, want := range map[string]string{"zh-CN": `(\d+) 分钟内暂时不能抢购`, "en-GB": `cannot buy for another (\d+) minutes`} {
		v := visit(t, root, s.URL, language)
		v.emulates(390, 844, "prefers-color-scheme", "dark")
		v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
		v.types("phone", "13800000000")
		v.types("password", "miaosha-demo\r")
		v.sees(view("open"))
		v.clicks("buy")
		v.sees(test("note"))
		note, minutes := v.reads(test("note")), 0
		if m := regexp.MustCompile(want).FindStringSubmatch(note); m != nil {
			minutes, _ = strconv.Atoi(m[1])
		}
		if least := int(math.Ceil((time.Until(ends) - time.Second).Minutes())); minutes < least || minutes > 60 { // Redis has another clock
			t.Errorf("the page says %q, want %q with %d to 60", note, want, least)
		}
		v.until("the page fits the width of the phone", `document.documentElement.scrollWidth <= 390`)
	}
}
