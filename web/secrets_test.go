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

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"miaosha/seckill/sandbox/sandboxtest"
)

// wire is a store's address by way of a proxy that can be cut.
func wire(t *testing.T, at string) (string, *toxiproxy.Proxy) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), u.Scheme, "127.0.0.1:0", u.Host)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	u.Host = p.Listen
	return u.String(), p
}

// leaks are the names of those secrets that are in a text. One of digits alone is looked for as a whole number.
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

// consoleLine is what the console SMS prints in place of a telephone. It is not of the log, and --sms off prints none.
var consoleLine = regexp.MustCompile(`(?m)^sms to \d+: your code is \d{6}, good for \S+\n`)

// Whatever happens, at whatever level and in whatever form: no password, code, session, phone, address or key is in what
// the shop prints.
func TestNoSecretIsPrinted(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, level := range []string{"debug", "info"} {
			t.Run(format+" "+level, func(t *testing.T) {
				t.Parallel()
				keepsSecrets(t, format, level)
			})
		}
	}
}

func keepsSecrets(t *testing.T, format, level string) {
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
			t.Fatalf("%s is %q, which is no canary", what, secrets[what])
		}
	}
	db, postgres := wire(t, env["DATABASE_URL"])
	rdb, redis := wire(t, env["REDIS_URL"])
	h := openHouse(t, "DATABASE_URL="+db, "REDIS_URL="+rdb, "MIAOSHA_SECRET="+secrets["the shop's secret"], "MIAOSHA_LOG_LEVEL="+level,
		"MIAOSHA_LOG_FORMAT="+format, "MIAOSHA_LEGACY_SALT="+secrets["the old salt"], "MIAOSHA_RATE=off", "MIAOSHA_OPS_ADDR=127.0.0.1:0")

	// A life in good times.
	sale := h.sale("--stock", "10")
	post := func(path, token, form string, parts ...any) sandboxtest.Reply {
		t.Helper()
		return h.call("POST", path, token, fmt.Sprintf(form, parts...))
	}
	const account = `{"phone":%q,"code":%q,"password":%q,"nickname":"N"}`
	post("/api/otp", "", `{"phone":%q}`, secrets["phone"])
	secrets["code"] = codeIn(t, h, secrets["phone"])
	if secrets["code"] == secrets["wrong code"] {
		secrets["wrong code"] = "111111"
	}
	post("/api/register", "", account, secrets["phone"], secrets["wrong code"], secrets["password"])
	post("/api/register", "", account, secrets["phone"], secrets["code"], secrets["short password"])
	r := post("/api/register", "", account, secrets["phone"], secrets["code"], secrets["password"])
	if r.Code != "ok" {
		t.Fatalf("register: %d %s", r.Status, r.Raw)
	}
	secrets["first session"], _, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("Set-Cookie"), "session="), ";")
	const login = `{"phone":%q,"password":%q}`
	var me struct{ Token string }
	post("/api/login", "", login, secrets["phone"], secrets["password"]).Read(t, &me)
	secrets["session"] = me.Token
	secrets["address"] = h.address(sale, me.Token)
	order := h.order(sale, me.Token)
	if len(secrets["first session"]) < 40 || len(me.Token) < 40 || len(secrets["address"]) < 32 {
		t.Fatalf("what are to be canaries are %q, %q and %q", secrets["first session"], me.Token, secrets["address"])
	}

	if r := post("/api/password", me.Token, `{"old":%q,"new":%q}`, secrets["password"], secrets["new password"]); r.Code != "ok" {
		t.Fatalf("change the password: %d %s", r.Status, r.Raw)
	}

	// An account of the older systems, which its first log-in replaces.
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
	if r := post("/api/login", "", login, secrets["old account's phone"], secrets["old account's password"]); r.Code != "ok" {
		t.Errorf("log in as of old: %d %s", r.Status, r.Raw)
	}

	// All that may be asked, wrong in all ways, with the stores there and not.
	everything := func() {
		t.Helper()
		post("/api/otp", "", `{"phone":%q}`, secrets["stranger's phone"])
		post("/api/login", "", login, secrets["phone"], secrets["wrong password"])
		post("/api/login", "", login, secrets["stranger's phone"], secrets["wrong password"])
		post("/api/login", "", `{"phone":%q,"password":%q`, secrets["phone"], secrets["password"])
		post("/api/login", "", `{"phone":%q,%q:1}`, secrets["phone"], secrets["password"])
		post("/api/login", "", `{"phone":[%q],"password":%q}`, secrets["phone"], secrets["password"])
		post("/api/register", "", account, secrets["stranger's phone"], secrets["code"], secrets["password"])
		post("/api/password", me.Token, `{"old":%q,"new":%q}`, secrets["wrong password"], secrets["new password"])
		h.call("GET", "/api/me", me.Token, "")
		h.call("GET", "/api/me?token="+me.Token+"&phone="+secrets["phone"], "", "")
		h.call("GET", "/api/orders/"+order, me.Token, "")
		h.call("GET", "/"+me.Token+"/"+secrets["address"], me.Token, "")
		post("/api/sales/"+sale+"/path", me.Token, `{"captcha":%q}`, secrets["captcha"])
		for _, token := range []string{me.Token, secrets["first session"], ""} {
			h.call("POST", "/api/sales/"+sale+"/buy/"+secrets["address"], token, "")
			h.call("POST", "/api/sales/"+sale+"/buy/"+secrets["address"]+"/more", token, "")
			h.call("GET", "/api/sales/"+sale+"/buy/"+secrets["address"], token, "")
		}
		h.call("GET", "/api/sales/"+sale+"/result", me.Token, "")
		h.call("POST", "/api/orders/"+order+"/pay", me.Token, "")
		h.notify(secrets["wrong password"], `{"order_id":"`+order+`","amount":1,"provider_ref":"`+secrets["captcha"]+`"}`, time.Now())
		h.notify(notifySecret, `{"order_id":"`+order+`","amount":1,"provider_ref":"r"}`, time.Now())
	}
	everything()
	redis.Stop()
	for range 3 { // so often that every breaker has heard of it
		everything()
	}
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	postgres.Stop()
	for range 3 {
		everything()
	}
	if err := postgres.Start(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(20 * time.Second); h.call("GET", "/api/orders/"+order, me.Token, "").Code != "ok"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the shop is not what it was\n%s", h.Log)
		}
	}
	var p struct {
		ID string `json:"payment_id"`
	}
	h.call("POST", "/api/orders/"+order+"/pay", me.Token, "").Read(t, &p)
	if r := post("/api/cashier/"+p.ID, me.Token, `{"action":"confirm"}`); r.Code != "ok" {
		t.Errorf("pay: %d %s", r.Status, r.Raw)
	}
	for until := time.Now().Add(20 * time.Second); h.call("POST", "/api/logout", me.Token, "").Code != "ok"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("nobody can log out\n%s", h.Log)
		}
	}
	if code := h.End(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}

	printed := h.Say.String() + h.Log.String()
	log := consoleLine.ReplaceAllString(printed, "")
	if found := leaks(log, secrets); len(found) > 0 {
		t.Errorf("printed: %v\n%s", found, log)
	}
	// The run was worth looking at: all that is logged of refusals and outages is there, and the console's lines, which have
	// two of the secrets, would have been noticed.
	for _, want := range []string{"a store is away", "a payment notice is refused", "password of an older system replaced", "138****6666"} {
		if !strings.Contains(log, want) {
			t.Errorf("nothing says %q:\n%s", want, log)
		}
	}
	if found := leaks(printed, map[string]string{"phone": secrets["phone"], "code": secrets["code"]}); len(found) != 2 {
		t.Errorf("of the console's phone and code only %v are found", found)
	}
}
