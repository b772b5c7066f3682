package address

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/purpose"

	"miaosha/seckill/sandbox/sandboxtest"
)

var secret = []byte("a secret of thirty-two bytes ....")

func TestAddress(t *testing.T) {
	p, now := New(secret), time.UnixMilli(1_800_000_000_000)
	const user, sale, token = 42, 7, "session"
	address := p.Sign(user, sale, token, now.Add(time.Minute))
	if got, err := p.Verify(address, sale, token, now); err != nil || got != user {
		t.Fatalf("the right address: %d, %v", got, err)
	}
	if got, err := p.Verify(address, sale, token, now.Add(time.Minute-time.Millisecond)); err != nil || got != user {
		t.Errorf("in its last millisecond: %d, %v", got, err)
	}
	refused := func(what string, p *Signer, address string, sale int64, token string, now time.Time) {
		t.Helper()
		if got, err := p.Verify(address, sale, token, now); !errors.Is(err, ErrBad) || got != 0 {
			t.Errorf("%s: %d, %v, want ErrBad", what, got, err)
		}
	}
	refused("expired", p, address, sale, token, now.Add(time.Minute))
	refused("another sale", p, address, sale+1, token, now)
	refused("another session", p, address, sale, token+"x", now)
	refused("no session", p, address, sale, "", now)
	refused("another secret", New([]byte("another secret of 32 bytes ......")), address, sale, token, now)

	raw, err := base64.RawURLEncoding.DecodeString(address)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(raw) * 8 { // in the user, the expiry or the MAC: one of these texts names another user
		raw[bit/8] ^= 1 << (bit % 8)
		refused("a flipped bit", p, base64.RawURLEncoding.EncodeToString(raw), sale, token, now)
		raw[bit/8] ^= 1 << (bit % 8)
	}
	for bit := range len(address) * 8 {
		b := []byte(address)
		b[bit/8] ^= 1 << (bit % 8)
		refused("a flipped bit of the text", p, string(b), sale, token, now)
	}
	for what, text := range map[string]string{
		"nothing": "", "short": address[1:], "shorter": address[:40], "long": address + "A", "longer": address + address,
		"padded": address + "=", "a line break": address[:9] + "\n" + address[9:], "a break at the end": address + "\r",
		"a space": address + " ", "a break for a letter": address[:9] + "\n" + address[10:], "all zeros": strings.Repeat("A", len(address)),
	} {
		refused(what, p, text, sale, token, now)
	}
	// The standard base64 alphabet encodes the same bytes, but is refused.
	for i := range int64(100) {
		address := p.Sign(user+i, sale, token, now.Add(time.Minute))
		if other := strings.NewReplacer("-", "+", "_", "/").Replace(address); other != address {
			refused("another alphabet", p, other, sale, token, now)
		}
	}
}

// No text passes as an address, except the one made with the secret.
func FuzzVerify(f *testing.F) {
	p, now := New(secret), time.UnixMilli(1_800_000_000_000)
	right := p.Sign(42, 7, "session", now.Add(time.Minute))
	f.Add(right, int64(7), "session")
	f.Add(right, int64(8), "session")
	f.Add(right, int64(7), "other")
	f.Add(p.Sign(42, 7, "session", now.Add(-time.Minute)), int64(7), "session")
	f.Add(right[:10]+"\n"+right[10:], int64(7), "session")
	f.Add(right+"=", int64(7), "session")
	f.Add("", int64(0), "")
	f.Add(strings.Repeat("_", 64), int64(-1), "\x00")
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, address string, sale int64, token string) {
		defer slowest(address, sale, token)()
		user, err := p.Verify(address, sale, token, now)
		wantUser, wantErr := int64(0), ErrBad
		if address == right && sale == 7 && token == "session" {
			wantUser, wantErr = 42, nil
		}
		if user != wantUser || !errors.Is(err, wantErr) {
			t.Errorf("Verify(%q, %d, %q) = %d, %v, want %d, %v", address, sale, token, user, err, wantUser, wantErr)
		}
	})
}

// An address that is signed with the key of another purpose, or with the secret itself, is none.
func TestAnAddressHasTheKeyOfItsPurpose(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	keys := map[string][]byte{"secret": secret}
	for _, p := range purpose.All {
		keys[p.Name] = p.Key(secret)
	}
	for name, key := range keys {
		address := withKey(key).Sign(42, 7, "session", now.Add(time.Minute))
		if _, err := New(secret).Verify(address, 7, "session", now); (err == nil) != (name == purpose.HiddenAddress.Name) {
			t.Errorf("an address signed with the key of %s: %v", name, err)
		}
	}
}
