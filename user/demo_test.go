package user

import (
	"errors"
	"testing"
)

func TestSeed(t *testing.T) {
	s := newShop(t)
	demo := User{Phone: phone, Nickname: "demo", Role: RoleAdmin}
	id, err := s.Seed(t.Context(), demo, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	seeded, err := s.Login(t.Context(), phone, "correct horse", from)
	if want := (User{ID: id, Phone: phone, Nickname: "demo", Role: RoleAdmin}); err != nil || seeded.User != want {
		t.Errorf("the account is %+v, %v; want %+v", seeded, err, want)
	}
	if other, err := s.Seed(t.Context(), User{Phone: phone, Nickname: "other", Role: RoleBuyer}, "battery staple"); err != nil || other != id {
		t.Fatalf("a second Seed returns the account %d, %v; want %d", other, err, id)
	}
	if again, err := s.Login(t.Context(), phone, "correct horse", from); err != nil || again.User != seeded.User {
		t.Errorf("after a second Seed the account is %+v, %v; want %+v", again, err, seeded)
	}
	for password, want := range map[string]bool{"correct horse": true, "battery staple": false} {
		if has, err := s.StaffHas(t.Context(), phone, password); err != nil || has != want {
			t.Errorf("the administrator has the password %q: %t, %v", password, has, err)
		}
	}
	if has, err := s.StaffHas(t.Context(), "13811112222", "correct horse"); err != nil || has {
		t.Errorf("no account has a password: %t, %v", has, err)
	}
	if _, err := s.Seed(t.Context(), User{Phone: "12", Role: RoleBuyer}, "correct horse"); !errors.As(err, &InvalidError{}) {
		t.Errorf("Seed with an invalid phone: %v, want InvalidError", err)
	}
}
