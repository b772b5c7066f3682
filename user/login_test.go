package user

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestLogin(t *testing.T) {
	s := newShop(t)
	want := s.register(t, phone, "correct horse")
	if got, err := s.Login(t.Context(), phone, "correct horse", address); err != nil || got != want {
		t.Errorf("Login = %+v, %v; want %+v", got, err, want)
	}
	for _, c := range [][2]string{
		{phone, "battery staple"}, {phone, ""}, {phone, "correct horse "}, {"13800000009", "correct horse"}, {"", ""},
		{"13800000001\x00", "correct horse"}, {strings.Repeat("1", 4000), "x"}, {"' or 1=1 --", "x"},
		{phone, strings.Repeat("x", 4000)},
	} {
		if _, err := s.Login(t.Context(), c[0], c[1], address); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login(%.20q, %.20q): %v, want ErrWrongPassword", c[0], c[1], err)
		}
	}
}

// Log-ins, right and wrong, are written down: who and from where, without phone and password.
func TestLogInsAreWrittenDown(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "correct horse", address); err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{phone, "my-password-here", "19900101"} {
		if _, err := s.Login(t.Context(), typed, "battery staple", address); !errors.Is(err, ErrWrongPassword) {
			t.Fatal(err)
		}
	}
	log := s.logged.String()
	for _, want := range []string{fmt.Sprintf(`msg="logged in" user=%d addr=%s`, u.ID, address),
		fmt.Sprintf(`msg="log-in refused" phone=%s addr=%s`, masked(phone), address), `msg="log-in refused" phone=***`} {
		if !strings.Contains(log, want) {
			t.Errorf("not in the log: %s", want)
		}
	}
	for _, secret := range []string{phone, "correct horse", "battery staple", "my-pass", "here", "1990", "0101"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log:\n%s", secret, log)
		}
	}
}

func TestAnAccountWithoutPasswordLogsInWithNone(t *testing.T) {
	s := newShop(t)
	if _, err := s.db.Exec(t.Context(), `insert into users (phone) values ($1)`, phone); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "\x00", nobody} {
		if _, err := s.Login(t.Context(), phone, password, address); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login with %q: %v, want ErrWrongPassword", password, err)
		}
	}
}

// Every log-in costs one hash, so that the time tells nothing. The hasher has no room here: who hashes is ErrBusy.
func TestEveryLoginHashesOnce(t *testing.T) {
	s := newShop(t)
	s.register(t, phone, "correct horse")
	s.old(t, "13800000002", "correct horse")
	s.hashes = newHasher(1)
	s.hashes.queue = 0
	s.hashes.slots <- struct{}{}
	for _, phone := range []string{phone, "13800000002", "13800000003", "no phone"} {
		if _, err := s.Login(t.Context(), phone, "correct horse", address); !errors.Is(err, ErrBusy) {
			t.Errorf("Login of %s: %v, want ErrBusy", phone, err)
		}
	}
}

// A crowd costs neither Redis nor Postgres a question: who finds no room is told so before his try is counted.
func TestACrowdIsTurnedAwayAtTheDoor(t *testing.T) {
	s := newShop(t)
	s.hashes = newHasher(1)
	room := 1 + int(s.hashes.queue)
	for i := range room {
		if err := s.hashes.admit(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		if _, err := s.Login(t.Context(), phone, "correct horse", address); !errors.Is(err, ErrBusy) {
			t.Fatalf("Login: %v, want ErrBusy", err)
		}
	}
	if keys := s.rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("Redis was asked: %v", keys)
	}
	s.hashes.dismiss("0")
	for range 2 { // and the place is free again after each
		if _, err := s.Login(t.Context(), phone, "correct horse", address); !errors.Is(err, ErrWrongPassword) {
			t.Errorf("Login with room for one: %v, want ErrWrongPassword", err)
		}
	}
}

// One network takes half of the places, however many it asks for.
func TestOneNetworkDoesNotFillTheQueue(t *testing.T) {
	h := newHasher(1)
	took := 0
	for h.admit("192.0.2.1") == nil {
		took++
	}
	if took != 8 {
		t.Errorf("one network has %d places of 17, want 8", took)
	}
	if err := h.admit("192.0.2.2"); err != nil {
		t.Errorf("another: %v", err)
	}
	h.dismiss("192.0.2.1")
	if h.admit("192.0.2.1") != nil || h.admit("192.0.2.1") == nil {
		t.Error("a place that is given back is free for one")
	}
	h.dismiss("192.0.2.2")
	for range took {
		h.dismiss("192.0.2.1")
	}
	if h.inside != 0 || len(h.of) != 0 {
		t.Errorf("%d inside, of %v; want none", h.inside, h.of)
	}
}

func TestChangePassword(t *testing.T) {
	s := newShop(t)
	u := s.register(t, phone, "correct horse")
	for _, c := range []struct {
		id       int64
		old, new string
		want     error
	}{
		{u.ID, "wrong horse", "battery staple", ErrWrongPassword},
		{u.ID + 1, "correct horse", "battery staple", ErrNotFound},
		{u.ID, "correct horse", "short", InvalidError{"password", "length"}},
		{u.ID, "correct horse", "battery staple", nil},
		{u.ID, "correct horse", "battery staple", ErrWrongPassword},
	} {
		if err := s.ChangePassword(t.Context(), c.id, c.old, c.new); !errors.Is(err, c.want) {
			t.Errorf("ChangePassword(%d, %s, %s): %v, want %v", c.id, c.old, c.new, err, c.want)
		}
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", address); err != nil {
		t.Errorf("log-in with the new password: %v", err)
	}
}

func TestOfRacingChangesOneWins(t *testing.T) {
	for _, kind := range []string{"account of ours", "account of the older systems"} {
		t.Run(kind, func(t *testing.T) {
			s := newShop(t)
			var id int64
			if kind == "account of ours" {
				id = s.register(t, phone, "correct horse").ID
			} else {
				id = s.old(t, phone, "correct horse")
			}
			errs := together(4, func(i int) error {
				return s.ChangePassword(t.Context(), id, "correct horse", fmt.Sprint("battery staple ", i))
			})
			if ok, refused, other := count(errs, ErrWrongPassword); ok != 1 || refused != 3 {
				t.Errorf("%d changed it, %d were wrong, other: %v; want 1, 3, none", ok, refused, other)
			}
		})
	}
}

func TestAnOldAccountIsUpgradedByItsFirstLogin(t *testing.T) {
	s := newShop(t)
	id := s.old(t, phone, "correct horse")
	if _, err := s.Login(t.Context(), phone, "battery staple", address); !errors.Is(err, ErrWrongPassword) {
		t.Fatalf("wrong password: %v, want ErrWrongPassword", err)
	}
	if a, err := s.byPhone(t.Context(), phone); err != nil || a.LegacyHash == nil {
		t.Fatalf("after a wrong password: %+v, %v; want the old hash still there", a, err)
	}
	errs := together(3, func(int) error {
		u, err := s.Login(t.Context(), phone, "correct horse", address)
		if err == nil && u.ID != id {
			return fmt.Errorf("logged in as %d, want %d", u.ID, id)
		}
		return err
	})
	if ok, _, other := count(errs, ErrWrongPassword); ok != 3 {
		t.Errorf("%d of 3 first log-ins went well, other: %v", ok, other)
	}
	var left bool
	err := s.db.QueryRow(context.Background(), `
		select legacy_hash is not null or legacy_salt is not null or password_hash not like '$argon2id$%'
		from   users
		where  id = $1`, id).Scan(&left)
	if err != nil || left {
		t.Errorf("the account still has an MD5: %v, %v", left, err)
	}
	if _, err := s.Login(t.Context(), phone, "correct horse", address); err != nil {
		t.Errorf("second log-in: %v", err)
	}
	if _, err := s.Login(t.Context(), phone, "battery staple", address); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("wrong password after the upgrade: %v, want ErrWrongPassword", err)
	}
}

// old adds an account as the older systems have it; the MD5 is worked out here once more, on its own.
func (s shop) old(t *testing.T, phone, password string) (id int64) {
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
