package web

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"miaosha/seckill/sandbox/sandboxtest"
)

// ruleOfNginx is the location that deploy/nginx.conf has for a route. Without one it is that of /api/.
var ruleOfNginx = map[string]string{
	"POST /api/sales/{id}/buy/{path}":     "~ ^/api/sales/[0-9]+/buy/",
	"GET /api/sales/{id}/events":          "~ ^/api/sales/[0-9]+/events$",
	"POST /api/admin/pictures":            "= /api/admin/pictures",
	"GET /api/admin/orders.csv":           "~ ^/api/admin/(orders|log)[.]csv$",
	"GET /api/admin/log.csv":              "~ ^/api/admin/(orders|log)[.]csv$",
	"GET /api/admin/users":                "~ ^/api/admin/(users|orders)$",
	"GET /api/admin/orders":               "~ ^/api/admin/(users|orders)$",
	"POST /api/lab/mine":                  "/api/lab/",
	"POST /api/lab/exercises/{name}":      "/api/lab/",
	"POST /api/sales/{id}/path":           "/api/",
	"GET /api/sales/{id}":                 "/api/",
	"POST /api/admin/sales/{id}/units":    "/api/",
	"GET /api/admin/tickets/{ticket}":     "/api/",
	"GET /pictures/{name}":                "/",
	"GET /api/sandbox/classes/{code}":     "/api/",
	"GET /api/orders/{id}":                "/api/",
	"GET /api/sales/{id}/result":          "/api/",
	"POST /api/admin/sales/{id}/publish":  "/api/",
	"POST /api/admin/orders/{id}/confirm": "/api/",
}

// What the shop takes as a route, nginx takes by the rule for that route, in whatever spelling a path comes: the limit of clicks, the
// silence of the log about hidden addresses and the time limits are in those rules. nginx reads a path decoded and without dots and double
// slashes, and passes it on as it came.
func TestNginxAndTheShopReadAPathTheSame(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	location, rules := regexp.MustCompile(`(?m)^        location ([^@{][^{]*) \{$`), []string{}
	conf := location.ReplaceAllStringFunc(string(raw), func(line string) string {
		rules = append(rules, location.FindStringSubmatch(line)[1])
		return fmt.Sprintf("%s\n            proxy_set_header X-Rule %d;\n            proxy_set_header Connection '';", line, len(rules)-1)
	})
	for _, rule := range ruleOfNginx {
		if !slices.Contains(rules, rule) {
			t.Fatalf("deploy/nginx.conf has the rules %q, without %q", rules, rule)
		}
	}
	conf = regexp.MustCompile(`rate=\d+r/s`).ReplaceAllString(conf, "rate=100000r/s")
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "sandbox"}, Deps{Log: slog.New(slog.DiscardHandler)}, "")
	if err != nil {
		t.Fatal(err)
	}
	// taken returns the route that takes a request, with an {id} that it can read; "" for none.
	taken := func(r *http.Request) string {
		c, at := chi.NewRouteContext(), r.URL.RawPath
		if at == "" {
			at = r.URL.Path
		}
		if !s.handler.(chi.Routes).Match(c, r.Method, at) {
			return ""
		}
		if id := c.URLParam("id"); id != "" {
			_, number := readID(id)
			if _, isUUID := readUUID(id); !number && !isUUID {
				return ""
			}
		}
		return r.Method + " " + c.RoutePattern()
	}
	read := s.oneMeaning(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Taken", taken(r)) }))
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Rule", r.Header.Get("X-Rule"))
		read.ServeHTTP(w, r)
	}))
	t.Cleanup(shop.Close)
	nginx := sandboxtest.Nginx(t, conf, strings.TrimPrefix(shop.URL, "http://"))[0]
	conn, err := net.Dial("tcp", nginx)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	ask := func(method, path string) (route, rule string) {
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n", method, path)
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if resp.Close {
			conn.Close()
			if conn, err = net.Dial("tcp", nginx); err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(conn)
		}
		n, err := strconv.Atoi(resp.Header.Get("X-Rule"))
		if err != nil { // nginx answers by itself
			return "", ""
		}
		return resp.Header.Get("X-Taken"), rules[n]
	}
	asked, seen := 0, 0
	for route := range ruleOfNginx {
		method, pattern, _ := strings.Cut(route, " ")
		path := strings.NewReplacer("{path}", "aB3_-x", "{name}", "n", "{code}", "ACDEF", "{ticket}", "1:2-3:4").Replace(pattern)
		id := "11"
		if strings.Contains(route, "/orders/{id}") {
			id = "0192f0c1-1ade-7abc-8def-0123456789ab"
		}
		var paths []string
		for _, odd := range append(spellings(id), borders...) {
			paths = append(paths, strings.Replace(path, "{id}", odd, 1))
		}
		path = strings.Replace(path, "{id}", id, 1)
		for _, odd := range []string{"..", ".", ".%2e", "%2e%2e", "..;", "%2e", "x%2f..", "..%2f"} {
			paths = append(paths, path[:strings.LastIndex(path, "/")+1]+odd)
		}
		escaped := func(c byte) []string { return []string{fmt.Sprintf("%%%02x", c), fmt.Sprintf("%%%02X", c)} }
		for i := 1; i < len(path); i++ {
			for _, e := range escaped(path[i]) {
				paths = append(paths, path[:i]+e+path[i+1:])
			}
			if path[i] == '/' {
				paths = append(paths, path[:i]+"/"+path[i:], path[:i]+"/."+path[i:], path[:i]+"/x/.."+path[i:], path[:i]+"%2f"+path[i:], path[:i]+"/%2e"+path[i:], path[:i]+";a=b"+path[i:])
			}
		}
		for _, end := range []string{"", "/", "//", "/.", "/..", "%2f", "..%2f", "/..%2f", "%2f..%2f..", "%2f..%2f..%2f..", "%0a", "%00", "?", "?x=/../..", "%3f", "#x", ";", "%20", ".csv", "/../path", "%2f..%2fpath", "%2f%2e%2e%2f%2e%2e%2fresult"} {
			paths = append(paths, path+end, strings.ToUpper(path)+end)
		}
		for _, odd := range paths {
			asked++
			got, rule := ask(method, odd)
			if got == "" {
				continue
			}
			if _, chosen := ruleOfNginx[got]; !chosen {
				continue
			}
			if seen++; rule != ruleOfNginx[got] {
				t.Errorf("%s %.200s: the shop takes it as %s, and nginx by the rule %q, not %q", method, odd, got, rule, ruleOfNginx[got])
			}
		}
		if got, _ := ask(method, path); got != route {
			t.Errorf("%s %s is taken as %q: the test says nothing of it", method, path, got)
		}
	}
	t.Logf("%d paths, %d of them taken", asked, seen)
}
