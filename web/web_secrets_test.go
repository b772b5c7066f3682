package web_test

import (
	"crypto/md5"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// leaks returns the names of the secrets that a text contains. A secret of digits must stand there as a
// whole number.
func leaks(text string, secrets map[string]string) (found []string) {
	for name, secret := range secrets {
		pattern := regexp.QuoteMeta(secret)
		if strings.Trim(secret, "0123456789") == "" {
			pattern = `(^|\D)` + pattern + `($|\D)`
		}
		if regexp.MustCompile(pattern).MatchString(text) {
			found = append(found, name)
		}
	}
	return found
}

// consoleLine matches what --sms console prints instead of sending an SMS. It is not part of the log.
var consoleLine = regexp.MustCompile(`(?m)^sms to \d+: your code is (\d{6}), valid for \S+\n`)

// The shop prints no password, code, session, phone, hidden address or key, at any log level and in any
// log format.
func TestNoSecretIsPrinted(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, level := range []string{"debug", "info"} {
			t.Run(format+" "+level, func(t *testing.T) {
				t.Parallel()
				checkNoSecretIsPrinted(t, format, level)
			})
		}
	}
}

func checkNoSecretIsPrinted(t *testing.T, format, level string) {
	secrets := map[string]string{
		"the shop's secret": "canary-shop-0123456789abcdef0123456789", "the notices' secret": notifySecret, "the old salt": "canary-salt",
		"password": "canary-password-1", "new password": "canary-password-2", "wrong password": "canary-password-3",
		"short password": "canary4", "old account's password": "canary-password-5", "captcha": "canary-sum",
		"phone": "13877776666", "stranger's phone": "13877775555", "old account's phone": "13877774444", "wrong code": "000000",
	}
	stores := sandboxtest.Stores(t)
	env := map[string]string{}
	for _, e := range stores {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	for name, what := range map[string]string{"DATABASE_URL": "Postgres' password", "REDIS_URL": "Redis' password"} {
		u, err := url.Parse(env[name])
		if err != nil {
			t.Fatal(err)
		}
		secrets[what], _ = u.User.Password()
		if len(secrets[what]) < 8 {
			t.Fatalf("%s is %q, which is too short to search for", what, secrets[what])
		}
	}
	postgres, db := sandboxtest.ProxyTo(t, env["DATABASE_URL"])
	redis, rdb := sandboxtest.ProxyTo(t, env["REDIS_URL"])
	shop := openShop(t, "DATABASE_URL="+db, "REDIS_URL="+rdb, "MIAOSHA_SECRET="+secrets["the shop's secret"], "MIAOSHA_LOG_LEVEL="+level,
		"MIAOSHA_LOG_FORMAT="+format, "MIAOSHA_LEGACY_SALT="+secrets["the old salt"], "MIAOSHA_RATE=off", "MIAOSHA_OPS_ADDR=127.0.0.1:0")

	// A purchase while all is well.
	sale := shop.sale("--stock", "10")
	browser := "" // the cookie that came with the code
	post := func(path, token, form string, parts ...any) sandboxtest.Reply {
		t.Helper()
		return shop.call("POST", path, token, fmt.Sprintf(form, parts...), "Cookie", browser)
	}
	const account = `{"phone":%q,"code":%q,"password":%q,"nickname":"N"}`
	browser = post("/api/otp", "", `{"phone":%q}`, secrets["phone"]).Cookies()
	_, secrets["the browser's secret"], _ = strings.Cut(browser, "=")
	secrets["code"] = codeIn(t, shop, secrets["phone"])
	if secrets["code"] == secrets["wrong code"] {
		secrets["wrong code"] = "111111"
	}
	post("/api/register", "", account, secrets["phone"], secrets["wrong code"], secrets["password"])
	post("/api/register", "", account, secrets["phone"], secrets["code"], secrets["short password"])
	r := shop.insist("/api/register", "", fmt.Sprintf(account, secrets["phone"], secrets["code"], secrets["password"]), "Cookie", browser)
	if r.Code != "ok" {
		t.Fatalf("register: %d %s", r.Status, r.Raw)
	}
	secrets["first session"], _, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Set-Cookie"), "session="), ";")
	const login = `{"phone":%q,"password":%q}`
	var me struct{ Token string }
	shop.insist("/api/login", "", fmt.Sprintf(login, secrets["phone"], secrets["password"]), "Cookie", browser).Read(t, &me)
	secrets["session"] = me.Token
	secrets["address"] = shop.address(sale, me.Token)
	order := shop.order(sale, me.Token)
	for name, length := range map[string]int{"first session": 40, "session": 40, "address": 32} {
		if len(secrets[name]) < length {
			t.Fatalf("%s is %q, which is too short to search for", name, secrets[name])
		}
	}

	if r := shop.insist("/api/password", me.Token, fmt.Sprintf(`{"old":%q,"new":%q}`, secrets["password"], secrets["new password"]), "Cookie", browser); r.Code != "ok" {
		t.Fatalf("change the password: %d %s", r.Status, r.Raw)
	}

	// An account of the older systems: its first log-in replaces its password hash.
	old := fmt.Sprintf("%x", md5.Sum([]byte(fmt.Sprintf("%x", md5.Sum([]byte(secrets["old account's password"]+secrets["the old salt"])))+"grain")))
	conn, err := pgx.Connect(t.Context(), env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), `insert into users (phone, legacy_hash, legacy_salt) values ($1, $2, 'grain')`, secrets["old account's phone"], old)
	conn.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	secrets["old account's hash"] = old
	if r := shop.insist("/api/login", "", fmt.Sprintf(login, secrets["old account's phone"], secrets["old account's password"]), "Cookie", browser); r.Code != "ok" {
		t.Errorf("log in to the old account: %d %s", r.Status, r.Raw)
	}

	// Requests that are wrong in every way, with the stores up and down.
	wrongRequests := func() {
		t.Helper()
		post("/api/otp", "", `{"phone":%q}`, secrets["stranger's phone"])
		post("/api/login", "", login, secrets["phone"], secrets["wrong password"])
		post("/api/login", "", login, secrets["stranger's phone"], secrets["wrong password"])
		post("/api/login", "", `{"phone":%q,"password":%q`, secrets["phone"], secrets["password"])
		post("/api/login", "", `{"phone":%q,%q:1}`, secrets["phone"], secrets["password"])
		post("/api/login", "", `{"phone":[%q],"password":%q}`, secrets["phone"], secrets["password"])
		post("/api/register", "", account, secrets["stranger's phone"], secrets["code"], secrets["password"])
		post("/api/password", me.Token, `{"old":%q,"new":%q}`, secrets["wrong password"], secrets["new password"])
		shop.call("GET", "/api/me", me.Token, "")
		shop.call("GET", "/api/me?token="+me.Token+"&phone="+secrets["phone"], "", "")
		shop.call("GET", "/api/orders/"+order, me.Token, "")
		shop.call("GET", "/"+me.Token+"/"+secrets["address"], me.Token, "")
		post("/api/sales/"+sale+"/path", me.Token, `{"captcha":%q}`, secrets["captcha"])
		for _, token := range []string{me.Token, secrets["first session"], ""} {
			shop.call("POST", "/api/sales/"+sale+"/buy/"+secrets["address"], token, "")
			shop.call("POST", "/api/sales/"+sale+"/buy/"+secrets["address"]+"/more", token, "")
			shop.call("GET", "/api/sales/"+sale+"/buy/"+secrets["address"], token, "")
		}
		shop.call("GET", "/api/sales/"+sale+"/result", me.Token, "")
		shop.call("POST", "/api/orders/"+order+"/pay", me.Token, "")
		shop.notify(secrets["wrong password"], `{"order_id":"`+order+`","amount":1,"provider_ref":"`+secrets["captcha"]+`"}`, time.Now())
		shop.notify(notifySecret, `{"order_id":"`+order+`","amount":1,"provider_ref":"r"}`, time.Now())
	}
	wrongRequests()
	redis.Cut()
	for range 3 { // often enough for every breaker to open
		wrongRequests()
	}
	if err := redis.Join(); err != nil {
		t.Fatal(err)
	}
	postgres.Cut()
	for range 3 {
		wrongRequests()
	}
	if err := postgres.Join(); err != nil {
		t.Fatal(err)
	}
	if !sandboxtest.Poll(func() bool { return shop.call("GET", "/api/orders/"+order, me.Token, "").Code == "ok" }) {
		t.Fatalf("the shop does not recover\n%s", shop.Log)
	}
	var p struct {
		ID string `json:"payment_id"`
	}
	shop.insist("/api/orders/"+order+"/pay", me.Token, "").Read(t, &p)
	if r := shop.insist("/api/cashier/"+p.ID, me.Token, `{"action":"confirm"}`, "Cookie", browser); r.Code != "ok" {
		t.Errorf("pay: %d %s", r.Status, r.Raw)
	}
	// Without a store the session ends in this process alone: the reply is busy, and then not_logged_in.
	ended := func() bool {
		code := shop.call("POST", "/api/logout", me.Token, "").Code
		return code == "ok" || code == "not_logged_in"
	}
	if !sandboxtest.Poll(ended) {
		t.Fatalf("the buyer cannot log out\n%s", shop.Log)
	}
	if code := shop.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	printed := shop.Say.String() + shop.Log.String()
	log := consoleLine.ReplaceAllString(printed, "")
	if found := leaks(log, secrets); len(found) > 0 {
		t.Errorf("printed: %v\n%s", found, log)
	}
	// The search works: the log has the lines of refusals and outages, and two secrets are found in the
	// console's lines.
	for _, want := range []string{"a store is unavailable", "a payment notice is refused", "password of an older system replaced", "138****6666"} {
		if !strings.Contains(log, want) {
			t.Errorf("no line has %q:\n%s", want, log)
		}
	}
	if found := leaks(printed, map[string]string{"phone": secrets["phone"], "code": secrets["code"]}); len(found) != 2 {
		t.Errorf("of the phone and the code in the console's lines, only %v are found", found)
	}
}
