package web

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A shop that gets its certificate by itself has one for its own name only, and requests none for
// another name.
func TestAutomaticCertificateIsForOneNameAlone(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "miaosha-certificates")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shop.example"), kept(t, "shop.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.example"), kept(t, "other.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	ls, err := Listen{Addr: "127.0.0.1:0", OpsAddr: "off", MaxConns: 1, MaxShare: 25, TLSDomain: "shop.example"}.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	defer ls.Close()
	if ls.tls.MinVersion != tls.VersionTLS12 || !slices.Equal(ls.tls.CipherSuites, cipherSuites) {
		t.Errorf("with an automatic certificate: TLS from %s, cipher suites %x", tls.VersionName(ls.tls.MinVersion), ls.tls.CipherSuites)
	}
	hello := func(name string) (*tls.Certificate, error) {
		return ls.tls.GetCertificate(&tls.ClientHelloInfo{ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13},
			CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
			SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}})
	}
	for _, name := range []string{"shop.example", "SHOP.example"} {
		if c, err := hello(name); err != nil || len(c.Certificate) != 1 {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"other.example", "www.shop.example", "shop.example.evil.example", "127.0.0.1", "localhost", "", "../shop"} {
		c, err := hello(name)
		if c != nil || err == nil {
			t.Fatalf("%q: there is a certificate", name)
		}
		if !strings.HasPrefix(err.Error(), "acme/autocert: ") {
			t.Errorf("%q: %v, want the manager's own refusal", name, err)
		}
	}
	if !slices.Contains(ls.tls.NextProtos, "h2") || ls.tls.MinVersion != 0 && ls.tls.MinVersion < tls.VersionTLS12 {
		t.Errorf("protocols %v, at least %x", ls.tls.NextProtos, ls.tls.MinVersion)
	}
	if !strings.HasPrefix(ls.URL(), "https://") {
		t.Errorf("it is at %s", ls.URL())
	}
}

// kept returns a certificate of ninety days as the manager stores it: the key, then the chain.
func kept(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
}

// A shop that stops accepts no connections, so a proxy turns to another process. A request that the proxy sends
// meanwhile on a connection that it has is answered, and is the last one there.
func TestAShopThatStopsAnswersOnTheConnectionsOfProxies(t *testing.T) {
	s, err := New(Config{Rate: "off", IPRate: "off", TimeZone: "UTC", Cashier: "off", TrustedProxies: []string{"10.0.0.0/8"}}, Deps{Log: slog.New(slog.DiscardHandler)}, "")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		l, limit := newPipeListener(), newConnLimit(10, 100)
		over := newOverflow(l)
		ls := &Listeners{config: Listen{MaxConns: 10}, shop: &limitedListener{l, limit, over}, limit: limit, overflow: over}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error)
		go func() { served <- ls.Serve(ctx, s, nil, s.Log) }()
		conn := l.dial()
		defer conn.Close()
		in := bufio.NewReader(conn)
		ask := func() (status int, last bool) {
			t.Helper()
			fmt.Fprint(conn, "GET /login.html HTTP/1.1\r\nHost: shop.example\r\n\r\n")
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Errorf("no answer: %v", err)
				return 0, false
			}
			io.Copy(io.Discard, resp.Body)
			return resp.StatusCode, resp.Close
		}
		if status, last := ask(); status != 200 || last {
			t.Errorf("before: %d, the last answer: %t", status, last)
		}
		stop()
		synctest.Wait()
		if _, err := l.Accept(); err == nil {
			t.Error("the shop goes on to accept connections")
		}
		time.Sleep(proxyLimit / 2)
		if status, last := ask(); status != 200 || !last {
			t.Errorf("after the stop: %d, the last answer: %t", status, last)
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("after the last answer: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("the shop ended with %v", err)
		}
	})
}
