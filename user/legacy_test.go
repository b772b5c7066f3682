package user

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
)

func TestAnOldAccountIsUpgradedByItsFirstLogin(t *testing.T) {
	s := newShop(t)
	id := s.old(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "battery staple", from); !errors.Is(err, ErrWrongPassword) {
		t.Fatalf("wrong password: %v, want ErrWrongPassword", err)
	}
	if a, err := s.byPhone(t.Context(), phone); err != nil || a.LegacyHash == nil {
		t.Fatalf("after a wrong password: %+v, %v; want the old hash", a, err)
	}
	errs := together(3, func(int) error {
		u, err := s.Login(t.Context(), phone, "correct horse", from)
		if err == nil && u.ID != id {
			return fmt.Errorf("logged in as %d, want %d", u.ID, id)
		}
		return err
	})
	if ok, _, other := count(errs, ErrWrongPassword); ok != 3 {
		t.Errorf("%d of 3 first log-ins succeeded, other: %v", ok, other)
	}
	var left bool
	err := s.db.QueryRow(context.Background(), `
		select legacy_hash is not null or legacy_salt is not null or password_hash not like '$argon2id$%'
		from   users
		where  id = $1`, id).Scan(&left)
	if err != nil || left {
		t.Errorf("the account still has an MD5: %v, %v; want false", left, err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", from); err != nil {
		t.Errorf("second log-in: %v", err)
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", from); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("wrong password after the upgrade: %v, want ErrWrongPassword", err)
	}
}

// The first MD5, which the browsers of the older systems sent, was all that their servers asked for: whoever had it could log in without
// the password. Here it is no password.
func TestTheFirstMD5IsNoPassword(t *testing.T) {
	s := newShop(t)
	s.old(t, phone, "correct horse")
	first := fmt.Sprintf("%x", md5.Sum([]byte("correct horse"+"1a2b3c4d")))
	var stored string
	if err := s.db.QueryRow(t.Context(), `select legacy_hash from users where phone = $1`, phone).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if sent := fmt.Sprintf("%x", md5.Sum([]byte(first+"its own salt"))); sent != stored {
		t.Fatalf("an older server would refuse %s: %s, want %s", first, sent, stored)
	}
	t.Logf("an older server stores %s and lets in whoever sends %s", stored, first)
	if _, err := s.Login(t.Context(), phone, first, from); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("log-in with the first MD5: %v, want ErrWrongPassword", err)
	}
}

// BenchmarkHashes measures what a try of a password costs whoever has stolen the stored hashes.
func BenchmarkHashes(b *testing.B) {
	b.Run("md5 twice", func(b *testing.B) {
		for b.Loop() {
			first := md5.Sum([]byte("correct horse" + "1a2b3c4d"))
			md5.Sum(append(hex.AppendEncode(nil, first[:]), "its own salt"...))
		}
	})
	b.Run("argon2id", func(b *testing.B) {
		h := newHasher(1)
		for b.Loop() {
			if _, err := h.hash(b.Context(), inTurn, "correct horse"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// old adds an account of the older systems. It computes the MD5 without the code under test.
func (s testShop) old(t *testing.T, phone, password string) (id int64) {
	t.Helper()
	inner := fmt.Sprintf("%x", md5.Sum([]byte(password+"1a2b3c4d")))
	outer := fmt.Sprintf("%x", md5.Sum([]byte(inner+"its own salt")))
	err := s.db.QueryRow(t.Context(), `
		insert into users (phone, legacy_hash, legacy_salt)
		values ($1, $2, 'its own salt')
		returning id`, phone, outer).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Rows of the arrangements that older systems have. Those of the characters are the ones that a course prints.
func TestLegacyPatterns(t *testing.T) {
	const fixed, chars = "{fixed[0]}{fixed[2]}{password}{fixed[5]}{fixed[4]}", "{salt[0]}{salt[2]}{password}{salt[5]}{salt[4]}"
	hex := func(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text))) }
	for _, c := range []struct{ first, second, hash string }{
		{"{password}{fixed}", "{password}{salt}", hex(hex("123456"+"1a2b3c4d") + "1a2b3c4d")},
		{"{fixed}{password}", "{salt}{password}", hex("1a2b3c4d" + hex("1a2b3c4d"+"123456"))},
		{"{fixed}{password}", "{password}{salt}", hex(hex("1a2b3c4d"+"123456") + "1a2b3c4d")},
		{fixed, chars, "b7797cce01b4b131b433b6acf4add449"},
		{"12{password}c3", chars, "b7797cce01b4b131b433b6acf4add449"},
	} {
		cfg := Config{SMS: "off", SessionCopies: freshFor, LegacySalt: "1a2b3c4d", LegacyPattern: c.first, LegacyRowPattern: c.second}
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s and %s: %v", c.first, c.second, err)
		}
		if !cfg.legacyMatches("123456", "1a2b3c4d", c.hash) {
			t.Errorf("%s and %s do not match %s", c.first, c.second, c.hash)
		}
		for _, wrong := range [][2]string{{"123457", "1a2b3c4d"}, {"", "1a2b3c4d"}, {"123456", "x1y2z3w4"}, {"123456", ""}} {
			if cfg.legacyMatches(wrong[0], wrong[1], c.hash) {
				t.Errorf("%s and %s match %q with the salt %q", c.first, c.second, wrong[0], wrong[1])
			}
		}
	}
	short := Config{LegacyPattern: "{password}", LegacyRowPattern: chars}
	if short.legacyMatches("123456", "1a2b", hex("12"+hex("123456"))) {
		t.Error("a salt that is too short for the pattern matches")
	}
	for _, wrong := range []string{"", "{fixed}", "{password}{password}", "{password}{salt}", "{password}{fixed[-1]}", "{password}{fixed[8]}", "{password}{fixed", "{Password}"} {
		if err := (Config{SMS: "off", SessionCopies: freshFor, LegacySalt: "1a2b3c4d", LegacyPattern: wrong, LegacyRowPattern: "{password}"}).Validate(); err == nil {
			t.Errorf("the pattern %q is accepted", wrong)
		}
	}
}
