package web_test

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// Over TLS the cookie is bound to this host and to TLS, and plain HTTP is not spoken on the same port.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	h := openHouse(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key)
	if !strings.HasPrefix(h.URL, "https://") {
		t.Fatalf("it is open at %s", h.URL)
	}
	const phone = "13811112222"
	h.ask("POST", "/api/otp", "", `{"phone":"`+phone+`"}`)
	r := h.ask("POST", "/api/register", "", `{"phone":"`+phone+`","code":"`+codeIn(t, h, phone)+`","password":"long enough","nickname":"n"}`)
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("register: %s, cookies %v", told(r), cookies)
	}
	if c := cookies[0]; c.Name != "__Host-session" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" ||
		c.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %s", c.Raw)
	}
	if r := h.ask("GET", "/api/me", "", "", "Cookie", "__Host-session="+cookies[0].Value); r.Status != 200 {
		t.Errorf("with the cookie: %s", told(r))
	}
	if r := h.ask("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value); told(r) != "401 not_logged_in" {
		t.Errorf("with the name that another host could set: %s", told(r))
	}
	h.guarded("over TLS", "/api/me", r)
	plain := h
	plain.Shop = &sandboxtest.Shop{URL: "http://" + strings.TrimPrefix(h.URL, "https://")}
	if r := plain.ask("GET", "/api/slots", "", ""); r.Status != 400 || r.Code != "" {
		t.Errorf("plain HTTP at the same port: %d %s", r.Status, r.Raw)
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(h.URL, "https://"), old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// Who connects beyond the bound is told so over TLS, too.
func TestFullIsToldOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	h := openHouse(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key, "MIAOSHA_MAX_CONNS=1")
	only, err := tls.Dial("tcp", strings.TrimPrefix(h.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	r := h.ask("GET", "/api/slots", "", "")
	if r.Status != 503 || r.Code != "busy" || r.Header.Get("Retry-After") == "" {
		t.Errorf("beyond the bound: %d %s", r.Status, r.Raw)
	}
	h.guarded("beyond the bound", "/api/slots", r)
}

// Behind a proxy that is trusted and says so it is TLS all the same; anybody else's word counts nothing.
func TestTLSAtTheProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted, cookie, hsts string
	}{
		"a trusted one": {"127.0.0.0/8", "__Host-session", "max-age=31536000"},
		"a stranger":    {"10.0.0.0/8", "session", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHouse(t, "MIAOSHA_TRUSTED_PROXIES="+c.trusted)
			token := h.buyers(1)[0]
			r := h.ask("POST", "/api/logout", token, "", "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1")
			cookies := (&http.Response{Header: r.Header}).Cookies()
			if len(cookies) != 1 || cookies[0].Name != c.cookie || cookies[0].Secure != (c.hsts != "") ||
				r.Header.Get("Strict-Transport-Security") != c.hsts {
				t.Errorf("%s: cookies %v, %v", told(r), cookies, r.Header)
			}
		})
	}
}

func TestBrokenTLSSettingsStopTheStart(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	_, another := pair(t)
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	if err := os.WriteFile(garbage, []byte("-----BEGIN NOTHING-----"), 0o600); err != nil {
		t.Fatal(err)
	}
	stores := sandboxtest.Stores(t)
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no certificate":    {[]string{"--tls-cert", cert + ".none", "--tls-key", key}, "--tls-cert"},
		"no PEM":            {[]string{"--tls-cert", garbage, "--tls-key", key}, "--tls-cert"},
		"another's key":     {[]string{"--tls-cert", cert, "--tls-key", another}, "--tls-cert"},
		"no key":            {[]string{"--tls-cert", cert}, "--tls-key"},
		"no chain":          {[]string{"--tls-key", key}, "--tls-cert"},
		"both ways at once": {[]string{"--tls-cert", cert, "--tls-key", key, "--tls-domain", "shop.example"}, "--tls-domain"},
	} {
		out, errs, code := sandboxtest.Command(t, stores, append([]string{"serve"}, c.args...)...)
		line := strings.TrimSpace(errs)
		if code != 1 || out != "" || strings.Contains(line, "\n") || !strings.HasPrefix(line, "miaosha: ") || !strings.Contains(line, c.says) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, out, errs)
		}
	}
}
