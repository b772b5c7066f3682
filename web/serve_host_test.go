package web_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/web"
)

var plainClient = &http.Client{Timeout: sandboxtest.Hang, Transport: &http.Transport{DisableKeepAlives: true}}

// askAs asks for a page by another name than the one in its URL.
func askAs(t *testing.T, host, url string, headers ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := plainClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// listen serves a shop without stores, and pages for the operator, with these settings until the end of the test. It
// returns the URL of each.
func listen(t *testing.T, settings web.Listen, proxy string) (shop, ops string) {
	t.Helper()
	return listenWith(t, settings, proxy, slog.New(slog.DiscardHandler))
}

// listenAndLog is listen without settings, with a log.
func listenAndLog(t *testing.T, log io.Writer) (shop string) {
	t.Helper()
	shop, _ = listenWith(t, web.Listen{}, "", slog.New(slog.NewTextHandler(log, nil)))
	return shop
}

func listenWith(t *testing.T, settings web.Listen, proxy string, log *slog.Logger) (shop, ops string) {
	t.Helper()
	settings.Addr, settings.OpsAddr = cmp.Or(settings.Addr, "127.0.0.1:0"), cmp.Or(settings.OpsAddr, "127.0.0.1:0")
	settings.MaxConns, settings.MaxShare = 100, 100
	ls, err := settings.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	cfg := web.Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off"}
	if proxy != "" {
		cfg.TrustedProxies = []string{proxy}
	}
	s, err := web.New(cfg, web.Deps{Log: log}, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- ls.Serve(ctx, s, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), log) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ls.URL(), ls.OpsURL()
}

// A page of another site that has the address 127.0.0.1 for a moment (DNS rebinding) still sends its own
// name. A shop on loopback answers to its own names alone.
func TestOtherHostNamesAreRefused(t *testing.T) {
	t.Parallel()
	own := []string{"127.0.0.1", "127.0.0.1:8080", "localhost", "LOCALHOST.:1", "shop.localhost", "[::1]:8080", "192.0.2.1"}
	foreign := []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost", "2130706433", "127.1"}
	for name, c := range map[string]struct {
		settings          web.Listen
		proxies           string
		answered, refused []string
		ops               bool // the operator's address refuses them too
	}{
		"on loopback":              {web.Listen{}, "", own, append(foreign, "shop.example"), true},
		"with a name":              {web.Listen{AllowHost: []string{"Shop.example", "b.example"}}, "", append(own, "shop.example:80", "Shop.Example", "b.example"), append(foreign, "a.shop.example"), true},
		"behind a trusted proxy":   {web.Listen{}, "127.0.0.0/8", append(own, foreign...), nil, true},
		"behind a proxy":           {web.Listen{}, "10.0.0.0/8", own, foreign, true},
		"open to others":           {web.Listen{Addr: "0.0.0.0:0", OpsAddr: "0.0.0.0:0"}, "", append(own, foreign...), nil, false},
		"open to others by a name": {web.Listen{Addr: "0.0.0.0:0", OpsAddr: "0.0.0.0:0", AllowHost: []string{"shop.example"}}, "", append(own, "shop.example"), foreign, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop, ops := listen(t, c.settings, c.proxies)
			for _, host := range c.answered {
				if status, body := askAs(t, host, shop+"/login.html"); status != 200 {
					t.Errorf("%s: %d %s", host, status, body)
				}
			}
			for _, host := range c.refused {
				status, body := askAs(t, host, shop+"/login.html", "Accept-Language", "en")
				var answer struct{ Code, Msg string }
				if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 403 || answer.Code != "forbidden" || !strings.Contains(answer.Msg, "--allow-host") {
					t.Errorf("%s: %d %s, want forbidden, and the setting's name", host, status, body)
				}
			}
			status, body := askAs(t, "evil.example", ops+"/metrics")
			if refused := status == 403 && strings.Contains(body, "--allow-host"); refused != c.ops || !refused && status != 200 {
				t.Errorf("the operator's address: %d %s", status, body)
			}
		})
	}
}

// The operator's address answers no page of another site.
func TestOpsRefuseOtherSites(t *testing.T) {
	t.Parallel()
	_, ops := listen(t, web.Listen{}, "")
	for _, c := range []struct {
		want    int
		headers []string
	}{
		{200, nil}, {200, []string{"Sec-Fetch-Site", "none"}}, {200, []string{"Sec-Fetch-Site", "same-origin"}}, {200, []string{"Origin", ops}},
		{403, []string{"Sec-Fetch-Site", "cross-site"}}, {403, []string{"Sec-Fetch-Site", "same-site"}},
		{403, []string{"Sec-Fetch-Site", "cross-site", "Origin", ops}}, {403, []string{"Origin", "http://evil.example"}},
		{403, []string{"Origin", "null"}}, {403, []string{"Origin", "http://127.0.0.1:1"}},
	} {
		for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/"} {
			if status, _ := askAs(t, strings.TrimPrefix(ops, "http://"), ops+path, c.headers...); status != c.want {
				t.Errorf("%s with %q: %d, want %d", path, c.headers, status, c.want)
			}
		}
	}
}

// A proxy that was set up with one line, proxy_pass, sends its own address or the shop's name as Host. The answer and
// the log say which header came and what to set, the log once a minute.
func TestAProxyThatIsNotSetUpIsExplained(t *testing.T) {
	t.Parallel()
	var log sandboxtest.SyncBuffer
	shop := listenAndLog(t, &log)
	for _, c := range []struct {
		name, host, method string
		headers            []string
		msg                []string // in the answer and, if there is a line, in the log
		lines              int
	}{
		{"its own address as Host", "", "POST", []string{"Origin", "http://shop.example"}, []string{"Origin", "http://shop.example", "Host", "127.0.0.1", "X-Forwarded-Proto", "--allow-host"}, 1},
		{"the name to a shop that does not know it", "shop.example", "GET", nil, []string{"shop.example", "Host", "--allow-host", "--trusted-proxies"}, 1},
		{"another site", "", "POST", []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"}, []string{"Sec-Fetch-Site: cross-site"}, 0},
	} {
		for _, language := range []string{"en", "zh"} {
			before := log.String()
			req, err := http.NewRequest(c.method, shop+"/api/login", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			req.Header.Set("Accept-Language", language)
			for i := 0; i < len(c.headers); i += 2 {
				req.Header.Set(c.headers[i], c.headers[i+1])
			}
			resp, err := plainClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var answer struct{ Code, Msg string }
			if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || resp.StatusCode != 403 || answer.Code != "forbidden" {
				t.Errorf("%s: %d %+v, %v", c.name, resp.StatusCode, answer, err)
			}
			said := strings.TrimPrefix(log.String(), before)
			want := c.lines
			if language == "zh" { // it is said already
				want = 0
			}
			if strings.Count(said, "\n") != want {
				t.Errorf("%s: the log says %q, want %d lines", c.name, said, want)
			}
			for _, part := range c.msg {
				if part = strings.ReplaceAll(part, ": ", map[string]string{"en": ": ", "zh": "："}[language]); !strings.Contains(answer.Msg, part) || want > 0 && !strings.Contains(strings.ToLower(strings.ReplaceAll(said, "_", "-")), strings.ToLower(part)) {
					t.Errorf("%s: %q is not in the answer %q, or not in the log %q", c.name, part, answer.Msg, said)
				}
			}
		}
	}
}
