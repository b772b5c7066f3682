package web

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"miaosha/user"
)

// borders are numbers at the ends of the types that a database and a program have.
var borders = []string{"0", "-0", "-1", "1", "32767", "32768", "65536", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296",
	"9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
	"99999999999999999999999999999999", "1e3", "1e30", "1e400", "1.0", "1.5"}

// spellings returns other ways to write a number or an id into a path. None of them is another name of the thing.
func spellings(id string) []string {
	escaped, wide := "", ""
	for _, c := range []byte(id) {
		escaped += "%" + string("0123456789ABCDEF"[c>>4]) + string("0123456789ABCDEF"[c&15])
		if wide += string(rune(c)); c >= '0' && c <= '9' {
			wide = wide[:len(wide)-1] + string('0'+rune(c-'0')+0xfee0)
		}
	}
	all := []string{"+" + id, "%2B" + id, "%2b" + id, "-" + id, "0" + id, "00" + id, "%30" + id, "_" + id, id + "_", id[:1] + "_" + id[1:] + "_", "0x" + id, "0b" + id, "0o" + id,
		id + ".0", id + ".", id + "e0", "%20" + id, id + "%20", id + "%09", id + "%0A", id + "%0d%0a", id + "%00", id + "%2f", id + "%2F..%2F" + id, "." + "/" + id, "../" + id, "%2e/" + id,
		"%2e%2e/" + id, "/" + id, id + ";x=1", id + "%3Bx=1", id + "%3Fx=1", id + "%23", "%ff" + id, id + "%c0%80", "%E2%80%8B" + id, "%25" + id, url.PathEscape(wide), escaped,
		"{" + id + "}", "'" + id + "'", id + "%27--", id + "," + id, strings.Repeat("0", 3000) + id, strings.Repeat("9", 3000), "%EF%BC%8B" + id, "%D9%A1%D9%A1", "null", "NaN", "true", "*"}
	if strings.ContainsAny(id, "abcdef") {
		all = append(all, strings.ToUpper(id), "urn:uuid:"+id, "{"+id+"}", "%7B"+id+"%7D", strings.ReplaceAll(id, "-", ""))
	}
	return all
}

// values are what a field of a query may be sent.
var values = append([]string{"", "+1", "%2B1", "01", "1_000", "0x1", "%20", "%EF%BC%91", "%00", "%FF", "%", "%zz", "a%00b", "true", "TRUE", "null", "*", "%25", "_", "'", "%27%3B--",
	"0000-01-01T00:00:00Z", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01", "2026-01-01T00:00:00.123456789123Z",
	"00000000-0000-0000-0000-000000000000", "0192F0C1-1ADE-7ABC-8DEF-0123456789AB", "0192f0c11ade7abc8def0123456789ab", "ffffffff-ffff-ffff-ffff-ffffffffffff",
	"{0192f0c1-1ade-7abc-8def-0123456789ab}", strings.Repeat("9", 3000), strings.Repeat("%E9%95%BF", 900), "1;2", "1&x"}, borders...)

var (
	documentedQuery = regexp.MustCompile("`(?:GET )(/[^`?]*)\\?([a-z=&]+)`")
	readOfQuery     = regexp.MustCompile(`(?:\bq\.(?:id|typedID|text|uuid|time|oneOf|bool|Get)|Query\(\)\.Get)\("([a-z]+)"`)
)

// queryFields returns the fields of the query of each route, as README.md lists them. Each field that the package reads is in it.
func queryFields(t *testing.T) map[string][]string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	fields, all := map[string][]string{}, []string{}
	for _, m := range documentedQuery.FindAllStringSubmatch(string(readme), -1) {
		for field := range strings.SplitSeq(m[2], "&") {
			name, _, _ := strings.Cut(field, "=")
			fields["GET "+m[1]], all = append(fields["GET "+m[1]], name), append(all, name)
		}
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if source, _ := os.ReadFile(f.Name()); strings.HasSuffix(f.Name(), ".go") && !strings.HasSuffix(f.Name(), "_test.go") {
			for _, m := range readOfQuery.FindAllStringSubmatch(string(source), -1) {
				if !slices.Contains(all, m[1]) {
					t.Errorf("%s reads %q of a query, and README.md has no route with ?%[2]s=", f.Name(), m[1])
				}
			}
		}
	}
	return fields
}

// Every route receives each of its parameters at the borders of numbers and in odd spellings: each part of its path, each field of its
// query, and each number of its body. None is an internal error, and nothing but its one spelling in a path is a thing of the shop.
func TestParametersAtTheirBorders(t *testing.T) {
	w := openWorld(t, 1)
	for _, b := range w.s.desk.limits.made {
		b.most = user.Limit{} // off: it asks much at once
	}
	wk, sent := w.workers[0], 0
	fields := queryFields(t)
	for i := range forms {
		f := &forms[i]
		g := &generator{Rand: rand.New(rand.NewPCG(1, uint64(i))), world: w, worker: wk}
		send := func(what string, change func(r *request), refused bool) {
			t.Helper()
			r := g.validOf(f)
			r.want, r.broken, r.close = nil, true, true // net/http refuses some by itself
			change(r)
			a, err := wk.send(r.bytes(g), r)
			if err == nil {
				err = r.judge(a)
			}
			sent++
			switch {
			case err != nil:
				t.Errorf("%s, %.80s: %v\n%.300s", f.route, what, err, a.body)
			case refused && a.status < 400:
				t.Errorf("%s, %.80s: %v, and it is no spelling of what the path names", f.route, what, a)
			}
			if f.renew {
				wk.login(r.buyer)
			}
		}
		_, pattern, _ := strings.Cut(f.route, " ")
		for at, part := range strings.Split(pattern, "/") {
			if !strings.HasPrefix(part, "{") {
				continue
			}
			id := strings.Split(g.validOf(f).path, "/")[at]
			for _, odd := range append(spellings(id), borders...) {
				if odd == "1" && f.thing != nothing { // the first sale
					continue
				}
				send("path "+odd, func(r *request) {
					parts := strings.Split(r.path, "/")
					parts[at] = odd
					r.path = strings.Join(parts, "/")
				}, odd != id)
			}
		}
		for _, odd := range []string{"//api/", "/api//", "/./api/", "/x/../api/", "/%61pi/", "/API/", "/api/./", "/api%2f", "/api;x/", "/.%2fapi/"} {
			send("path "+odd, func(r *request) { r.path = strings.Replace(r.path, "/api/", odd, 1) }, strings.HasPrefix(pattern, "/api/"))
		}
		for _, name := range fields[f.route] {
			for _, v := range values {
				send(name+"="+v, func(r *request) { r.query = name + "=" + v }, false)
			}
			for _, q := range []string{name + "=1&" + name + "=1", name + "=1;x=1", name + "=%zz", name + "=%00", "%ff=1"} {
				send(q, func(r *request) { r.query = q }, true)
			}
		}
		for _, field := range f.fields {
			for _, v := range borders {
				body := func(r *request) {
					if _, text := r.sent[field.name].(string); text && v != "-1" {
						return // one number for a text is enough
					}
					r.sent[field.name] = json.RawMessage(v)
					r.body, _ = json.Marshal(r.sent)
				}
				send(field.name+": "+v, body, false)
			}
		}
		for _, h := range [][2]string{{"X-User", "+1"}, {"X-User", "01"}, {"X-User", "9223372036854775808"}, {"Idempotency-Key", "1"}, {"Range", "bytes=0-"}, {"Range", "bytes=99999999999999999999-"},
			{"Last-Event-ID", "-1"}, {"If-None-Match", `W/"`}, {"If-Modified-Since", "x"}, {"Content-Length", "+1"}, {"X-Forwarded-For", "1e3"}, {"Accept-Language", "\xff"}, {"Accept-Encoding", "gzip;q=1e999"}} {
			send(h[0]+": "+h[1], func(r *request) { r.headers = append(r.headers, h) }, h[0] == "X-User" && f.who != anyone)
		}
	}
	if text := w.log.String(); strings.Contains(text, "internal error") {
		t.Errorf("the shop's log has internal errors:\n%.3000s", text)
	}
	t.Logf("%d requests", sent)
}
