package user

import (
	"errors"
	"fmt"
	"testing"
)

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

func TestOneOfConcurrentChangesWins(t *testing.T) {
	for _, kind := range []string{"new account", "account of the older systems"} {
		t.Run(kind, func(t *testing.T) {
			s := newShop(t)
			var id int64
			if kind == "new account" {
				id = s.register(t, phone, "correct horse").ID
			} else {
				id = s.old(t, phone, "correct horse")
			}
			errs := together(4, func(i int) error {
				return s.ChangePassword(t.Context(), id, "correct horse", fmt.Sprint("battery staple ", i))
			})
			if ok, refused, other := count(errs, ErrWrongPassword); ok != 1 || refused != 3 {
				t.Errorf("%d changes succeeded, %d had a wrong password, other: %v; want 1, 3, none", ok, refused, other)
			}
		})
	}
}
