package user

import (
	"context"
	"crypto/md5"
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
