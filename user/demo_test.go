package user

import (
	"errors"
	"testing"
)

func TestSeed(t *testing.T) {
	s := newShop(t)
	demo := User{Phone: phone, Nickname: "demo", Role: RoleAdmin}
	if err := s.Seed(t.Context(), demo, "correct horse"); err != nil {
		t.Fatal(err)
	}
	seeded, err := s.Login(t.Context(), phone, "correct horse", from)
	if want := (User{ID: seeded.ID, Phone: phone, Nickname: "demo", Role: RoleAdmin}); err != nil || seeded.User != want {
		t.Errorf("the account is %+v, %v; want %+v", seeded, err, want)
	}
	if err := s.Seed(t.Context(), User{Phone: phone, Nickname: "other", Role: RoleBuyer}, "battery staple"); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Login(t.Context(), phone, "correct horse", from); err != nil || again.User != seeded.User {
		t.Errorf("after a second Seed the account is %+v, %v; want %+v", again, err, seeded)
	}
	if err := s.Seed(t.Context(), User{Phone: "12", Role: RoleBuyer}, "correct horse"); !errors.As(err, &InvalidError{}) {
		t.Errorf("Seed with an invalid phone: %v, want InvalidError", err)
	}
}
