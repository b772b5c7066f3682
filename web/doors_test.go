package web_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// routes is every route of the shop and what each kind of caller hears there: status and code. {id} is the owner's sale,
// order or payment, and {path} his hidden address, whoever asks. They are called from top to bottom.
var routes = []struct {
	route string
	body  string    // a good one, "" where there is none
	want  [4]string // in the order of callers
}{
	{"GET /*", "", [4]string{"200", "200", "200", "200"}},
	{"HEAD /*", "", [4]string{"200", "200", "200", "200"}},
	{"GET /api/sales", "", [4]string{"200 ok", "200 ok", "200 ok", "200 ok"}},
	{"HEAD /api/sales", "", [4]string{"200", "200", "200", "200"}},
	{"GET /api/sales/{id}", "", [4]string{"200 ok", "200 ok", "200 ok", "200 ok"}},
	{"HEAD /api/sales/{id}", "", [4]string{"200", "200", "200", "200"}},
	{"GET /api/slots", "", [4]string{"200 ok", "200 ok", "200 ok", "200 ok"}},
	{"POST /api/otp", `{"phone":"{phone}"}`, [4]string{"200 ok", "200 ok", "200 ok", "200 ok"}},
	{"POST /api/register", `{"phone":"13811112222","code":"000000","password":"long enough","nickname":"n"}`,
		[4]string{"403 wrong_code", "403 wrong_code", "403 wrong_code", "403 wrong_code"}},
	{"POST /api/login", `{"phone":"13811112222","password":"x"}`,
		[4]string{"401 wrong_password", "401 wrong_password", "401 wrong_password", "401 wrong_password"}},
	{"GET /api/me", "", [4]string{"401 not_logged_in", "200 ok", "200 ok", "200 ok"}},
	{"POST /api/password", `{"old":"x","new":"long enough"}`,
		[4]string{"401 not_logged_in", "401 wrong_password", "401 wrong_password", "401 wrong_password"}},
	{"GET /api/sales/{id}/captcha", "", [4]string{"401 not_logged_in", "200", "200", "200"}},
	{"GET /api/sales/{id}/result", "", [4]string{"401 not_logged_in", "200 ok", "200 ok", "200 ok"}},
	{"HEAD /api/sales/{id}/result", "", [4]string{"401", "200", "200", "200"}},
	{"GET /api/sales/{id}/events", "", [4]string{"401 not_logged_in", "200", "200", "200"}},
	{"POST /api/sales/{id}/path", `{"captcha":"1"}`, [4]string{"401 not_logged_in", "200 ok", "200 ok", "200 ok"}},
	{"POST /api/sales/{id}/buy/{path}", "", [4]string{"401 not_logged_in", "403 bad_path", "403 bad_path", "202 ok"}},
	{"GET /api/orders", "", [4]string{"401 not_logged_in", "200 ok", "200 ok", "200 ok"}},
	{"GET /api/orders/{id}", "", [4]string{"401 not_logged_in", "404 not_found", "404 not_found", "200 ok"}},
	{"POST /api/orders/{id}/pay", "", [4]string{"401 not_logged_in", "404 not_found", "404 not_found", "200 ok"}},
	{"POST /api/cashier/{id}", `{"action":"decline"}`, [4]string{"401 not_logged_in", "404 not_found", "404 not_found", "200 ok"}},
	{"POST /api/orders/{id}/cancel", "", [4]string{"401 not_logged_in", "404 not_found", "404 not_found", "200 ok"}},
	{"POST /api/payments/notify", `{"order_id":"{order}","amount":990,"provider_ref":"r"}`, // not signed
		[4]string{"403 forbidden", "403 forbidden", "403 forbidden", "403 forbidden"}},
	{"GET /api/lab", "", [4]string{"401 not_logged_in", "403 forbidden", "200 ok", "403 forbidden"}},
	{"POST /api/lab/race", `{"strategy":"mutex","seed":1}`, [4]string{"401 not_logged_in", "403 forbidden", "200 ok", "403 forbidden"}},
	{"POST /api/lab/try", `{"experiment":"cache","seed":1}`, [4]string{"401 not_logged_in", "403 forbidden", "200 ok", "403 forbidden"}},
	{"POST /api/lab/run", `{"strategies":["mutex"],"buyers":20,"stock":2,"double_clicks":10,"seed":1,"seconds":5}`,
		[4]string{"401 not_logged_in", "403 forbidden", "202 ok", "403 forbidden"}},
	{"GET /api/lab/run", "", [4]string{"401 not_logged_in", "403 forbidden", "200 ok", "403 forbidden"}},
	{"POST /api/lab/run/stop", "", [4]string{"401 not_logged_in", "403 forbidden", "200 ok", "403 forbidden"}},
	{"POST /api/logout", "", [4]string{"401 not_logged_in", "200 ok", "200 ok", "200 ok"}},
}

const (
	anonymous = iota
	other
	admin
	owner
)

var callers = [4]string{"anonymous", "other", "admin", "owner"} // the owner last, since what he does changes what is there

// mostWelcome is whom a route is for: the owner, or the administrator where that is no door of the owner's.
func mostWelcome(want [4]string) int {
	if want[owner] == "403 forbidden" && strings.HasPrefix(want[admin], "2") {
		return admin
	}
	return owner
}

// doors is a house whose owner has an order with an open payment and a hidden address.
type doors struct {
	house
	sale, order, payment, path string
	tokens                     [4]string
}

func openDoors(t *testing.T, env ...string) doors {
	t.Helper()
	d := doors{house: openHouse(t, append([]string{"MIAOSHA_RATE=off"}, env...)...)}
	d.sale = d.house.sale("--stock", "50")
	buyers := d.buyers(2)
	d.tokens[other], d.tokens[owner] = buyers[0], buyers[1]
	const phone = "13900001111"
	_, password, _ := strings.Cut(sandboxtest.MustCommand(t, d.env, "admin", "--phone", phone), "password: ")
	var in struct{ Token, Role string }
	d.ask("POST", "/api/login", "", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, strings.TrimSpace(password))).Read(t, &in)
	if d.tokens[admin] = in.Token; in.Role != "admin" {
		t.Fatalf("the administrator is %q", in.Role)
	}
	var at struct{ Path string }
	d.ask("POST", "/api/sales/"+d.sale+"/path", buyers[1], "").Read(t, &at)
	d.path = at.Path
	if r := d.ask("POST", "/api/sales/"+d.sale+"/buy/"+d.path, buyers[1], ""); r.Status != 202 {
		t.Fatalf("buy: %d %s", r.Status, r.Raw)
	}
	var st struct {
		State   string
		OrderID string `json:"order_id"`
	}
	for st.State != "ordered" { // the test's own deadline bounds it
		d.ask("GET", "/api/sales/"+d.sale+"/result", buyers[1], "").Read(t, &st)
		time.Sleep(10 * time.Millisecond)
	}
	var p struct {
		ID string `json:"payment_id"`
	}
	d.ask("POST", "/api/orders/"+st.OrderID+"/pay", buyers[1], "").Read(t, &p)
	d.order, d.payment = st.OrderID, p.ID
	return d
}

// anyCertificate is a client that takes the test's own certificate. It follows nothing and keeps nothing.
var anyCertificate = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64}}

// ask is call for a shop with any certificate. Of an answer without an end it reads the head alone.
func (h house) ask(method, path, token, body string, headers ...string) sandboxtest.Reply {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := anyCertificate.Do(req)
	if err != nil {
		return sandboxtest.Reply{Code: err.Error()}
	}
	defer resp.Body.Close()
	r := sandboxtest.Reply{Status: resp.StatusCode, Header: resp.Header}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		if r.Raw, err = io.ReadAll(resp.Body); err != nil {
			return sandboxtest.Reply{Code: err.Error()}
		}
		json.Unmarshal(r.Raw, &r) // not JSON: Code stays empty
	}
	return r
}

// at gives a route's method and its path with the owner's things, or with id and {path} in their place.
func (d doors) at(route, id string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	if id == "" {
		switch {
		case strings.HasPrefix(path, "/api/sales/"):
			id = d.sale
		case strings.HasPrefix(path, "/api/orders/"):
			id = d.order
		case strings.HasPrefix(path, "/api/cashier/"):
			id = d.payment
		}
	}
	return method, strings.NewReplacer("{id}", id, "{path}", d.path, "/*", "/").Replace(path)
}

func (d doors) fill(body string, who int) string {
	return strings.NewReplacer("{phone}", "1381111000"+strconv.Itoa(who), "{order}", d.order).Replace(body)
}

func told(r sandboxtest.Reply) string {
	return strings.TrimSpace(strconv.Itoa(r.Status) + " " + r.Code)
}

// guarded holds an answer's headers against what is promised for every one of them.
func (h house) guarded(what string, path string, r sandboxtest.Reply) {
	h.t.Helper()
	csp := r.Header.Get("Content-Security-Policy")
	if csp != "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "+
		"font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'" {
		h.t.Errorf("%s: Content-Security-Policy %q", what, csp)
	}
	if got := r.Header.Values("X-Content-Type-Options"); !slices.Equal(got, []string{"nosniff"}) {
		h.t.Errorf("%s: X-Content-Type-Options %q", what, got)
	}
	if got := r.Header.Get("Referrer-Policy"); got != "same-origin" && got != "no-referrer" {
		h.t.Errorf("%s: Referrer-Policy %q", what, got)
	}
	if got := r.Header.Get("Strict-Transport-Security"); strings.HasPrefix(h.URL, "https:") != strings.HasPrefix(got, "max-age=31536000") {
		h.t.Errorf("%s: Strict-Transport-Security %q at %s", what, got, h.URL)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			h.t.Errorf("%s: %s: %s", what, name, r.Header.Get(name))
		}
	}
	public := r.Status < 400 && (!strings.HasPrefix(path, "/api/") || path == "/api/sales")
	if got := r.Header.Get("Cache-Control"); !public && got != "no-store" || public && got != "no-cache" && !strings.Contains(got, "immutable") {
		h.t.Errorf("%s: Cache-Control %q", what, got)
	}
	if r.Status == 429 || r.Status == 503 {
		if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 {
			h.t.Errorf("%s: %d with Retry-After %q", what, r.Status, r.Header.Get("Retry-After"))
		}
	}
}

func TestTableHasEveryRoute(t *testing.T) {
	t.Parallel()
	there, err := web.Routes()
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range routes {
		listed = append(listed, row.route)
	}
	for _, r := range there {
		if !slices.Contains(listed, r) {
			t.Errorf("%s is not in the table of who may do what", r)
		}
	}
	for _, r := range listed {
		if !slices.Contains(there, r) {
			t.Errorf("the table has %s, which the shop has not", r)
		}
	}
}

// Everybody is told at every route what is his to hear, over both protocols, and with all headers.
func TestEveryRouteForEveryCaller(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	for name, env := range map[string][]string{"http": nil, "https": {"MIAOSHA_TLS_CERT=" + cert, "MIAOSHA_TLS_KEY=" + key}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDoors(t, env...)
			for _, row := range routes {
				for who, want := range row.want {
					method, path := d.at(row.route, "")
					r := d.ask(method, path, d.tokens[who], d.fill(row.body, who))
					what := row.route + " by " + callers[who]
					if told(r) != want {
						t.Errorf("%s: %s, want %s", what, told(r), want)
					}
					if who != owner && row.route != "POST /api/payments/notify" && strings.Contains(string(r.Raw), d.order) {
						t.Errorf("%s shows the owner's order: %s", what, r.Raw)
					}
					d.guarded(what, path, r)
				}
			}
			for _, page := range []string{"/sale.html", "/login.html", "/orders.html", "/order.html", "/pay.html", "/nothing", "/api/nothing"} {
				d.guarded(page, page, d.ask("GET", page, "", ""))
			}
			home := d.ask("GET", "/", "", "", "Accept-Encoding", "identity")
			for _, part := range strings.Split(string(home.Raw), `"`) {
				if strings.HasPrefix(part, "/static/") {
					d.guarded(part, part, d.ask("GET", part, "", ""))
				}
			}
			r := d.ask("GET", "/", "", "", "Accept-Encoding", "identity", "If-None-Match", home.Header.Get("ETag"))
			if d.guarded("not modified", "/", r); r.Status != 304 {
				t.Errorf("/ again: %d", r.Status)
			}
		})
	}
}

// What is another's and what is not there look the same, byte for byte.
func TestForeignAndMissingAreTheSame(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	seen := 0
	for _, row := range routes {
		if row.want[other] != "404 not_found" {
			continue
		}
		seen++
		whole := func(who int, id string) string {
			method, path := d.at(row.route, id)
			r := d.ask(method, path, d.tokens[who], row.body)
			r.Header.Del("Date")
			return fmt.Sprint(r.Status, r.Header, string(r.Raw))
		}
		foreign := whole(other, "")
		for name, got := range map[string]string{"missing": whole(other, uuid.NewString()), "no id": whole(other, "1"),
			"foreign to the administrator": whole(admin, ""), "missing for the owner": whole(owner, uuid.NewString())} {
			if got != foreign {
				t.Errorf("%s: foreign and %s differ:\n%s\n%s", row.route, name, foreign, got)
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d routes lead to what is somebody's, want 4", seen)
	}
}

func TestOtherMethodsAreRefused(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	answers := map[string][]string{} // path -> methods
	for _, row := range routes {
		method, path := d.at(row.route, "")
		if answers[path] = append(answers[path], method); method == "GET" {
			answers[path] = append(answers[path], "HEAD")
		}
	}
	for path, methods := range answers {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if slices.Contains(methods, method) || strings.HasSuffix(path, "/events") && method == "HEAD" {
				continue
			}
			r := d.ask(method, path, d.tokens[owner], "")
			if r.Status != 405 || r.Header.Get("Allow") == "" {
				t.Errorf("%s %s: %s, Allow %q", method, path, told(r), r.Header.Get("Allow"))
			}
			d.guarded(method+" "+path, path, r)
		}
	}
}

// signed is a notice of the body as the provider would send it.
func (d doors) signed(route, body string) (headers []string) {
	if route != "POST /api/payments/notify" {
		return nil
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(notifySecret))
	mac.Write([]byte(stamp + "." + body))
	return []string{"X-Timestamp", stamp, "X-Signature", hex.EncodeToString(mac.Sum(nil))}
}

// A body is taken as it should be or not at all: nothing is made up, said twice, or of another form.
func TestBodiesAreTakenExactly(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	was := d.things(t)
	for _, row := range routes {
		method, path := d.at(row.route, "")
		if method != "POST" {
			continue
		}
		send := func(name, body string, want ...int) {
			t.Helper()
			r := d.ask(method, path, d.tokens[mostWelcome(row.want)], body, d.signed(row.route, body)...)
			if !slices.Contains(want, r.Status) {
				t.Errorf("%s with %s: %s %s, want %d", row.route, name, told(r), r.Raw, want)
			}
			d.guarded(row.route+" with "+name, path, r)
		}
		good := d.fill(row.body, owner)
		for _, field := range []string{"price", "quantity", "status", "user_id", "role", "stock", "__proto__", ""} {
			for _, value := range []string{`1`, `"x"`, `null`, `{}`} {
				more := fmt.Sprintf(`%q:%s}`, field, value)
				if good != "" {
					more = "," + more
				} else {
					more = "{" + more
				}
				send("a made-up "+field, strings.TrimSuffix(good, "}")+more, 400)
			}
		}
		send("a fat body", `{"x":"`+strings.Repeat("1", 5000)+`"}`, 413)
		send("10,000 levels", strings.Repeat(`{"x":`, 10_000)+"1"+strings.Repeat("}", 10_000), 413)
		send("600 levels", strings.Repeat(`{"x":`, 600)+"1"+strings.Repeat("}", 600), 400)
		send("2,000 lists", strings.Repeat("[", 2_000)+strings.Repeat("]", 2_000), 400)
		if good == "" {
			send("an empty object", "{}", 400)
			continue
		}
		if row.route != "POST /api/payments/notify" { // which a signature opens, whatever the bytes are called
			for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ""} {
				r := d.ask(method, path, d.tokens[mostWelcome(row.want)], good, "Content-Type", kind)
				if d.guarded(row.route+" as "+kind, path, r); r.Status != 415 {
					t.Errorf("%s as %q: %s", row.route, kind, told(r))
				}
			}
		}
		for name, body := range map[string]string{"two objects": good + good, "something behind": good + "x", "a list": "[" + good + "]",
			"null": "null", "a number": "1", "a string": `"x"`, "half an object": good[:len(good)-1], "a comment": "/**/" + good,
			"a byte order mark": "\ufeff" + good} {
			send(name, body, 400)
		}
		var fields map[string]any
		if err := json.Unmarshal([]byte(good), &fields); err != nil {
			t.Fatal(err)
		}
		for name, value := range fields {
			told, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			pair := fmt.Sprintf(`%q:%s`, name, told)
			send(name+" twice", strings.Replace(good, pair, pair+","+pair, 1), 400)
			send(name+" in capitals", strings.Replace(good, `"`+name+`"`, `"`+strings.ToUpper(name)+`"`, 1), 400)
			send(name+" in an escape", strings.Replace(good, pair, fmt.Sprintf(`%s,"\u%04x%s":%s`, pair, name[0], name[1:], told), 1), 400)
			for _, wrong := range []string{`{}`, `[]`, `true`, `[` + string(told) + `]`, `99999999999999999999`, `1e400`, `-9223372036854775809`, `1.5`} {
				send(name+" as "+wrong, strings.Replace(good, pair, fmt.Sprintf(`%q:%s`, name, wrong), 1), 400)
			}
			if _, text := value.(string); text { // what no column takes is wrong, and no fault of the shop
				send(name+" with a zero byte", strings.Replace(good, pair, fmt.Sprintf(`%q:"a\u0000b"`, name), 1), 400)
				send(name+" with half a rune", strings.Replace(good, pair, fmt.Sprintf("%q:\"a\xffb\"", name), 1), 400)
			}
		}
	}
	if now := d.things(t); !maps.Equal(now, was) {
		t.Errorf("a refused body has changed something: %v, was %v", now, was)
	}
}

func TestIdsOfAllKindsAreNoFault(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	for _, row := range routes {
		if !strings.Contains(row.route, "{id}") {
			continue
		}
		for _, id := range []string{"0", "-1", "1.5", "1e3", "0x1", "９", "99999999999999999999", "9223372036854775807", "-9223372036854775809",
			"%00", "1%00", "1%0a", "1%2f..", "..", "%ff", "'", "1;drop", strings.Repeat("9", 2000), "{" + d.order + "}", "urn:uuid:" + d.order,
			strings.ReplaceAll(d.order, "-", "")} {
			method, path := d.at(row.route, id)
			r := d.ask(method, path, d.tokens[owner], row.body)
			if r.Status < 400 || r.Status > 499 {
				t.Errorf("%s %s: %d %s", method, path, r.Status, r.Raw)
			}
			d.guarded(method+" "+path, path, r)
		}
	}
}

// things is what the shop keeps: each table, and who is logged in, each in a line.
func (d doors) things(t *testing.T) map[string]string {
	t.Helper()
	db, err := pgx.Connect(t.Context(), strings.TrimPrefix(d.env[0], "DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	is := map[string]string{}
	for _, table := range []string{"users", "goods", "sales", "orders", "order_events", "payments", "ticket_results"} {
		var sum string
		if err := db.QueryRow(t.Context(), `
			select count(*) || ' ' || coalesce(md5(string_agg(t::text, ',' order by t::text)), '') from `+table+` t`).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		is[table] = sum
	}
	opts, err := redis.ParseURL(strings.TrimPrefix(d.env[1], "REDIS_URL="))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	keys, err := rdb.Keys(t.Context(), "ms:session*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		kind, err := rdb.Type(t.Context(), key).Result()
		switch {
		case err != nil:
			t.Fatal(err)
		case kind == "string":
			is[key] = rdb.Get(t.Context(), key).Val()
		default:
			is[key] = fmt.Sprint(rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val())
		}
	}
	if len(keys) < 3 {
		t.Fatalf("%d sessions in Redis: %v", len(keys), keys)
	}
	is["tickets"] = fmt.Sprint(rdb.HGetAll(t.Context(), "ms:{"+d.sale+"}:tickets").Val())
	return is
}

func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	was := d.things(t)
	for _, row := range routes {
		method, path := d.at(row.route, "")
		for _, method := range []string{method, "GET", "HEAD"} { // a change asked for by GET, too
			if method == "POST" {
				continue
			}
			for _, token := range d.tokens {
				d.ask(method, path, token, "")
				d.ask(method, path+"?action=confirm&_method=POST&token="+token, token, "", "X-HTTP-Method-Override", "POST")
			}
		}
	}
	if now := d.things(t); !maps.Equal(now, was) {
		t.Errorf("it is %v, was %v", now, was)
	}
}

// Another site's page changes nothing with the visitor's cookie, and may read nothing.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	d := openDoors(t)
	was := d.things(t)
	for _, row := range routes {
		method, path := d.at(row.route, "")
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
			{"Origin", "null"}, {"Sec-Fetch-Site", "cross-site", "Origin", d.URL}} {
			body := d.fill(row.body, owner)
			headers := append(append([]string{"Cookie", "session=" + d.tokens[mostWelcome(row.want)]}, from...), d.signed(row.route, body)...)
			r := d.ask(method, path, "", body, headers...)
			if method == "POST" && told(r) != "403 forbidden" {
				t.Errorf("%s from %v: %s", row.route, from, told(r))
			}
			if method != "POST" && r.Status != 200 {
				t.Errorf("%s from %v: %s, want what a link would give", row.route, from, told(r))
			}
			d.guarded(fmt.Sprint(row.route, from), path, r)
		}
		if r := d.ask("OPTIONS", path, "", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); r.Status != 405 {
			t.Errorf("OPTIONS %s: %s", path, told(r))
		} else {
			d.guarded("OPTIONS "+path, path, r)
		}
	}
	if now := d.things(t); !maps.Equal(now, was) {
		t.Errorf("it is %v, was %v", now, was)
	}
	if r := d.ask("POST", "/api/orders/"+d.order+"/cancel", "", "", "Cookie", "session="+d.tokens[owner],
		"Origin", d.URL, "Sec-Fetch-Site", "same-origin"); r.Status != 200 {
		t.Errorf("the shop's own page: %s", told(r))
	}
}

// pair makes a certificate for 127.0.0.1 and shop.example, and its key, as files.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop.example"}, DNSNames: []string{"shop.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
