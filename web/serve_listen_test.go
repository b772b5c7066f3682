package web_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// pair writes a certificate for 127.0.0.1 and shop.example, and its key, to files.
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

// Over TLS the cookie is bound to this host and to TLS. The same port does not speak plain HTTP.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	shop := openShop(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key, "MIAOSHA_CAPTCHA=math")
	if !strings.HasPrefix(shop.URL, "https://") {
		t.Fatalf("it is open at %s", shop.URL)
	}
	const phone = "13811112222"
	asked := shop.insist("/api/otp", "", `{"phone":"`+phone+`"}`)
	r := shop.insist("/api/register", "", `{"phone":"`+phone+`","code":"`+codeIn(t, shop, phone)+`","password":"long enough","nickname":"n"}`, "Cookie", asked.Cookies())
	cookies := (&http.Response{Header: r.Header}).Cookies()
	if len(cookies) != 2 { // and the one of the device
		t.Fatalf("register: %s, cookies %v", outcome(r), cookies)
	}
	checkSecureCookie(t, cookies[0])
	others := (&http.Response{Header: asked.Header}).Cookies()
	others = append(others, (&http.Response{Header: shop.ask("GET", "/api/login/captcha", "", "").Header}).Cookies()...)
	var names []string
	for _, c := range append(others, cookies[1]) {
		names = append(names, c.Name)
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("the cookie %v is not for this host, TLS, HTTP and this site only", c)
		}
	}
	if want := []string{"__Host-code", "__Host-sum", "__Host-device"}; !slices.Equal(names, want) {
		t.Errorf("the other cookies are %v, want %v", names, want)
	}
	if r := shop.ask("GET", "/api/me", "", "", "Cookie", "__Host-session="+cookies[0].Value); r.Status != 200 {
		t.Errorf("with the cookie: %s", outcome(r))
	}
	if r := shop.ask("GET", "/api/me", "", "", "Cookie", "session="+cookies[0].Value); outcome(r) != "401 not_logged_in" {
		t.Errorf("with a name that another host can set: %s", outcome(r))
	}
	shop.checkHeaders("over TLS", "/api/me", r)
	plain := shop
	plain.Shop = &sandboxtest.Shop{URL: "http://" + strings.TrimPrefix(shop.URL, "https://")}
	if r := plain.ask("GET", "/api/slots", "", ""); r.Status != 400 || r.Code != "" {
		t.Errorf("plain HTTP at the same port: %d %s", r.Status, r.Raw)
	}
	old := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(shop.URL, "https://"), old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	weak := &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(shop.URL, "https://"), weak); err == nil {
		c.Close()
		t.Errorf("%s is spoken", tls.CipherSuiteName(c.ConnectionState().CipherSuite))
	}
}

// A request over TLS may come through a proxy. The shop believes a trusted proxy which says so, and no
// other client.
func TestTLSAtTheProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trusted, cookie, hsts string
	}{
		"a trusted proxy": {"127.0.0.0/8", "__Host-session", "max-age=31536000"},
		"a stranger":      {"10.0.0.0/8", "session", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t, "MIAOSHA_TRUSTED_PROXIES="+c.trusted)
			token := shop.tokens(1)[0]
			r := shop.ask("POST", "/api/logout", token, "", "X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1")
			cookies := (&http.Response{Header: r.Header}).Cookies()
			if len(cookies) != 1 {
				t.Fatalf("%s: cookies %v", outcome(r), cookies)
			}
			if cookies[0].Name != c.cookie || cookies[0].Secure != (c.hsts != "") {
				t.Errorf("%s: cookie %v", outcome(r), cookies[0])
			}
			if got := r.Header.Get("Strict-Transport-Security"); got != c.hsts {
				t.Errorf("%s: Strict-Transport-Security %q, want %q", outcome(r), got, c.hsts)
			}
		})
	}
}

// The files of a renewed certificate are served without a restart, at once on SIGHUP, and a connection that is open
// goes on.
func TestARenewedCertificateIsServedOnHangup(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	shop := openShop(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key, "MIAOSHA_IP_RATE=off") // or handshakes are limited
	old := dialTLS(t, shop)
	number := func(c *tls.Conn) string { return string(c.ConnectionState().PeerCertificates[0].Raw) }
	for _, hangup := range []bool{true, false} { // without a signal it takes some seconds
		before := number(dialTLS(t, shop))
		renewed, renewedKey := pair(t)
		for from, to := range map[string]string{renewed: cert, renewedKey: key} {
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
		}
		if hangup {
			shop.Signal(t, syscall.SIGHUP)
		}
		sandboxtest.Until(t, "the new certificate is served", func() bool { return number(dialTLS(t, shop)) != before })
	}
	if err := os.WriteFile(cert, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	shop.Signal(t, syscall.SIGHUP)
	sandboxtest.Until(t, "the broken file is said", func() bool { return strings.Contains(shop.Log.String(), "cannot be used") })
	if r := shop.ask("GET", "/api/slots", "", ""); r.Status != 200 {
		t.Errorf("with a broken file: %s", outcome(r))
	}
	io.WriteString(old, "GET /api/slots HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := bufio.NewReader(old).ReadString('\n'); !strings.Contains(line, "200") {
		t.Errorf("the connection from before the renewal: %q, %v", line, err)
	}
}

// dialTLS opens a connection for as long as the test.
func dialTLS(t *testing.T, shop testShop) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(shop.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
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
		"no certificate":             {[]string{"--tls-cert", cert + ".none", "--tls-key", key}, "--tls-cert"},
		"no PEM":                     {[]string{"--tls-cert", garbage, "--tls-key", key}, "--tls-cert"},
		"another's key":              {[]string{"--tls-cert", cert, "--tls-key", another}, "--tls-cert"},
		"no key":                     {[]string{"--tls-cert", cert}, "--tls-key"},
		"no chain":                   {[]string{"--tls-key", key}, "--tls-cert"},
		"a certificate and a domain": {[]string{"--tls-cert", cert, "--tls-key", key, "--tls-domain", "shop.example"}, "--tls-domain"},
	} {
		out, errs, code := sandboxtest.Command(t, stores, append([]string{"serve"}, c.args...)...)
		line := strings.TrimSpace(errs)
		if code != 1 || out != "" {
			t.Errorf("%s: exit code %d, output %q; want 1 and none", name, code, out)
		}
		if !strings.HasPrefix(line, "miaosha: ") || strings.Contains(line, "\n") {
			t.Errorf("%s: %q, want one line of miaosha", name, errs)
		}
		if !strings.Contains(line, c.says) {
			t.Errorf("%s: %q does not name %s", name, errs, c.says)
		}
	}
}

// A connection beyond the limit is answered busy. When another one closes, there is a place again.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_MAX_CONNS=2")
	open := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(shop.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET /api/slots HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return c
	}
	status := func(c net.Conn) (int, error) {
		c.SetReadDeadline(time.Now().Add(sandboxtest.Hang))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err
		}
		r.Body.Close()
		return r.StatusCode, nil
	}
	first, second := open(), open()
	for _, c := range []net.Conn{first, second} {
		if got, err := status(c); got != 200 {
			t.Fatalf("within the limit: %d, %v", got, err)
		}
	}
	shop.full()
	first.Close()
	sandboxtest.Until(t, "there is a place after another connection has closed", func() bool {
		third := open()
		got, _ := status(third)
		if got != 200 {
			third.Close()
		}
		return got == 200
	})
}

// full checks that a connection beyond the limit is answered busy. The shop waits a second for its request, so on a
// busy machine one may end without an answer.
func (shop testShop) full() {
	shop.t.Helper()
	var r sandboxtest.Reply
	sandboxtest.Until(shop.t, "an answer beyond the limit", func() bool {
		r = shop.ask("GET", "/api/slots", "", "", "Connection", "close")
		return r.Status != 0
	})
	if outcome(r) != "503 busy" || r.Header.Get("Retry-After") == "" {
		shop.t.Errorf("beyond the limit: %d %s, Retry-After %q", r.Status, r.Raw, r.Header.Get("Retry-After"))
	}
	shop.checkHeaders("beyond the limit", "/api/slots", r)
}

// A connection beyond the limit is answered busy over TLS too.
func TestFullIsToldOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := pair(t)
	shop := openShop(t, "MIAOSHA_TLS_CERT="+cert, "MIAOSHA_TLS_KEY="+key, "MIAOSHA_MAX_CONNS=1")
	only, err := tls.Dial("tcp", strings.TrimPrefix(shop.URL, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer only.Close()
	shop.full()
}

// Slow clients and fat requests are ended by the shop, which answers others meanwhile and keeps its memory.
func TestSlowAndFatRequestsEnd(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	shop.sale()
	stop := make(chan struct{})
	most, was := 0, resident(shop.PID())
	var watch sync.WaitGroup
	watch.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			if r := shop.call("GET", "/api/sales", "", ""); r.Status != 200 {
				t.Errorf("another client: %s", outcome(r))
			}
			most = max(most, resident(shop.PID()))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	shop.sendSlowAndFat(60)
	close(stop)
	watch.Wait()
	if grown := most - was; was > 0 && grown > 150 {
		t.Errorf("memory grew by %d MB", grown)
	}
}

// sendSlowAndFat sends many slow requests, a byte a second each, and fat ones, and checks how they end. It returns
// when they all have ended, with the time of the last slow one.
func (shop testShop) sendSlowAndFat(many int) (last time.Duration) {
	shop.t.Helper()
	t, addr := shop.t, strings.TrimPrefix(shop.URL, "http://")
	var crowd sync.WaitGroup
	// ended returns the last status of a connection, 0 for none, and whether the connection has ended.
	ended := func(c net.Conn) (int, bool) {
		c.SetReadDeadline(time.Now().Add(sandboxtest.Hang))
		in := bufio.NewReader(c)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return 0, !errors.Is(err, os.ErrDeadlineExceeded)
		}
		_, err = io.Copy(io.Discard, r.Body)
		if err == nil {
			_, err = in.ReadByte()
		}
		return r.StatusCode, !errors.Is(err, os.ErrDeadlineExceeded)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Errorf("connect: %v", err)
		}
		return c
	}
	began := time.Now()
	var open, longest atomic.Int64
	for i := range many {
		crowd.Go(func() {
			c := dial()
			if c == nil {
				return
			}
			defer c.Close()
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				status, over := ended(c)
				if !over {
					t.Error("a slow connection has not ended")
				}
				if status != 0 && status/100 != 4 {
					t.Errorf("a slow connection: status %d", status)
				}
				open.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(began))))
			}()
			head := "GET /api/sales HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + strings.Repeat("x", 60)
			if i%2 == 1 { // or the head at once and the body slowly
				whole := "POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
				io.WriteString(c, whole)
				head = strings.Repeat(" ", 100)
			}
			for _, b := range []byte(head) {
				select {
				case <-gone:
					return
				case <-time.After(time.Second): //timing: how slow the client is
				}
				c.Write([]byte{b})
			}
			<-gone
		})
	}
	fat := func(name, head string, chunk []byte, chunks int, wants ...int) {
		crowd.Go(func() {
			c := dial()
			if c == nil {
				return
			}
			defer c.Close()
			io.WriteString(c, head)
			wrote := make(chan int, 1)
			go func() {
				n := 0
				for ; n < chunks; n++ {
					if _, err := c.Write(chunk); err != nil {
						break
					}
				}
				wrote <- n * len(chunk)
			}()
			status, over := ended(c)
			c.Close()
			n := <-wrote
			if !over || !slices.Contains(wants, status) {
				t.Errorf("%s: status %d, ended %v", name, status, over)
			}
			if n > 64<<20 { // more than the sockets hold
				t.Errorf("%s: the shop has read %d MB", name, n>>20)
			}
		})
	}
	megabyte := make([]byte, 1<<20)
	chunk := append(append([]byte("100000\r\n"), megabyte...), "\r\n"...)
	for _, route := range []string{"POST /api/login", "POST /api/otp", "POST /api/payments/notify", "GET /api/sales", "POST /nothing"} {
		head := route + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
		wants := []int{413, 0} // 0: it was reset before the answer was read
		if !strings.Contains(route, "POST /api") {
			wants = []int{200, 404, 405, 0} // the shop does not read such a body
		}
		fat(route+" with a body of 1 GB", head+"Content-Length: 1073741824\r\n\r\n", megabyte, 1024, wants...)
		fat(route+" with 1 GB in chunks", head+"Transfer-Encoding: chunked\r\n\r\n", chunk, 1024, wants...)
		fat(route+" with headers of 10 MB", head+"X-Fat: ", []byte(strings.Repeat("x", 1<<20)), 10, 431, 0)
		fat(route+" with 10 MB of headers", head, []byte(strings.Repeat("X-Fat: "+strings.Repeat("x", 1015)+"\r\n", 1024)), 10, 431, 0)
	}
	crowd.Wait()
	if int(open.Load()) != many {
		t.Errorf("%d of %d slow connections ended", open.Load(), many)
	}
	return time.Duration(longest.Load())
}

// resident returns the memory of a process in MB, 0 if the system does not report it.
func resident(pid int) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kb, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return kb / 1024
}
