package web_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

// The largest body of every route reaches the shop through deploy/nginx.conf, and of one with a byte more the shop
// itself says that it is too large. The limits are those that the shop has when it is asked without nginx.
func TestNginxPassesTheLargestBodies(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	shop := openMatrixShop(t, "MIAOSHA_IP_RATE=off")
	// Only a sandbox has programs. Its lab only lists what it is given.
	log := slog.New(slog.DiscardHandler)
	sandbox, err := web.New(web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}, web.Deps{Sandbox: true, Lab: web.NewLab(lab.Stores{}, log), Log: log,
		Demo: &web.Demo{Local: true, Accounts: map[string]web.DemoAccount{}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	programs := httptest.NewServer(sandbox)
	t.Cleanup(programs.Close)
	throughShop := sandboxtest.Nginx(t, string(conf), strings.TrimPrefix(shop.URL, "http://"))
	throughPrograms := sandboxtest.Nginx(t, string(conf), programs.Listener.Addr().String())
	client := &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{DisableKeepAlives: true}}
	limits := map[int64]int{}
	for _, row := range accessMatrix {
		method, path := shop.at(row.route, "")
		path = strings.ReplaceAll(path, "{name}", exercises.Ladder()[0].Name)
		if method != "POST" {
			continue
		}
		direct, through, token := shop.URL, throughShop, shop.tokens[allowedCaller(row.want)]
		if strings.HasPrefix(path, "/api/lab/") || strings.HasPrefix(path, "/api/sandbox/") {
			direct, through, token = programs.URL, throughPrograms, ""
		}
		if strings.HasPrefix(path, "/api/sandbox/teach") || strings.HasPrefix(path, "/api/sandbox/classes") {
			continue // for the staff, which this sandbox has not; nginx has the same rule for them as for the others below /api/
		}
		send := func(at string, size int64) (status int, code string, ofShop bool) {
			t.Helper()
			body := `{"x":"` + strings.Repeat("1", int(size)-len(`{"x":""}`)) + `"}`
			req, err := http.NewRequest("POST", at+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			for i, headers := 0, shop.signed(row.route, body); i < len(headers); i += 2 {
				req.Header.Set(headers[i], headers[i+1])
			}
			resp, err := client.Do(req)
			if err != nil && at == direct {
				return 0, "", true // it has answered before it was sent everything
			}
			if err != nil {
				t.Fatalf("%s with %d bytes: %v", row.route, size, err)
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if _, rest, found := bytes.Cut(raw, []byte(`"code":"`)); found {
				code, _, _ = strings.Cut(string(rest), `"`)
			}
			return resp.StatusCode, code, resp.Header.Get("Content-Security-Policy") != ""
		}
		reads := false
		for _, size := range web.BodyLimits {
			if _, code, _ := send(direct, size+1); code != "too_large" {
				continue // it reads more, or nothing at all
			}
			reads = true
			limits[size]++
			want, wantCode, _ := send(direct, size)
			for _, at := range through {
				if status, code, ofShop := send("http://"+at, size); status == 413 || status != want || code != wantCode || !ofShop {
					t.Errorf("%s with %d bytes at %s: %d %s, of the shop: %v; want %d %s, as without nginx", row.route, size, at, status, code, ofShop, want, wantCode)
				}
				if status, code, ofShop := send("http://"+at, size+1); status != 413 || code != "too_large" || !ofShop {
					t.Errorf("%s with %d bytes at %s: %d %s, of the shop: %v; want 413 too_large of the shop", row.route, size+1, at, status, code, ofShop)
				}
			}
			break
		}
		if !reads {
			t.Logf("%s reads no body", row.route)
			limits[0]++
		}
	}
	for _, size := range web.BodyLimits {
		if limits[size] == 0 {
			t.Errorf("no route has the limit %d: %v", size, limits)
		}
	}
	if limits[0] > 0 {
		t.Errorf("%d routes seem to read no body: the test reaches no handler", limits[0])
	}
}

// What the staff searches for stands in a query, and in no log of nginx, also when the shop does not answer.
func TestNginxLogsNoSearch(t *testing.T) {
	t.Parallel()
	conf, err := os.ReadFile("../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + sandboxtest.Nginx(t, string(conf), "127.0.0.1:1")[0] // no shop is there
	const phone = "13811117531"
	paths := []string{"/api/admin/users", "/api/admin/orders", "/api/admin/orders.csv"}
	for _, path := range paths {
		if r := sandboxtest.Call("GET", at+path+"?q="+phone, "", "", "Referer", at+"/admin.html?q="+phone); r.Status != 503 {
			t.Errorf("%s: %s", path, outcome(r))
		}
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(at, "http://"), ":")
	var access, errors string
	sandboxtest.Until(t, "nginx has logged every request", func() bool {
		confs, _ := filepath.Glob(filepath.Join(os.TempDir(), "miaosha-nginx-*", "nginx.conf"))
		for _, name := range confs {
			if is, _ := os.ReadFile(name); strings.Contains(string(is), ":"+port+";") {
				a, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "access.log"))
				e, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "error.log"))
				access, errors = string(a), string(e)
			}
		}
		return !slices.ContainsFunc(paths, func(path string) bool { return !strings.Contains(access, `"GET `+path+` HTTP/1.1" 503`) })
	})
	for name, log := range map[string]string{"access.log": access, "error.log": errors} {
		if strings.Contains(log, phone) {
			t.Errorf("%s has what was searched for:\n%s", name, log)
		}
	}
}
