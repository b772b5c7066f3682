package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"miaosha/seckill/payment"
	"miaosha/seckill/purpose"
)

// generator makes one request from its seed and number, and from what earlier answers have told.
type generator struct {
	*rand.Rand
	world  *world
	worker *worker
}

// Read fills b with random bytes.
func (g *generator) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return len(b), nil
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// pickOf is pick of a list that may be empty.
func pickOf[T any](g *generator, from []T) (none T) {
	if len(from) == 0 {
		return none
	}
	return pick(g, from...)
}

// lastOf returns the last n of a list.
func lastOf[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// request is a request and the answers that it may receive.
type request struct {
	form    *form // nil: of no route
	shape   string
	buyer   *buyer
	sale    int64
	code    *sentCode
	sent    map[string]any // the fields of the body
	method  string
	path    string // escaped
	query   string
	token   string
	headers [][2]string
	cookies []string
	body    []byte
	proto   string
	host    string
	noType  bool // do not send a content type
	chunked bool
	flips   bool     // bytes of the request change
	broken  bool     // it may be no HTTP
	close   bool     // the shop may read no further request on the connection
	want    []string // nil: whatever is in the table of refusals
}

func (r *request) name() string {
	if r.form == nil {
		return "no route"
	}
	return r.form.route
}

// only sets the answers that the request may receive.
func (r *request) only(want ...string) { r.want = want }

// also adds answers that the request may receive.
func (r *request) also(want ...string) { r.want = slices.Concat(r.want, want) }

// next returns the next request: half of them are valid, a third has one mistake, the others are wild.
func (g *generator) next() *request {
	switch n := g.IntN(100); {
	case n < 50:
		return g.valid()
	case n < 85:
		return g.nearly()
	case n < 96:
		return g.wild()
	default:
		r := g.valid()
		r.shape, r.flips, r.broken, r.close, r.want = "changed bytes", true, true, true, nil
		return r
	}
}

var formWeights = func() (all int) {
	for _, f := range forms {
		all += f.weight
	}
	return all
}()

// valid returns a request without a mistake.
func (g *generator) valid() *request {
	k := g.IntN(formWeights)
	i := 0
	for ; k >= forms[i].weight; i++ {
		k -= forms[i].weight
	}
	return g.validOf(&forms[i])
}

// validOf returns a request of a form without a mistake.
func (g *generator) validOf(f *form) *request {
	r := &request{form: f, shape: "valid", buyer: pick(g, g.worker.buyers...), proto: "HTTP/1.1", host: "127.0.0.1:8080", sent: map[string]any{}}
	if f.who == anAdmin {
		r.buyer = g.worker.admin
	}
	r.method, _, _ = strings.Cut(f.route, " ")
	r.want = slices.Concat(f.before, f.answers)
	r.path = f.path(g, r)
	if f.query != nil {
		r.query = f.query(g, r)
	}
	if f.who != anyone || g.IntN(8) == 0 {
		r.token = r.buyer.token
	}
	if f.fields != nil {
		for _, field := range f.fields {
			r.sent[field.name] = field.value(g, r)
		}
		r.body, _ = json.Marshal(r.sent)
		if f.missing && r.sent["captcha"] == "" && g.IntN(2) == 0 {
			r.body = nil
		}
	}
	r.headers = append(r.headers, [2]string{"X-Forwarded-For", g.address()})
	if g.IntN(2) == 0 {
		r.headers = append(r.headers, [2]string{"Accept-Language", pick(g, "en", "zh-CN,zh;q=0.9", "fr", "en-GB,en;q=0.5")})
	}
	if g.IntN(3) == 0 {
		r.headers = append(r.headers, [2]string{"Accept-Encoding", pick(g, "gzip", "gzip, deflate, br, zstd", "identity")})
	}
	if g.IntN(4) == 0 {
		r.headers = append(r.headers, [2]string{"X-Forwarded-Proto", "https"})
	}
	return r
}

func (g *generator) address() string {
	if g.IntN(4) == 0 {
		return fmt.Sprintf("2001:db8:0:%x::%x", g.IntN(30), g.IntN(1000))
	}
	return fmt.Sprintf("203.0.113.%d", g.IntN(60))
}

// mistake changes a valid request and the answers that it may receive. It reports whether the request
// can have this mistake.
type mistake struct {
	name string
	make func(g *generator, r *request) bool
}

// nearly returns a request with one mistake.
func (g *generator) nearly() *request {
	r := g.valid()
	for {
		m := pick(g, mistakes...)
		if m.make(g, r) {
			r.shape = m.name
			return r
		}
	}
}

var mistakes = []mistake{
	{"no session", func(g *generator, r *request) bool {
		if r.form.who == anyone {
			return false
		}
		r.token = ""
		if r.form.route == "GET /api/me" {
			r.only("200 ok")
		} else {
			r.only("401 not_logged_in")
		}
		return true
	}},
	{"a wrong session", func(g *generator, r *request) bool {
		if r.form.who == anyone {
			return false
		}
		r.token = g.wrongToken(r.token)
		r.only("401 not_logged_in")
		if strings.Contains(r.form.route, "{path}") {
			r.also("403 bad_path")
		}
		return true
	}},
	{"a buyer's session", func(g *generator, r *request) bool {
		if r.form.who != anAdmin {
			return false
		}
		r.token = pick(g, g.worker.buyers...).token
		r.only("403 forbidden")
		return true
	}},
	{"another buyer's session", func(g *generator, r *request) bool {
		if r.form.who == anAdmin || r.form.thing != anOrder && r.form.thing != aPayment && !strings.Contains(r.form.route, "{path}") {
			return false
		}
		other := pick(g, g.worker.buyers...)
		if other == r.buyer {
			return false
		}
		r.token = other.token
		r.only(slices.Concat(r.form.before, []string{"404 not_found"})...)
		if r.form.thing == aSale {
			r.only("403 bad_path")
		}
		return true
	}},
	{"a wrong id", func(g *generator, r *request) bool {
		id := pick(g, "0", "-1", "999999", "99999999999999999999", "abc", "%00", "%2e%2e", "1%2f2", "%ff", "1%20", "%EF%BC%91", "1e3", "0x1", "'%20or%201=1", "{id}",
			"urn:uuid:0b2c4b48-6a4e-4b2a-9d9f-8f0a4e1f7c11", "0b2c4b486a4e4b2a9d9f8f0a4e1f7c11", g.uuid(), strings.Repeat("9", 3000))
		parts := strings.Split(r.path, "/")
		switch r.form.thing {
		case nothing:
			return false
		case aSale:
			r.only(slices.Concat(r.form.before, []string{"404 no_sale"})...)
		default:
			r.only(slices.Concat(r.form.before, []string{"404 not_found"})...)
		}
		if id == "%2e%2e" || id == "1%2f2" { // for nginx it is another path
			r.only("404 not_found")
		}
		place := slices.Index(strings.Split(r.form.route[strings.Index(r.form.route, "/"):], "/"), "{id}")
		parts[place] = id
		r.path = strings.Join(parts, "/")
		return true
	}},
	{"another path", func(g *generator, r *request) bool {
		if r.path == "/" || !strings.HasPrefix(r.form.route, "POST /api/") && !strings.HasPrefix(r.form.route, "GET /api/") {
			return false
		}
		r.path = pick(g, r.path+"/", "/"+r.path, r.path+"/x", strings.ToUpper(r.path), "/v1"+r.path, r.path+"%2f", strings.Replace(r.path, "/api/", "/api//", 1),
			strings.Replace(r.path, "/api/", "/API/", 1))
		if strings.Contains(r.form.route, "{") {
			r.want = nil // an id with more behind it
			return true
		}
		r.only("404 not_found", "405 method_not_allowed")
		if r.form.thing == nothing { // with an id behind it, some are another route
			r.also("404 no_sale", "429 too_many")
		}
		return true
	}},
	{"another method", func(g *generator, r *request) bool {
		method := pick(g, "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "POSTPOST")
		_, pattern, _ := strings.Cut(r.form.route, " ")
		if slices.ContainsFunc(forms, func(f form) bool { return f.route == method+" "+pattern }) {
			return false
		}
		r.method, r.broken = method, method == "CONNECT" // its target is no path
		r.only("405 method_not_allowed")
		return true
	}},
	{"another site", func(g *generator, r *request) bool {
		r.headers = append(r.headers, pick(g, [2]string{"Sec-Fetch-Site", "cross-site"}, [2]string{"Sec-Fetch-Site", "same-site"},
			[2]string{"Origin", "https://evil.example"}, [2]string{"Origin", "null"}))
		if r.method == "POST" {
			r.only("403 forbidden")
		}
		return true
	}},
	{"a field of a wrong type", changeField(func(g *generator, r *request, name string, fields map[string]any) {
		old := fields[name]
		fields[name] = pick[any](g, 1.5, true, map[string]any{}, map[string]any{"$gt": ""}, []any{[]any{}}, []any{map[string]any{}}, "\x00", json.Number("1e400"), json.Number("-99999999999999999999"))
		if _, number := old.(string); !number && g.IntN(2) == 0 {
			fields[name] = "x"
		}
		r.refused()
	})},
	{"a field of a strange value", changeField(func(g *generator, r *request, name string, fields map[string]any) {
		switch fields[name].(type) {
		case string:
			fields[name] = g.text()
		case []any:
			fields[name] = []any{g.text()}
		default:
			fields[name] = pick(g, json.Number("0"), "-1", "9223372036854775807", "18446744073709551615", "-9223372036854775808")
		}
		r.also("400 bad_request", "404 not_found")
	})},
	{"a field is missing", changeField(func(g *generator, r *request, name string, fields map[string]any) {
		if delete(fields, name); g.IntN(2) == 0 {
			fields[name] = nil
		}
		r.also("400 bad_request")
	})},
	{"an unknown field", changeField(func(g *generator, r *request, name string, fields map[string]any) {
		fields[pick(g, "role", "user_id", "__proto__", "Phone", "", "价格", strings.ToUpper(name))] = pick[any](g, 1, "admin", nil, true)
		if r.form.route == "POST /api/payments/notify" { // a provider may add fields
			r.also("404 not_found")
			return
		}
		r.refused()
	})},
	{"a body that is no object", func(g *generator, r *request) bool {
		if r.form.fields == nil {
			return false
		}
		was := r.body
		if len(was) == 0 {
			was = []byte("{}")
		}
		r.body = pick(g, []byte("null"), []byte("[]"), []byte(`"x"`), []byte("1"), []byte("{"), []byte("{}}"), append(slices.Clone(was), "{}"...), append(slices.Clone(was), " x"...),
			append([]byte("\ufeff"), was...), []byte("{\"phone\":\"\xff\"}"), bytes.Repeat([]byte("["), 4000), bytes.Repeat([]byte(`{"a":`), 600), []byte(`{"captcha":"1","captcha":"2"}`),
			[]byte(`{'phone':'1'}`), []byte("phone=1"), []byte{0}, was[:len(was)/2])
		r.refused()
		return true
	}},
	{"another content type", func(g *generator, r *request) bool {
		if r.form.fields == nil || len(r.body) == 0 {
			return false
		}
		r.noType = true
		if kind := pick(g, "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json2", "json", ";", "application/json; charset=\"", strings.Repeat("a/", 900)); kind != "" {
			r.headers = append(r.headers, [2]string{"Content-Type", kind})
		}
		if r.form.raw {
			return true
		}
		r.only(slices.Concat(r.form.before, []string{"415 unsupported_media_type"})...)
		return true
	}},
	{"too large a body", func(g *generator, r *request) bool {
		if r.method != "POST" {
			return false
		}
		r.body, r.close = bytes.Repeat([]byte(" "), pick(g, 4097, 5000, 70_000)), true
		r.only(slices.Concat(r.form.before, []string{"413 too_large"})...)
		return true
	}},
	{"a body where none is taken", func(g *generator, r *request) bool {
		if r.form.fields != nil {
			return false
		}
		r.body = pick(g, []byte("{}"), []byte("x"), []byte(" "), []byte(`{"price":1}`))
		if r.method == "POST" {
			r.refused()
			if len(r.form.answers) > 0 && r.form.thing == anOrder && len(r.buyer.orders) == 0 {
				r.also("404 not_found")
			}
		}
		return true
	}},
	{"a strange query", func(g *generator, r *request) bool {
		r.query = pick(g, "a=b&c=%zz", "slot=x", "slot=2001-01-01T00:00:00Z", "kind=x", "kind=", "slot=%00", ";", "&&&&", "token="+r.buyer.token, "slot=9999-12-31T23:59:59Z",
			url.QueryEscape(g.text()), "slot="+url.QueryEscape(g.text()), "kind="+url.QueryEscape(g.text()))
		r.also("400 bad_request")
		return true
	}},
	{"strange headers", func(g *generator, r *request) bool {
		for range 1 + g.IntN(4) {
			r.headers = append(r.headers, g.header())
		}
		r.also("304")
		return true
	}},
	{"a body in chunks", func(g *generator, r *request) bool {
		r.chunked = r.method == "POST"
		return r.chunked
	}},
	{"HTTP/1.0", func(g *generator, r *request) bool {
		r.proto = "HTTP/1.0"
		return true
	}},
}

// refused sets the answers to a body that the shop cannot read.
func (r *request) refused() {
	r.only(slices.Concat(r.form.before, []string{"400 bad_request"})...)
}

// changeField is a mistake in one field of a body.
func changeField(change func(g *generator, r *request, name string, fields map[string]any)) func(*generator, *request) bool {
	return func(g *generator, r *request) bool {
		if r.form.fields == nil {
			return false
		}
		fields := maps.Clone(r.sent)
		change(g, r, r.form.fields[g.IntN(len(r.form.fields))].name, fields)
		body, err := json.Marshal(fields)
		if err != nil {
			return false
		}
		r.body, r.sent = body, fields
		return true
	}
}

func (g *generator) wrongToken(token string) string {
	if token == "" {
		return "garbage"
	}
	switch g.IntN(5) {
	case 0:
		return token[:len(token)-1]
	case 1:
		return token + "A"
	case 2:
		b := []byte(token)
		i := g.IntN(len(b) - 1) // the last character has unused bits
		b[i] = "AB"[(b[i]&1)^1]
		if string(b) == token {
			b[i] = 'C'
		}
		return string(b)
	case 3:
		return pick(g, "garbage", strings.Repeat("A", 43), "null", "ms:session:1", strings.Repeat("A", 5000))
	}
	var b strings.Builder
	for range 43 {
		b.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[g.IntN(64)])
	}
	return b.String()
}

// text returns a text that programs mistake.
func (g *generator) text() string {
	return pick(g, "", " ", "0", "-1", "null", "undefined", "NaN", "true", "' or 1=1 --", "\"; drop table users; --", "<script>alert(1)</script>", "{{7*7}}", "${7*7}", "%s%n", "../../etc/passwd",
		"\u202egnp.exe", "\u200b", "é", "e\u0301", "ﷺ", "💩", "1️⃣", "１３８００００００００", "\r\nSet-Cookie: a=b", "\n", "\x01\x7f", "\u0000", "\ufffd", "\ufeff", "1e9", "0x10", "1_000", "+8613811112222",
		"2026-11-11T00:00:00Z", "13811112222", strings.Repeat("a", 200), strings.Repeat("长", 1000), strings.Repeat("9", 400), g.random(40))
}

// random returns up to n random characters.
func (g *generator) random(n int) string {
	var b strings.Builder
	for range g.IntN(n) {
		b.WriteRune(rune(g.IntN(pick(g, 128, 128, 0x3000, 0x10ffff))))
	}
	return b.String()
}

func (g *generator) header() [2]string {
	clean := func(text string) string { // other control characters are no header, which changed bytes try
		return strings.Map(func(c rune) rune {
			if unicode.IsControl(c) {
				return -1
			}
			return c
		}, text)
	}
	name := pick(g, "Accept", "Accept-Language", "Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-HTTP-Method-Override",
		"Cookie", "Origin-Trial", "Referer", "User-Agent", "X-Signature", "X-Timestamp", "Content-Encoding", "Forwarded", "X-Real-IP", "Via", "Last-Event-ID", "Upgrade", "X-A")
	value := pick(g, "*", "gzip;q=0", "zstd;q=1,*;q=0", "bytes=0-1", "bytes=-1,5-", "DELETE", "en;q=zz", ",,,,", "q=", "W/\"x\"", "Thu, 01 Jan 1970 00:00:00 GMT", "session=", "session=x; session=y", "code=;;;=", "1, 2, 3",
		"203.0.113.9, 10.0.0.1", "::1, fe80::1%eth0", "websocket", strings.Repeat("x,", 500), strings.Repeat("en-US,", 300), clean(g.text()), clean(g.random(60)))
	return [2]string{name, value}
}

// wild returns a request that resembles a valid one little.
func (g *generator) wild() *request {
	r := g.valid()
	r.shape = "wild"
	for range 1 + g.IntN(4) {
		pick(g, mistakes...).make(g, r)
	}
	if g.IntN(3) == 0 {
		r.path = pick(g, "/", "/api", "/api/", "/static/", "/api/sales/1/buy/", "/api/admin/orders", "/metrics", "/debug/pprof/", "/.git/config", "/api/sales/%s", "//evil.example/", "/%2e%2e/%2e%2e/etc/passwd", "/"+url.PathEscape(g.text()),
			"/api/"+url.PathEscape(g.text())+"/"+url.PathEscape(g.random(20)), "*", "http://evil.example/api/me", "/api/sales/1/../2", "/"+strings.Repeat("a/", 2000))
		r.form = nil
	}
	if g.IntN(4) == 0 {
		r.body = []byte(g.random(300))
	}
	if g.IntN(8) == 0 {
		r.host = pick(g, "", "evil.example", "127.0.0.1", "[::1]:8080", "a b", strings.Repeat("h", 300))
	}
	r.broken, r.want = true, nil
	return r
}

// bytes returns the request as it is sent.
func (r *request) bytes(g *generator) []byte {
	var b bytes.Buffer
	target := r.path
	if r.query != "" {
		target += "?" + r.query
	}
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\n", r.method, target, r.proto, r.host)
	secure := slices.Contains(r.headers, [2]string{"X-Forwarded-Proto", "https"})
	name := func(cookie string) string {
		if secure {
			return "__Host-" + cookie
		}
		return cookie
	}
	cookies := slices.Clone(r.cookies)
	for _, cookie := range slices.Sorted(maps.Keys(r.buyer.cookies)) {
		cookies = append(cookies, name(cookie)+"="+r.buyer.cookies[cookie])
	}
	if r.token != "" {
		if g.IntN(2) == 0 {
			cookies = append(cookies, name("session")+"="+r.token)
		} else {
			fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", r.token)
		}
	}
	if len(cookies) > 0 {
		fmt.Fprintf(&b, "Cookie: %s\r\n", strings.Join(cookies, "; "))
	}
	if r.form != nil && r.form.raw { // before the other headers: the first of two counts
		at, keys := strconv.FormatInt(g.world.s.Rush.Now().Unix(), 10), [][]byte{purpose.CashierNotice.Key(g.world.s.Secret), []byte(fuzzNotifySecret)}
		fmt.Fprintf(&b, "X-Timestamp: %s\r\nX-Signature: %s\r\n", at, payment.Sign(keys[g.IntN(len(keys))], at, r.body))
	}
	for _, h := range r.headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	if len(r.body) > 0 && !r.noType {
		b.WriteString("Content-Type: application/json\r\n")
	}
	switch {
	case r.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		for rest := r.body; len(rest) > 0; {
			n := 1 + g.IntN(len(rest))
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		b.WriteString("0\r\n\r\n")
	case len(r.body) > 0:
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(r.body), r.body)
	default:
		b.WriteString("\r\n")
	}
	raw := b.Bytes()
	if r.flips {
		for range 1 + g.IntN(3) {
			i := g.IntN(len(raw))
			switch g.IntN(4) {
			case 0:
				raw[i] = byte(g.IntN(256))
			case 1:
				raw[i] ^= 1 << g.IntN(8)
			case 2:
				raw = slices.Delete(raw, i, min(len(raw), i+1+g.IntN(8)))
			default:
				raw = slices.Insert(raw, i, []byte(pick(g, "\r\n", ":", " ", "\x00", ",", "%", "{", "\"", "9", "HTTP/1.1"))...)
			}
		}
	}
	return raw
}
