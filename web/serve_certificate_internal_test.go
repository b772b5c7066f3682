package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair writes a certificate with this number and these bounds, and its key, to files. It returns the texts of
// both.
func writePair(t *testing.T, cert, key string, number int64, from, to time.Time) (texts [2][]byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(number), DNSNames: []string{"shop.example"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	texts = [2][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})}
	for i, name := range []string{cert, key} {
		if err := os.WriteFile(name, texts[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// A renewed pair of files is served, one that cannot be used changes nothing and is said once, and an end that is
// near or over is said once a day.
func TestARenewedCertificateIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now().Truncate(time.Second)
	const day = 24 * time.Hour
	writePair(t, cert, key, 1, now.Add(-60*day), now.Add(30*day))
	c, err := openCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	step := func(name string, at time.Time, asked bool, number int64, says string) {
		t.Helper()
		out.Reset()
		c.look(at, asked, log)
		if got := c.current.Load().Leaf.SerialNumber.Int64(); got != number {
			t.Errorf("%s: number %d is served, want %d", name, got, number)
		}
		if says == "" && out.Len() > 0 || says != "" && (strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), says)) {
			t.Errorf("%s: the log says %q, want %q", name, out.String(), says)
		}
	}
	step("nothing new", now, false, 1, "")
	step("asked, and nothing new", now, true, 1, "has not changed")
	step("two weeks before the end", now.Add(17*day), false, 1, "expires soon")
	step("an hour later", now.Add(17*day+time.Hour), false, 1, "")
	step("a day later", now.Add(18*day), false, 1, "expires soon")
	step("after the end", now.Add(31*day), false, 1, "has expired")
	step("a second later", now.Add(31*day+time.Second), false, 1, "")
	renewed := writePair(t, cert, key, 2, now.Add(30*day), now.Add(120*day))
	step("renewed", now.Add(31*day), false, 2, "a new TLS certificate is served")
	step("and then", now.Add(31*day), false, 2, "")
	// The two files are not replaced at once.
	other := writePair(t, cert, key, 3, now, now.Add(90*day))
	if err := os.WriteFile(key, renewed[1], 0o600); err != nil {
		t.Fatal(err)
	}
	step("with the old key", now.Add(32*day), false, 2, "cannot be used")
	step("still with the old key", now.Add(32*day), false, 2, "")
	step("asked with the old key", now.Add(32*day), true, 2, "cannot be used")
	if err := os.WriteFile(key, other[1], 0o600); err != nil {
		t.Fatal(err)
	}
	step("with its own key", now.Add(32*day), false, 3, "a new TLS certificate is served")
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	step("gone", now.Add(33*day), false, 3, "cannot be used")
	step("still gone", now.Add(33*day), false, 3, "")
	if err := os.WriteFile(cert, other[0], 0o600); err != nil {
		t.Fatal(err)
	}
	step("back", now.Add(33*day), false, 3, "")
	writePair(t, cert, key, 4, now.Add(50*day), now.Add(90*day))
	out.Reset()
	c.look(now.Add(34*day), true, log)
	if text := out.String(); !strings.Contains(text, "a new TLS certificate is served") || !strings.Contains(text, "is not valid yet") {
		t.Errorf("of tomorrow: %s", text)
	}
}
