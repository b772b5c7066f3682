package web_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"image/png"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"miaosha/seckill/address"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/user"
)

func TestCaptchaIsAPicture(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_CAPTCHA=math")
	sale := shop.sale("--stock", "1")
	me := shop.tokens(1)[0]
	r := shop.call("GET", "/api/sales/"+sale+"/captcha", me, "")
	if _, err := png.Decode(bytes.NewReader(r.Raw)); err != nil {
		t.Errorf("captcha: %v", err)
	}
	if kind, cache := r.Header.Get("Content-Type"), r.Header.Get("Cache-Control"); kind != "image/png" || cache != "no-store" {
		t.Errorf("captcha: Content-Type %q, Cache-Control %q; want image/png, no-store", kind, cache)
	}
	for _, body := range []string{"", `{}`, `{"captcha":"1"}`} {
		if r := shop.call("POST", "/api/sales/"+sale+"/path", me, body); r.Code != "wrong_captcha" {
			t.Errorf("address for the body %q: %d %s", body, r.Status, r.Code)
		}
	}
	if r := shop.call("POST", "/api/sales/"+sale+"/path", me, `{"captcha":1}`); r.Code != "bad_request" {
		t.Errorf("a number as the answer: %d %s", r.Status, r.Code)
	}
}

// A user who cannot see a picture gets the sum in words of their language, at most one in five seconds.
func TestCaptchaInWords(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_CAPTCHA=math")
	sale := shop.sale("--stock", "1")
	tokens := shop.tokens(3)
	ask := func(token, language string) sandboxtest.Reply {
		return shop.call("GET", "/api/sales/"+sale+"/captcha?kind=words", token, "", "Accept-Language", language)
	}
	var in struct{ Question string }
	zh := ask(tokens[0], "zh-CN")
	if zh.Read(t, &in); !strings.Contains(in.Question, "万") {
		t.Errorf("in Chinese: %q", in.Question)
	}
	if zh.Header.Get("Cache-Control") != "no-store" || zh.Header.Get("X-Captcha-Answer") != "" {
		t.Errorf("in Chinese: headers %v, want no-store and no answer", zh.Header)
	}
	if ask(tokens[1], "en-GB").Read(t, &in); !strings.Contains(in.Question, " thousand ") {
		t.Errorf("in English: %q", in.Question)
	}
	var r sandboxtest.Reply
	sandboxtest.Until(t, "the next one within five seconds is refused", func() bool {
		r = ask(tokens[1], "en-GB")
		return r.Code != "ok" && (r.Code != "too_many" || r.Header.Get("Retry-After") == "5") // less if the machine took a second
	})
	if outcome(r) != "429 too_many" || r.Header.Get("Retry-After") != "5" {
		t.Errorf("the second at once: %d %s, Retry-After %s; want 429 and 5", r.Status, r.Code, r.Header.Get("Retry-After"))
	}
	if r := shop.call("GET", "/api/sales/"+sale+"/captcha", tokens[1], ""); r.Header.Get("Content-Type") != "image/png" {
		t.Errorf("a picture in between: %d %s", r.Status, r.Code)
	}
	if r := ask(tokens[2], "en-GB"); r.Code != "ok" {
		t.Errorf("another user: %d %s", r.Status, r.Code)
	}
	if r := shop.call("GET", "/api/sales/"+sale+"/captcha?kind=song", tokens[2], ""); r.Code != "bad_request" {
		t.Errorf("another kind: %d %s", r.Status, r.Code)
	}
	if r := ask("", "en-GB"); r.Code != "not_logged_in" {
		t.Errorf("no session: %d %s", r.Status, r.Code)
	}
}

// signPath returns a hidden address as the shop signs it, with the secret of sandboxtest.Stores.
func signPath(t *testing.T, b *sandboxtest.Buyer, sale string, life time.Duration) string {
	t.Helper()
	id, err := strconv.ParseInt(sale, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return address.New([]byte("0123456789abcdef0123456789abcdef")).Sign(b.ID, id, b.Token, time.Now().Add(life))
}

// A wrong address costs the shop only arithmetic: it does not read the session and does not ask the gate.
func TestWrongAddressNeverReachesRedis(t *testing.T) {
	t.Parallel()
	stores := sandboxtest.Stores(t)
	proxy, through := sandboxtest.ProxyTo(t, strings.TrimPrefix(stores[1], "REDIS_URL="))
	sent := proxy.Record()
	count := func(word string) int { return strings.Count(sent.String(), word) }
	shop := openShop(t, "MIAOSHA_RATE=off", stores[0], "REDIS_URL="+through)
	sale, second, later := shop.sale("--stock", "100"), shop.sale("--stock", "100"), shop.sale("--start", "30m")
	buyers := shop.newBuyers(3)
	me, stranger, early := buyers[0], buyers[1], buyers[2]
	_, password, _ := strings.Cut(sandboxtest.MustCommand(t, shop.env, "admin", "--phone", "13900001111"), "password: ")
	var twins [2]*sandboxtest.Buyer // two sessions of one user
	for i := range twins {
		var in struct {
			UserID int64 `json:"user_id"`
			Token  string
		}
		shop.insist("/api/login", "", fmt.Sprintf(`{"phone":"13900001111","password":%q}`, strings.TrimSpace(password))).Read(t, &in)
		twins[i] = &sandboxtest.Buyer{ID: in.UserID, Token: in.Token}
	}
	own := signPath(t, me, sale, time.Hour)
	type try struct {
		name, sale, token, path string
	}
	tries := []try{
		{"other user", sale, stranger.Token, own},
		{"other session", sale, twins[1].Token, signPath(t, twins[0], sale, time.Minute)},
		{"other sale", second, me.Token, own},
		{"a sale that has not begun", later, me.Token, own},
		{"no such sale", "999999", me.Token, own},
		{"expired", sale, me.Token, signPath(t, me, sale, -time.Second)},
		{"expired long ago", sale, me.Token, signPath(t, me, sale, -time.Hour)},
		{"cut", sale, me.Token, own[:len(own)-1]},
		{"longer", sale, me.Token, own + "A"},
		{"padded", sale, me.Token, own + "%3D"},
		{"a line break", sale, me.Token, own[:len(own)-1] + "%0A"},
		{"zeros", sale, me.Token, strings.Repeat("A", len(own))},
	}
	raw, err := base64.RawURLEncoding.DecodeString(own)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		b := slices.Clone(raw)
		b[bit/8] ^= 1 << (bit % 8)
		tries = append(tries, try{fmt.Sprintf("bit %d of the bytes", bit), sale, me.Token, base64.RawURLEncoding.EncodeToString(b)})
	}
	for i := range own {
		for bit := range 8 {
			b := []byte(own)
			b[i] ^= 1 << bit
			tries = append(tries, try{fmt.Sprintf("bit %d of letter %d", bit, i), sale, me.Token, url.PathEscape(string(b))})
		}
	}
	gate := func(sale string) string { return "ms:{" + sale + "}:paths" } // both buy and path read it
	sessions := func() (n int) {                                          // calls that name one of these: in the background the shop ends the sessions of before the new role
		for _, token := range []string{me.Token, stranger.Token, twins[1].Token} {
			key := sha256.Sum256([]byte(token))
			n += count("ms:session:" + base64.RawURLEncoding.EncodeToString(key[:]))
		}
		return n
	}
	before := sessions()
	for _, c := range tries {
		r := shop.call("POST", "/api/sales/"+c.sale+"/buy/"+c.path, c.token, "")
		if split := strings.Contains(c.path, "%2F"); r.Code != "bad_path" && !(split && r.Status == 404) {
			t.Errorf("%s: %d %s", c.name, r.Status, r.Code)
		}
	}
	if n := sessions() - before; n != 0 {
		t.Errorf("%d wrong addresses made the shop read sessions %d times", len(tries), n)
	}
	if r := shop.call("POST", "/api/sales/"+later+"/path", early.Token, ""); r.Code != "not_started" {
		t.Errorf("an address before the start: %d %s", r.Status, r.Code)
	}
	for _, s := range []string{sale, second, later} {
		if n := count(gate(s)); n != 0 {
			t.Errorf("%d wrong addresses made the shop ask the gate of sale %s %d times", len(tries), s, n)
		}
	}
	// The proxy does record: a purchase with the right address passes through it.
	before = sessions()
	if r := shop.insist("/api/sales/"+sale+"/buy/"+own, me.Token, ""); r.Status != 202 {
		t.Errorf("the right address: %d %s", r.Status, r.Code)
	}
	if count(gate(sale)) == 0 || sessions() == before {
		t.Error("the proxy has not recorded a purchase")
	}
	for _, p := range buyers {
		if count(p.Token) != 0 {
			t.Error("Redis received a token; it may receive only the hash")
		}
	}
	// An address for another user, signed with the stranger's own token: only the owner of the secret
	// can make it.
	if r := shop.call("POST", "/api/sales/"+sale+"/buy/"+signPath(t, &sandboxtest.Buyer{ID: me.ID, Token: stranger.Token}, sale, time.Minute), stranger.Token, ""); r.Code != "bad_path" {
		t.Errorf("an address for another user, in the stranger's session: %d %s", r.Status, r.Code)
	}
	// An address that the operator's tools made before the start: the gate's clock refuses it.
	if r := shop.insist("/api/sales/"+later+"/buy/"+signPath(t, early, later, time.Minute), early.Token, ""); r.Code != "not_started" {
		t.Errorf("buy before the start: %d %s", r.Status, r.Code)
	}
	shop.checkAudit()
}

// Twenty clicks at once get one ticket, one order and one unit.
func TestRepeatedClickIsOneTicket(t *testing.T) {
	t.Parallel()
	shop := sharedShop(t)
	sale := shop.sale("--stock", "50")
	me := shop.newBuyers(1)[0]
	at := signPath(t, me, sale, time.Hour)
	replies := make([]sandboxtest.Reply, 20)
	var crowd sync.WaitGroup
	for i := range replies {
		crowd.Go(func() {
			replies[i] = me.Insist(time.Now().Add(sandboxtest.Hang), "buy", "POST", "/api/sales/"+sale+"/buy/"+at, "")
		})
	}
	crowd.Wait()
	tickets := map[string]bool{}
	for _, r := range replies {
		var b struct{ Ticket, State string }
		if r.Status != 202 {
			t.Errorf("a click: %d %s", r.Status, r.Raw)
			continue
		}
		if r.Read(t, &b); b.State == "queued" {
			tickets[b.Ticket] = true
		} else if b.State != "ordered" {
			t.Errorf("a click: %s", r.Raw)
		}
	}
	if len(tickets) > 1 { // none if a process that is not sure of its gate found the order before it replied
		t.Errorf("tickets %v, want one", tickets)
	}
	order := shop.order(sale, me.Token)
	var orders []struct{ ID string }
	shop.call("GET", "/api/orders", me.Token, "").Read(t, &orders)
	if len(orders) != 1 || orders[0].ID != order {
		t.Errorf("orders %v, want %s alone", orders, order)
	}
	var one struct{ Left int }
	sandboxtest.Until(t, "a unit is gone", func() bool { // the units left follow later
		shop.call("GET", "/api/sales/"+sale, "", "").Read(t, &one)
		return one.Left != 50
	})
	if one.Left != 49 {
		t.Errorf("%d left of 50", one.Left)
	}
}

// All buys share the places in flight. A buyer who finds no free place hears busy at once.
func TestBuysInFlightAreBounded(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off", "MIAOSHA_GATE=off", "MIAOSHA_MAX_IN_FLIGHT=1")
	sale := shop.sale("--stock", "5")
	buyers := shop.newBuyers(2)
	db := shop.connect()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select 1 from sales where id = $1 for update`, sale); err != nil {
		t.Fatal(err)
	}
	buy := func(p *sandboxtest.Buyer) sandboxtest.Reply {
		return shop.call("POST", "/api/sales/"+sale+"/buy/"+signPath(t, p, sale, time.Minute), p.Token, "")
	}
	var first chan sandboxtest.Reply
	var second sandboxtest.Reply
	sandboxtest.Until(t, "a buyer without a place is answered while the one with the place waits for the row", func() bool {
		first = make(chan sandboxtest.Reply, 1)
		go func() { first <- buy(buyers[0]) }()
		sandboxtest.Until(t, "the first waits for the row", func() bool {
			var waits int
			if err := db.QueryRow(t.Context(), `
				select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`).Scan(&waits); err != nil {
				t.Fatal(err)
			}
			return waits > 0 || len(first) > 0
		})
		if second = buy(buyers[1]); second.Status != 503 {
			t.Fatalf("the second: %d %s", second.Status, second.Raw)
		}
		if len(first) == 0 && second.Code == "busy" {
			return true
		}
		<-first // the lock's own limit is half a second
		return false
	})
	shop.checkHeaders("the second", "/api/sales/"+sale+"/buy/x", second)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := <-first; r.Status != 202 && r.Status != 503 {
		t.Errorf("the first: %d %s", r.Status, r.Raw)
	}
	var r sandboxtest.Reply
	sandboxtest.Until(t, "a place is free", func() bool {
		r = buy(buyers[1])
		return r.Code != "busy"
	})
	if r.Status != 202 {
		t.Errorf("once a place is free: %d %s", r.Status, r.Raw)
	}
}

// A buyer who polls when next_poll_ms says so stays within the limit, even while the queue stands still.
func TestAskingAsToldIsNeverTooOften(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off")
	sale, me := shop.sale("--stock", "5"), shop.tokens(1)[0]
	shop.order(sale, shop.tokens(1)[0]) // opens the gate
	if _, err := shop.connect().Exec(t.Context(), `begin; select from sales where id = `+sale+` for update`); err != nil {
		t.Fatal(err)
	}
	r := shop.call("POST", "/api/sales/"+sale+"/buy/"+shop.address(sale, me), me, "")
	if r.Status != 202 {
		t.Fatalf("buy: %d %s", r.Status, r.Code)
	}
	most := user.MustLimit("5/s", 0) // --rate
	limit, now := rate.NewLimiter(rate.Every(most.Refill()), most.Burst), time.Now()
	for range 2 { // the address and the click
		limit.AllowN(now, 1)
	}
	for n := range 50 { // by the clock of the buyer, who waits as told
		p := r.Purchase()
		if p.State != "queued" {
			t.Fatalf("poll %d: %d %s, want a queue that stands still", n, r.Status, r.Raw)
		}
		now = now.Add(time.Duration(p.NextPoll) * time.Millisecond)
		if !limit.AllowN(now, 1) {
			t.Fatalf("poll %d after %d ms more is too often", n, p.NextPoll)
		}
		r = shop.call("GET", "/api/sales/"+sale+"/result", me, "")
	}
}
