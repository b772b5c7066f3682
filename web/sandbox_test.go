package web_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// demoLogin logs in a demo account with one request, and returns the token of the session.
func (s sandboxShop) demoLogin(t *testing.T, as, role string) (token string) {
	t.Helper()
	var in struct{ Token, Role string }
	sandboxtest.Call("POST", s.URL+"/api/sandbox/login", "", `{"as":"`+as+`"}`).Read(t, &in)
	if in.Role != role {
		t.Fatalf("the log-in as %s is that of a %q", as, in.Role)
	}
	return in.Token
}

// What only a sandbox has is there for the caller that each route is for, and a sandbox that other machines reach has less of it.
func TestRoutesOfASandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want map[string][3]string // of a stranger, the demo buyer and an administrator
	}{
		"at this machine": {nil, map[string][3]string{
			`POST /api/sandbox/login {"as":"admin"}`:                 {"200 ok", "200 ok", "200 ok"},
			`POST /api/sandbox/login {"as":"owner"}`:                 {"400 bad_request", "400 bad_request", "400 bad_request"},
			`POST /api/sandbox/bots {"sale":999999}`:                 {"404 no_sale", "404 no_sale", "404 no_sale"},
			`GET /api/sandbox/bots`:                                  {"200 ok", "200 ok", "200 ok"},
			`POST /api/sandbox/teach {"fault":"fire"}`:               {"401 not_logged_in", "403 forbidden", "400 bad_request"},
			`POST /api/sandbox/teach {"fault":"flush","seconds":16}`: {"401 not_logged_in", "403 forbidden", "400 bad_request"},
			`GET /api/sandbox/teach`:                                 {"401 not_logged_in", "403 forbidden", "200 ok"},
			`GET /teach.html`:                                        {"200", "200", "200"},
		}},
		"in a network": {[]string{"MIAOSHA_ALLOW_LAN=true"}, map[string][3]string{
			`POST /api/sandbox/login {"as":"admin"}`:    {"400 bad_request", "400 bad_request", "400 bad_request"},
			`POST /api/sandbox/bots {"sale":999999}`:    {"401 not_logged_in", "403 forbidden", "404 no_sale"},
			`GET /api/sandbox/bots`:                     {"401 not_logged_in", "403 forbidden", "200 ok"},
			`POST /api/sandbox/teach {"fault":"flush"}`: {"404 not_found", "404 not_found", "404 not_found"},
			`GET /api/sandbox/teach`:                    {"404 not_found", "404 not_found", "404 not_found"},
			`GET /teach.html`:                           {"404 not_found", "404 not_found", "404 not_found"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSandboxShop(t, c.env...)
			var admin struct{ Token string }
			sandboxtest.Call("POST", s.URL+"/api/login", "", `{"phone":"13900000000","password":"miaosha-demo"}`).Read(t, &admin)
			for request, want := range c.want {
				method, rest, _ := strings.Cut(request, " ")
				path, body, _ := strings.Cut(rest, " ")
				for i, token := range []string{"", s.demoLogin(t, "buyer", "buyer"), admin.Token} {
					if strings.Contains(path, "login") {
						token = "" // a log-in ends the session that it is made with
					}
					if got := outcome(sandboxtest.Call(method, s.URL+path, token, body)); got != want[i] {
						t.Errorf("%s by the caller %d: %s, want %s", request, i, got, want[i])
					}
				}
				if method == "POST" {
					if got := outcome(sandboxtest.Call(method, s.URL+path, admin.Token, body, "Sec-Fetch-Site", "cross-site")); got != "403 forbidden" {
						t.Errorf("%s from another site: %s", request, got)
					}
				}
			}
		})
	}
}

// Everyone knows the password of the demo shopkeeper, so that account is of this machine alone: from elsewhere there is no log-in, and
// a session that began here does nothing there. Buyers, and an administrator whose password is a secret, come from anywhere.
func TestTheDemoShopkeeperStaysAtThisMachine(t *testing.T) {
	t.Parallel()
	s := openSandboxShop(t, "MIAOSHA_ALLOW_LAN=true", "MIAOSHA_ADDR=0.0.0.0:0")
	keeper, buyer := `{"phone":"13900000000","password":"miaosha-demo"}`, `{"phone":"13800000000","password":"miaosha-demo"}`
	_, made, _ := strings.Cut(sandboxtest.MustCommand(t, s.env, "admin", "--phone", "13911112222", "--by", "13900000000"), "password: ")
	other := `{"phone":"13911112222","password":"` + strings.TrimSpace(made) + `"}`
	var here struct{ Token string }
	sandboxtest.Call("POST", s.URL+"/api/login", "", keeper).Read(t, &here)
	if r := sandboxtest.Call("GET", s.URL+"/api/admin/sales", here.Token, ""); r.Code != "ok" {
		t.Fatalf("the shopkeeper at this machine: %s", outcome(r))
	}
	type place struct {
		url     string
		headers []string
	}
	places := map[string]place{"through a proxy": {s.URL, []string{"X-Forwarded-For", "192.0.2.7"}}}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			places["from a network"] = place{strings.Replace(s.URL, "127.0.0.1", n.IP.String(), 1), nil}
		}
	}
	for name, at := range places {
		for _, c := range []struct{ method, path, token, body, want string }{
			{"POST", "/api/login", "", keeper, "403 local_only"},
			{"POST", "/api/login", "", buyer, "200 ok"},
			{"POST", "/api/login", "", other, "200 ok"},
			{"POST", "/api/sandbox/login", "", `{"as":"buyer"}`, "200 ok"},
			{"GET", "/api/me", here.Token, "", "403 local_only"},
			{"GET", "/api/admin/sales", here.Token, "", "403 local_only"},
			{"POST", "/api/sandbox/classes", here.Token, `{"title":"T"}`, "403 local_only"},
			{"POST", "/api/password", here.Token, `{"old":"miaosha-demo","new":"another password"}`, "403 local_only"},
			{"GET", "/api/lab/run", here.Token, "", "200 ok"}, // as a visitor
		} {
			if got := outcome(sandboxtest.Call(c.method, at.url+c.path, c.token, c.body, at.headers...)); got != c.want {
				t.Errorf("%s %s %s %s: %s, want %s", name, c.method, c.path, c.body, got, c.want)
			}
		}
	}
	if r := sandboxtest.Call("GET", s.URL+"/api/me", here.Token, ""); r.Code != "ok" {
		t.Errorf("a try from elsewhere has ended the session of this machine: %s", outcome(r))
	}
}

// One person sees a rush: a log-in and a crowd with one press each. The tour follows, and stays away once it is closed.
func TestOnePersonSeesARush(t *testing.T) {
	t.Parallel()
	root := chromium(t)
	s := openSandboxShop(t)
	sale := s.sale(t, "--title", "T", "--stock", "40")
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/login.html?next=" + "%2Fsale.html%3Fid%3D" + sale)
	v.sees(test("tour") + `[data-note="1"]`)
	v.clicks("as-buyer")
	v.sees(view("open"))
	v.sees(test("tour") + `[data-note="2"]`)
	v.clicks("tour-open") // in a small window it is a line
	v.clicks("tour-close")
	v.clicks("buy")
	v.sees(test("captcha-img"))
	v.clicks("send-bots")
	v.sees(test("bots") + `[data-state="running"]`)
	v.shows("left", "0") // without a reload
	v.sees(test("bots") + `[data-state="done"]`)
	v.shows("bots-bought", "40")
	v.shows("bots-soldOut", "460")
	v.shows("none-left", "All units are taken for now. You can still answer: one may become available.")
	v.types("captcha-input", s.answer(t, sale)+"\r")
	v.until("a buyer who was too late is told so", `document.querySelector('[data-view="sold_out"]')?.innerText.includes('You did not get one, and you were not charged.') === true`)
	v.goTo("/sale.html?id=" + sale)
	v.until("and again after a reload", `document.querySelector('[data-view="sold_out"]')?.innerText.includes('You did not get one, and you were not charged.') === true`)
	v.goTo("/")
	v.sees(test("lab-top"))
	v.until("the tour stays closed", `document.querySelector('[data-test="tour"]') === null`)
	v.clicks("tour-again")
	v.sees(test("tour") + `[data-note="1"]`)
	v.hasNoErrors()
	if out := sandboxtest.MustCommand(t, s.env, "audit"); !strings.Contains(out, "holds") {
		t.Error(out)
	}
}

// A link of the index opens the teaching panel at a fault, also for a visitor who has to become the shopkeeper first. The shopkeeper
// stops Redis for a moment: the breaker opens, and a buyer's questions are not answered. Then they are, the audit is clean, and the sale can
// be bought.
func TestRedisStopsFromThePanel(t *testing.T) {
	t.Parallel()
	if sandboxtest.Kind() == "embedded" {
		t.Skip("Redis is inside the process")
	}
	root := chromium(t)
	s := openSandboxShop(t, "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off") // it asks for the state in quick succession
	sale := s.sale(t, "--title", "T", "--stock", "40")
	admin := s.demoLogin(t, "admin", "admin")
	v := visit(t, root, s.URL, "en-GB")
	v.goTo("/teach.html#redis")
	v.clicks("as-buyer")
	v.sees(test("sale-card"))
	v.goTo("/teach.html#redis")
	v.clicks("as-admin")
	v.until("the fault of the address is marked and its button has the focus", `document.activeElement.dataset.test === 'fault-redis' && document.querySelector('[data-here]').id === 'redis'`)
	v.sees(test("breaker") + `[data-state="closed"]`)
	v.sees(test("pulse-redis") + `[data-state="ok"]`)
	v.until("the page notes what it shows", `(() => { // the fault may be over before the test looks
		window.shown = new Set();
		new MutationObserver(() => {
			for (const one of ['[data-test="lesson"][data-state="broken"]', '[data-test="pulse-redis"][data-state="busy"]', '[data-test="fault-flush"]:disabled'])
				if (document.querySelector(one)) window.shown.add(one);
		}).observe(document.body, { subtree: true, childList: true, attributes: true });
		return true;
	})()`)
	opened := func() (times int) { // it may be closed again before anyone looks
		var now struct{ Opened *int }
		r := sandboxtest.Call("GET", s.URL+"/api/sandbox/teach", admin, "")
		if json.Unmarshal(r.Data, &now) == nil && now.Opened != nil {
			times = *now.Opened
		}
		return times
	}
	before := opened()
	v.clicks("fault-redis")
	sandboxtest.Until(t, "the breaker opens", func() bool { return opened() > before })
	v.sees(test("lesson") + `[data-state="done"]`)
	v.until("Redis was stopped, was seen to be, and no second fault could begin", `window.shown.size === 3`)
	v.sees(test("breaker") + `[data-state="closed"]`)
	v.sees(test("pulse-redis") + `[data-state="ok"]`)
	if text := v.reads(test("lesson-audit")); !strings.Contains(text, "every invariant holds") {
		t.Errorf("the panel says %q", text)
	}
	v.goTo("/sale.html?id=" + sale)
	v.sees(view("open"))
	v.clicks("buy")
	v.sees(view("ordered"))
	v.hasNoErrors()
}

// lesson is what the teaching panel shows of a fault.
type lesson struct {
	State, Audit string
	Second       struct {
		PID, Accepted, Before, Orders int
	}
}

func (s sandboxShop) teach(t *testing.T, token, body string) (now lesson) {
	t.Helper()
	if r := sandboxtest.Call("POST", s.URL+"/api/sandbox/teach", token, body); r.Status != 200 {
		t.Fatalf("%s: %d %s", body, r.Status, r.Raw)
	}
	// A flush ends the session that asks.
	if r := sandboxtest.Call("POST", s.URL+"/api/sandbox/teach", token, body); outcome(r) != "503 busy" &&
		!(strings.Contains(body, "flush") && outcome(r) == "401 not_logged_in") {
		t.Errorf("a second fault beside the first: %s", outcome(r))
	}
	sandboxtest.Until(t, body+" is over", func() bool {
		r := sandboxtest.Call("GET", s.URL+"/api/sandbox/teach", token, "")
		if r.Status == 401 { // a flush has ended the session
			token = s.demoLogin(t, "admin", "admin")
		}
		var state struct{ Lesson lesson }
		if json.Unmarshal(r.Data, &state) == nil {
			now = state.Lesson
		}
		return now.State == "done" || now.State == "failed"
	})
	if now.State != "done" || now.Audit != "clean" {
		t.Errorf("%s: %+v", body, now)
	}
	return now
}

// A second process that is killed loses no ticket, Postgres goes on where it was stopped, and a flushed Redis is built again.
func TestFaultsFromThePanelEnd(t *testing.T) {
	t.Parallel()
	s := openSandboxShop(t, "MIAOSHA_RATE=off") // it asks for the state in quick succession
	admin := s.demoLogin(t, "admin", "admin")
	if second := s.teach(t, admin, `{"fault":"kill","seconds":2}`).Second; second.Accepted == 0 || second.Before >= second.Accepted || second.Orders < second.Accepted {
		t.Errorf("of the killed process: %+v; want tickets that were no orders at its death, and are now", second)
	}
	s.teach(t, admin, `{"fault":"postgres","seconds":1}`)
	s.teach(t, admin, `{"fault":"flush"}`)
}

// A shop that is killed while Redis is stopped leaves no stopped Redis behind: the next shop on its data opens at once.
func TestAStoppedServerGoesOnAfterKill(t *testing.T) {
	t.Parallel()
	if sandboxtest.Kind() == "embedded" {
		t.Skip("Redis is inside the process")
	}
	s := openSandboxShop(t)
	r := sandboxtest.Call("POST", s.URL+"/api/sandbox/teach", s.demoLogin(t, "admin", "admin"), `{"fault":"redis","seconds":15}`)
	if r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	var pid []byte
	sandboxtest.Until(t, "Redis is stopped", func() bool {
		var err error
		pid, err = os.ReadFile(filepath.Join(strings.TrimPrefix(s.env[2], "MIAOSHA_DATA_DIR="), "redis", "redis.pid"))
		stat, statErr := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err == nil && statErr == nil && strings.Contains(string(stat), ") T ")
	})
	s.End(syscall.SIGKILL)
	sandboxtest.Until(t, "Redis goes on", func() bool { // by itself it stays stopped for 15
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err == nil && !strings.Contains(string(stat), ") T ")
	})
	s.Shop = sandboxtest.Open(t, s.env)
	s.End(syscall.SIGTERM)
}
