package web_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// checkHeaders checks the headers that every answer must have.
func (shop testShop) checkHeaders(what string, path string, r sandboxtest.Reply) {
	shop.t.Helper()
	csp := r.Header.Get("Content-Security-Policy")
	if csp != "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "+
		"font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'" {
		shop.t.Errorf("%s: Content-Security-Policy %q", what, csp)
	}
	if got := r.Header.Values("X-Content-Type-Options"); !slices.Equal(got, []string{"nosniff"}) {
		shop.t.Errorf("%s: X-Content-Type-Options %q", what, got)
	}
	if got := r.Header.Get("Referrer-Policy"); got != "same-origin" && got != "no-referrer" {
		shop.t.Errorf("%s: Referrer-Policy %q", what, got)
	}
	if got := r.Header.Get("Strict-Transport-Security"); strings.HasPrefix(shop.URL, "https:") != strings.HasPrefix(got, "max-age=31536000") {
		shop.t.Errorf("%s: Strict-Transport-Security %q at %s", what, got, shop.URL)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			shop.t.Errorf("%s: %s: %s", what, name, r.Header.Get(name))
		}
	}
	public := r.Status < 400 && (!strings.HasPrefix(path, "/api/") || path == "/api/sales" || path == "/api/slots")
	own := r.Status < 400 && (path == "/api/lab" || strings.HasPrefix(path, "/api/lab/run")) && r.Header.Get("ETag") != "" // the browser alone keeps it
	if got := r.Header.Get("Cache-Control"); own && got != "private, no-cache" || !own && !public && got != "no-store" || public && got != "no-cache" && !strings.Contains(got, "immutable") {
		shop.t.Errorf("%s: Cache-Control %q", what, got)
	}
	if r.Status == 429 || r.Status == 503 {
		if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 {
			shop.t.Errorf("%s: %d with Retry-After %q", what, r.Status, r.Header.Get("Retry-After"))
		}
	}
}

// A page of another site changes nothing with the visitor's cookie, and reads nothing.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	was := shop.state(t)
	for _, row := range accessMatrix {
		method, path := shop.at(row.route, "")
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
			{"Origin", "null"}, {"Sec-Fetch-Site", "cross-site", "Origin", shop.URL}} {
			body := shop.fill(row.body, owner)
			headers := append(append([]string{"Cookie", "session=" + shop.tokens[allowedCaller(row.want)]}, from...), shop.signed(row.route, body)...)
			r := shop.ask(method, path, "", body, headers...)
			if method == "POST" && outcome(r) != "403 forbidden" {
				t.Errorf("%s from %v: %s", row.route, from, outcome(r))
			}
			if method != "POST" && r.Status != 200 && outcome(r) != row.want[allowedCaller(row.want)] {
				t.Errorf("%s from %v: %s, want the answer that a link gets", row.route, from, outcome(r))
			}
			shop.checkHeaders(fmt.Sprint(row.route, from), path, r)
		}
		if r := shop.ask("OPTIONS", path, "", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST"); r.Status != 405 {
			t.Errorf("OPTIONS %s: %s", path, outcome(r))
		} else {
			shop.checkHeaders("OPTIONS "+path, path, r)
		}
	}
	if now := shop.state(t); !maps.Equal(now, was) {
		t.Errorf("another site has changed something: %v, was %v", now, was)
	}
	if r := shop.ask("POST", "/api/orders/"+shop.order+"/cancel", "", "", "Cookie", "session="+shop.tokens[owner],
		"Origin", shop.URL, "Sec-Fetch-Site", "same-origin"); r.Status != 200 {
		t.Errorf("the shop's own page: %s", outcome(r))
	}
}

// A body is accepted exactly or not at all: no field is unknown, comes twice, or has another type.
func TestBodiesAreTakenExactly(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t, "MIAOSHA_IP_RATE=off")
	was := shop.state(t)
	for _, row := range accessMatrix {
		method, path := shop.at(row.route, "")
		// The body of a picture is no JSON, and only a sandbox has the routes of one and those of programs.
		if method != "POST" || path == "/api/admin/pictures" || strings.HasPrefix(path, "/api/sandbox/") || path == "/api/lab/mine" || strings.HasPrefix(path, "/api/lab/exercises/") {
			continue
		}
		send := func(name, body string, want ...int) {
			t.Helper()
			r := shop.ask(method, path, shop.tokens[allowedCaller(row.want)], body, shop.signed(row.route, body)...)
			if !slices.Contains(want, r.Status) {
				t.Errorf("%s with %s: %s %s, want %d", row.route, name, outcome(r), r.Raw, want)
			}
			shop.checkHeaders(row.route+" with "+name, path, r)
		}
		good := shop.fill(row.body, owner)
		unknown := []string{"price", "quantity", "status", "user_id", "role", "stock", "__proto__", ""}
		if row.route == "POST /api/payments/notify" { // a provider may add fields: see TestNoticesMayHaveMoreFields
			unknown = nil
		}
		for _, field := range unknown {
			for _, value := range []string{`1`, `"x"`, `null`, `{}`} {
				more := fmt.Sprintf(`%q:%s}`, field, value)
				if good != "" {
					more = "," + more
				} else {
					more = "{" + more
				}
				send("an unknown field "+field, strings.TrimSuffix(good, "}")+more, 400)
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
		if row.route != "POST /api/payments/notify" { // whose signature counts, not its Content-Type
			for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", ""} {
				r := shop.ask(method, path, shop.tokens[allowedCaller(row.want)], good, "Content-Type", kind)
				if shop.checkHeaders(row.route+" as "+kind, path, r); r.Status != 415 {
					t.Errorf("%s as %q: %s", row.route, kind, outcome(r))
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
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			pair := fmt.Sprintf(`%q:%s`, name, text)
			send(name+" twice", strings.Replace(good, pair, pair+","+pair, 1), 400)
			send(name+" in capitals", strings.Replace(good, `"`+name+`"`, `"`+strings.ToUpper(name)+`"`, 1), 400)
			send(name+" in an escape", strings.Replace(good, pair, fmt.Sprintf(`%s,"\u%04x%s":%s`, pair, name[0], name[1:], text), 1), 400)
			for _, wrong := range []string{`{}`, `[]`, `true`, `[` + string(text) + `]`, `99999999999999999999`, `1e400`, `-9223372036854775809`, `1.5`} {
				send(name+" as "+wrong, strings.Replace(good, pair, fmt.Sprintf(`%q:%s`, name, wrong), 1), 400)
			}
			if _, isText := value.(string); isText { // text that no column stores is a wrong request, not a fault of the shop
				send(name+" with a zero byte", strings.Replace(good, pair, fmt.Sprintf(`%q:"a\u0000b"`, name), 1), 400)
				send(name+" with half a rune", strings.Replace(good, pair, fmt.Sprintf("%q:\"a\xffb\"", name), 1), 400)
			}
		}
	}
	if now := shop.state(t); !maps.Equal(now, was) {
		t.Errorf("a refused body has changed something: %v, was %v", now, was)
	}
}

// signed returns the headers with which the provider would send a notice with this body, nil for other
// routes.
func (shop matrixShop) signed(route, body string) (headers []string) {
	if route != "POST /api/payments/notify" {
		return nil
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(notifySecret))
	mac.Write([]byte(timestamp + "." + body))
	return []string{"X-Timestamp", timestamp, "X-Signature", hex.EncodeToString(mac.Sum(nil))}
}

func TestIdsOfAllKindsAreNoFault(t *testing.T) {
	t.Parallel()
	shop := openMatrixShop(t)
	for _, row := range accessMatrix {
		if !strings.Contains(row.route, "{id}") {
			continue
		}
		for _, id := range []string{"0", "-1", "1.5", "1e3", "0x1", "９", "99999999999999999999", "9223372036854775807", "-9223372036854775809",
			"%00", "1%00", "1%0a", "1%2f..", "..", "%ff", "'", "1;drop", strings.Repeat("9", 2000), "{" + shop.order + "}", "urn:uuid:" + shop.order,
			strings.ReplaceAll(shop.order, "-", "")} {
			method, path := shop.at(row.route, id)
			r := shop.ask(method, path, shop.tokens[owner], row.body)
			if r.Status < 400 || r.Status > 499 {
				t.Errorf("%s %s: %d %s", method, path, r.Status, r.Raw)
			}
			shop.checkHeaders(method+" "+path, path, r)
		}
	}
}
